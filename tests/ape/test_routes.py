# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every way of 20 lattices, hop by hop, against an oracle that knows whole ways at once."""
import itertools
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.quick, pytest.mark.aside]
BUILD = Path(os.environ.get('WEFT_BUILD', Path(__file__).resolve().parents[2] / 'build'))
PLUS, MINUS, PARITY = range(3)

# Sizes; which dimensions are lines, as a mask; order of dimensions (the first is the lowest digit); rule for ties.
LATTICES = [
    ((2, 1, 1), 0, 210, PLUS), ((3, 1, 1), 0, 210, PLUS), ((4, 1, 1), 0, 210, PLUS),
    ((5, 1, 1), 0, 210, MINUS), ((8, 1, 1), 0, 210, PLUS), ((8, 1, 1), 0, 210, MINUS),
    ((8, 1, 1), 0, 210, PARITY), ((8, 1, 1), 1, 210, PLUS), ((1, 5, 1), 0, 210, PLUS),
    ((1, 1, 8), 0, 12, PLUS), ((4, 4, 1), 0, 210, PLUS), ((4, 4, 1), 3, 201, PLUS),
    ((5, 3, 1), 1, 102, PARITY), ((2, 2, 2), 0, 210, PLUS), ((3, 3, 2), 0, 21, MINUS),
    ((4, 4, 4), 0, 210, PLUS), ((4, 4, 4), 7, 120, PLUS), ((5, 4, 3), 0, 12, PARITY),
    ((5, 4, 3), 5, 210, MINUS), ((2, 3, 8), 2, 111, PLUS),
]


def steps(at, to, size, line, tie):
    """The whole way in one dimension: +1 or -1, how often, and whether it passes the end."""
    ahead = (to - at) % size
    if line:
        way = 1 if to > at else -1
        hops = abs(to - at)
    else:
        prefers_minus = tie == MINUS or (tie == PARITY and at % 2 == 1)
        if 2 * ahead == size:
            way = -1 if prefers_minus else 1
        else:
            way = 1 if ahead < size - ahead else -1
        hops = ahead if way == 1 else size - ahead
    wraps = not 0 <= at + way * hops < size
    return way, hops, wraps


def path(start, end, size, lines, order, tie):
    dims = [order // 10 ** i % 10 for i in range(3)]
    if sorted(dims) != [0, 1, 2]:
        dims = [0, 1, 2]
    words = []
    for d in dims:
        if start[d] != end[d]:
            way, hops, wraps = steps(start[d], end[d], size[d], lines >> d & 1, tie)
            words += [f'{2 * d + (way < 0)}.{int(wraps)}{"!" * (i == hops - 1)}' for i in range(hops)]
    return words


@pytest.mark.parametrize('size,lines,order,tie', LATTICES)
def test_paths(size, lines, order, tie):
    argv = [BUILD / 'tests/ape/routes', *map(str, (*size, lines, order, tie))]
    found = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    nodes = [c[::-1] for c in itertools.product(*(range(s) for s in reversed(size)))]
    expected = [' '.join([str(a), str(b), *path(nodes[a], nodes[b], size, lines, order, tie)])
                for a in range(len(nodes)) for b in range(len(nodes))]
    assert found == expected


@pytest.mark.parametrize('size', [('65', '1', '1'), ('1', '33', '1'), ('1', '1', '33'), ('0', '1', '1')])
def test_too_large(size):
    argv = [BUILD / 'tests/ape/routes', *size, '0', '210', '0']
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 3
