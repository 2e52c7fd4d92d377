# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Many processes, many queue pairs."""
import json
import statistics

import pytest

pytestmark = pytest.mark.alone

PROCESSES = 64
MESSAGES = 1000
BYTES_OF_A_QUEUE_PAIR = 8192  # idle, connected, 16 requests deep


def test_all_to_all(fabric):
    fabric.run(fabric.program('crowd'), PROCESSES, MESSAGES, seconds=60)
    assert fabric.totals()['ops_send'] == PROCESSES * (PROCESSES - 1) * MESSAGES


def many(fabric, count):
    return json.loads(fabric.run(fabric.program('many'), count).stdout)


def test_ten_thousand_queue_pairs(fabric):
    assert many(fabric, 10_000)['bytes'] <= BYTES_OF_A_QUEUE_PAIR


def test_time_does_not_grow_with_queue_pairs(fabric):
    runs = [many(fabric, 1000) for _ in range(5)]
    one, all_ = (statistics.median(run[name] / run['alone_ns'] for run in runs)
                 for name in ('one_active_ns', 'all_ns'))
    assert one <= 1.2
    assert all_ <= 2
