# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Arming a completion queue while another process completes into it: no wake-up is lost, nor where producers are
stopped and killed at any moment and others take their places. tests/nic/test_fence.c finds what is too rare to be met here."""
import re

import pytest

pytestmark = pytest.mark.alone


@pytest.mark.parametrize('count', [1_000_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_no_wake_up_is_lost(fabric, count):
    out = fabric.run(fabric.program('armings'), count, seconds=60 + count / 5000).stdout
    armed, slept = map(int, re.findall(r'\d+', out))
    assert armed >= count
    assert slept > 0


@pytest.mark.parametrize('kills, most_us', [(30, 4000), pytest.param(2000, 20_000, marks=pytest.mark.slow)])
def test_none_is_lost_of_producers_that_are_stopped_and_killed(fabric, kills, most_us):
    out = fabric.run(fabric.program('replaced'), kills, most_us, seconds=60 + kills * 4).stdout
    print(out)
    killed, sending, stopped, armed, slept = map(int, re.findall(r'\d+', out)[:5])
    assert killed == kills
    assert sending > kills / 10 and stopped > kills / 2
    assert armed > kills and slept > kills
