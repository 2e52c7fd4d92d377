# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What is posted inline is read by the CPU, which does not reach memory of a GPU: a process that has registered some looks before.
What that costs is counted in instructions, which noise does not change."""
import os
import subprocess
from pathlib import Path

import pytest
from fabric import executed

BUILD = Path(os.environ.get('WEFT_BUILD', Path(__file__).resolve().parents[2] / 'build')).resolve()
COUNT = 3200
MOST = 60


def instructions(folder, regions):
    """How many instructions posting takes, for each WRITE."""
    out = folder / f'{regions}'
    env = {**os.environ, 'LD_LIBRARY_PATH': str(BUILD / 'tests/softgpu')}
    done = subprocess.run(['valgrind', '-q', '--tool=callgrind', '--toggle-collect=look_at_inline*', f'--callgrind-out-file={out}',
                           BUILD / 'tests/gpu/inline', str(COUNT), str(regions)], env=env, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return executed(out) / COUNT


def test_without(tmp_path):
    assert instructions(tmp_path, 0) == 0


@pytest.mark.parametrize('regions', [1, 64])
def test_look(tmp_path, regions):
    each = instructions(tmp_path, regions)
    print(f'{regions} regions: {each:.1f} instructions for each WRITE')
    assert 0 < each <= MOST
