# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What is typed for `lab/machines shell` runs in the guest that it names: of four, two that the other two do not know of."""
import os
import subprocess

import pytest
from fabric import BUILD

from lab.guests import LAB

ENDS_S = 900
TYPED = '''\
2 ibv_rc_pingpong -g 1 -n 100 -c &
3 sh -c 'until ibv_rc_pingpong -g 1 -n 100 -c 192.0.2.3; do sleep 1; done'
7 true
'''


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_four(lab):
    done = subprocess.run([LAB / 'machines', 'shell', '--guests', '4'], input=TYPED, capture_output=True, text=True, timeout=ENDS_S,
                          env={**os.environ, 'WEFT_BUILD': str(BUILD)}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('\n100 iters in ') == 2 and done.stdout.count('-- status 0') == 2, done.stdout
    assert "a guest's number, and a command" in done.stdout
