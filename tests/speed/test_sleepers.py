# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What `weft bench --events` measures has not become much slower: a row fails here only at thrice its bound in
three runs in a row, as those of test_spine.py do. `make bench` holds each to its bound."""
import json
import os
import re
import subprocess

import pytest

from fabric import BUILD

pytestmark = pytest.mark.alone

FAR = 3


def far_off(row):
    bound = re.search(r'[\d.]+', row['bound'])
    if not bound:
        return False
    bound = float(bound[0])
    return row['ratio'] > bound * FAR if '≤' in row['bound'] else row['ratio'] < bound / FAR


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason='needs two cores')
def test_no_sleeper_is_far_from_its_bound():
    slow = None
    for _ in range(3):
        done = subprocess.run([BUILD / 'weft', 'bench', '--events', '--quick', '--rounds', '1', '--json'],
                              check=False, capture_output=True)
        rows = json.loads(done.stdout)['events']
        assert len(rows) >= 13
        now = {(row['name'], row['theirs']) for row in rows if far_off(row)}
        slow = now if slow is None else slow & now
        if not slow:
            return
    pytest.fail(f'{sorted(slow)}: see weft bench --events')
