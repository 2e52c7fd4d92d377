# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Arming a completion queue while a process of another host completes into it: no wake-up is lost, though each waits for the helper
to look (test_wake.c says how long)."""
import re

import pytest

pytestmark = pytest.mark.alone


@pytest.mark.parametrize('count', [10_000, pytest.param(100_000, marks=pytest.mark.slow),
                                   pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_no_wake_up_is_lost(either, count):
    out = either.start(either.program('armings'), count, 1).done(60 + count / 100).stdout
    armed, slept = map(int, re.findall(r'\d+', out))
    print(out)
    assert armed >= count
    assert slept > count / 2
