# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Arming a completion queue while another process completes into it: no wake-up is lost."""
import re

import pytest

pytestmark = pytest.mark.alone


@pytest.mark.parametrize('count', [1_000_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_no_wake_up_is_lost(fabric, count):
    out = fabric.run(fabric.program('armings'), count, seconds=60 + count / 5000).stdout
    armed, slept = map(int, re.findall(r'\d+', out))
    assert armed >= count
    assert slept > 0
