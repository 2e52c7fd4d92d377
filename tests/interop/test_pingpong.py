# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's ibv_*_pingpong: SEND both ways, by polling and by sleeping on events. As
with any card on Ethernet, -g must name an address."""
import re
from pathlib import Path

import pytest


def pingpong(fabric, size, rounds, *options, index=1, service='rc'):
    server, client = fabric.pair(f'ibv_{service}_pingpong', '-g', index, '-s', size, '-n', rounds, *options)
    for done in (server, client):
        assert re.search(rf'^{rounds} iters in [\d.]+ seconds', done.stdout, re.M)
    totals = fabric.totals()
    assert totals['ops_send'] >= 2 * rounds
    assert totals['bytes_send'] >= 2 * rounds * size


@pytest.mark.parametrize('size,rounds', [(1, 1000), (64, 10000), (4096, 1000), (65536, 1000),
                                         (1 << 20, 200)])
@pytest.mark.parametrize('events', [[], ['-e']], ids=['poll', 'events'])
def test_sizes(fabric, size, rounds, events):
    pingpong(fabric, size, rounds, *events)


@pytest.mark.parametrize('index', [0, 1, 2, 3])
def test_gid_index(fabric, index):
    pingpong(fabric, 4096, 1000, index=index)


@pytest.mark.parametrize('events', [[], ['-e']], ids=['poll', 'events'])
def test_received_bytes_are_the_sent_ones(fabric, events):
    pingpong(fabric, 4096, 1000, '-c', *events)


@pytest.mark.parametrize('depth', [1, 16])
def test_few_receives(fabric, depth):
    pingpong(fabric, 4096, 1000, '-r', depth)


@pytest.mark.parametrize('size,rounds', [(1, 1000), (4096, 1000), (1 << 20, 200)])
@pytest.mark.parametrize('events', [[], ['-e']], ids=['poll', 'events'])
def test_uc(fabric, size, rounds, events):
    pingpong(fabric, size, rounds, *events, service='uc')


@pytest.mark.parametrize('size', [1, 1024, 4096])
@pytest.mark.parametrize('events', [[], ['-e']], ids=['poll', 'events'])
def test_ud(fabric, size, events):
    pingpong(fabric, size, 1000, *events, service='ud')


@pytest.mark.parametrize('index', [0, 1, 2, 3])
def test_ud_gid_index(fabric, index):
    pingpong(fabric, 1024, 1000, index=index, service='ud')


@pytest.mark.parametrize('pairs', [1, 16])
@pytest.mark.parametrize('events', [[], ['-e']], ids=['poll', 'events'])
def test_srq(fabric, pairs, events):
    pingpong(fabric, 4096, 1000, '-q', pairs, *events, service='srq')


@pytest.mark.parametrize('events', [[], ['-e']], ids=['poll', 'events'])
def test_xsrq(fabric, events):
    # the program names its domain by this file, and cannot open one that another user has left there
    Path('/tmp/xrc_domain').unlink(missing_ok=True)
    fabric.pair('ibv_xsrq_pingpong', '-g', 1, '-n', 1000, *events)
    assert fabric.totals()['ops_send'] >= 2 * 1000
