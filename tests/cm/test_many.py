# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Many connections made and ended by one process, of which nothing may be left."""
import json

import pytest

ALLOCATED = 64 << 10  # tables that grew stay; a connection's memory is some 1,500 bytes


def connects(fabric, count, at_once, seconds=60):
    result = json.loads(fabric.run(fabric.program('connects'), count, at_once,
                                   seconds=seconds).stdout)
    for program in 'client', 'server':
        left = result[program]
        assert left['descriptors'] == 0, result
        assert left['mappings'] <= 4, result
        assert left['bytes'] <= ALLOCATED, result
    return result


@pytest.mark.parametrize('count, at_once', [(5000, 1), (3000, 1000)])
def test_nothing_is_left(fabric, count, at_once):
    connects(fabric, count, at_once)


@pytest.mark.slow
def test_a_hundred_thousand(fabric):
    connects(fabric, 100_000, 1, seconds=600)
