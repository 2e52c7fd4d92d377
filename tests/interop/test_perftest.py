# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's perftest between two processes. Each case says how many operations and bytes its options
mean at least; Weft's counters must show them."""
import re
from pathlib import Path

import pytest

ALL_SIZES = [1 << n for n in range(1, 24)]
ROUNDS = 500
FEW = 100  # where sizes go up to 8 MiB; -C spares perftest a calibration for each size


def rows(text):
    """perftest's table: (size, iterations) of each row. Wide figures run into each other."""
    found = re.findall(r'^\s*(\d+)\s+(\d+)\s+\d+\.\d', text, re.M)
    return [(int(size), int(iterations)) for size, iterations in found]


def perftest(fabric, program, kind, *options, sizes=(64,), ways=1, rounds=ROUNDS):
    """Runs one program; ways: how many times `rounds` operations there must have been for each size."""
    _, client = fabric.pair(program, '-F', '-n', rounds, *options)
    streams = ways if '-q' in options else 1
    assert rows(client.stdout) == [(size, rounds * streams) for size in sizes]
    totals = fabric.totals()
    assert totals[f'ops_{kind}'] >= rounds * ways * len(sizes)
    if kind != 'atomic':
        assert totals[f'bytes_{kind}'] >= rounds * ways * sum(sizes)


SIZED = ['write', 'read', 'send']
LAT_WAYS = {'write': 2, 'read': 1, 'send': 2, 'atomic': 1}
SLEEPERS = ['read', 'send']  # `ib_write_lat` and `ib_write_bw` have no -e


@pytest.mark.parametrize('size', [8, 64, 4096, 1 << 20])
@pytest.mark.parametrize('kind', SIZED)
def test_latency(fabric, kind, size):
    perftest(fabric, f'ib_{kind}_lat', kind, '-s', size, sizes=[size], ways=LAT_WAYS[kind])


@pytest.mark.parametrize('kind', SIZED)
def test_latency_of_all_sizes(fabric, kind):
    perftest(fabric, f'ib_{kind}_lat', kind, '-a', '-C', sizes=ALL_SIZES, ways=LAT_WAYS[kind],
             rounds=FEW)


@pytest.mark.parametrize('kind', SLEEPERS)
def test_latency_with_events(fabric, kind):
    perftest(fabric, f'ib_{kind}_lat', kind, '-e', '-s', 64, ways=LAT_WAYS[kind])


@pytest.mark.parametrize('kind', ['write', 'send'])
def test_latency_without_inline(fabric, kind):
    perftest(fabric, f'ib_{kind}_lat', kind, '-I', 0, '-s', 64, ways=2)


@pytest.mark.parametrize('size', [8, 64, 65536])
@pytest.mark.parametrize('kind', SIZED)
def test_bandwidth(fabric, kind, size):
    perftest(fabric, f'ib_{kind}_bw', kind, '-s', size, sizes=[size])


@pytest.mark.parametrize('kind', SIZED)
def test_bandwidth_of_all_sizes(fabric, kind):
    perftest(fabric, f'ib_{kind}_bw', kind, '-a', sizes=ALL_SIZES, rounds=FEW)


@pytest.mark.parametrize('kind', SIZED)
def test_bandwidth_of_16_queue_pairs(fabric, kind):
    perftest(fabric, f'ib_{kind}_bw', kind, '-q', 16, '-s', 4096, sizes=[4096], ways=16)


@pytest.mark.parametrize('kind', SIZED)
def test_bandwidth_both_ways(fabric, kind):
    perftest(fabric, f'ib_{kind}_bw', kind, '-b', '-s', 4096, sizes=[4096], ways=2)


@pytest.mark.parametrize('kind', SLEEPERS)
def test_bandwidth_with_events(fabric, kind):
    perftest(fabric, f'ib_{kind}_bw', kind, '-e', '-s', 4096, sizes=[4096])


@pytest.mark.parametrize('kind', SIZED)
def test_bandwidth_in_lists(fabric, kind):
    perftest(fabric, f'ib_{kind}_bw', kind, '-l', 10, '-s', 4096, sizes=[4096])


@pytest.mark.parametrize('kind', SIZED)
def test_bandwidth_by_the_old_post_send(fabric, kind):
    perftest(fabric, f'ib_{kind}_bw', kind, '--use_old_post_send', '-s', 4096, sizes=[4096])


ATOMICS = pytest.mark.parametrize('atomic', ['CMP_AND_SWAP', 'FETCH_AND_ADD'])


@ATOMICS
@pytest.mark.parametrize('options,ways', [([], 1), (['-e'], 1)], ids=['poll', 'events'])
def test_atomic_latency(fabric, atomic, options, ways):
    perftest(fabric, 'ib_atomic_lat', 'atomic', '-A', atomic, *options, sizes=[8], ways=ways)


@ATOMICS
@pytest.mark.parametrize('options,ways', [([], 1), (['-e'], 1), (['-q', 16], 16), (['-b'], 2)],
                         ids=['poll', 'events', '16-qps', 'both-ways'])
def test_atomic_bandwidth(fabric, atomic, options, ways):
    perftest(fabric, 'ib_atomic_bw', 'atomic', '-A', atomic, *options, sizes=[8], ways=ways)


UC = ['write', 'send']


@pytest.mark.parametrize('kind', UC)
def test_uc_latency(fabric, kind):
    perftest(fabric, f'ib_{kind}_lat', kind, '-c', 'UC', '-s', 64, ways=2)


@pytest.mark.parametrize('kind', UC)
def test_uc_bandwidth_of_all_sizes(fabric, kind):
    perftest(fabric, f'ib_{kind}_bw', kind, '-c', 'UC', '-a', sizes=ALL_SIZES, rounds=FEW)


@pytest.mark.parametrize('options,ways', [(['-q', 16], 16), (['-b'], 2)], ids=['16-qps', 'both-ways'])
@pytest.mark.parametrize('kind', UC)
def test_uc_bandwidth(fabric, kind, options, ways):
    perftest(fabric, f'ib_{kind}_bw', kind, '-c', 'UC', *options, '-s', 4096, sizes=[4096], ways=ways)


@pytest.mark.parametrize('program,ways', [('ib_send_lat', 2), ('ib_send_bw', 1)])
def test_uc_with_events(fabric, program, ways):
    perftest(fabric, program, 'send', '-c', 'UC', '-e', '-s', 4096, sizes=[4096], ways=ways)


UD_SIZES = [1 << n for n in range(1, 13)]  # up to the MTU


def test_ud_latency(fabric):
    perftest(fabric, 'ib_send_lat', 'send', '-c', 'UD', '-s', 64, ways=2)


def test_ud_latency_with_events(fabric):
    perftest(fabric, 'ib_send_lat', 'send', '-c', 'UD', '-e', '-s', 64, ways=2)


@pytest.mark.parametrize('options,ways', [([], 1), (['-e'], 1), (['-q', 4], 4), (['-b'], 2)],
                         ids=['poll', 'events', '4-qps', 'both-ways'])
def test_ud_bandwidth(fabric, options, ways):
    perftest(fabric, 'ib_send_bw', 'send', '-c', 'UD', *options, '-s', 4096, sizes=[4096], ways=ways)


@pytest.mark.parametrize('program,ways', [('ib_send_lat', 2), ('ib_send_bw', 1)])
def test_ud_of_all_sizes(fabric, program, ways):
    perftest(fabric, program, 'send', '-c', 'UD', '-a', sizes=UD_SIZES, ways=ways, rounds=FEW)


def test_ud_multicast(fabric):
    perftest(fabric, 'ib_send_lat', 'send', '-c', 'UD', '-g', '-s', 64, ways=2)


@pytest.mark.parametrize('service', ['RC', 'UC', 'UD'])
@pytest.mark.parametrize('events', [[], ['-e']], ids=['poll', 'events'])
def test_srq_bandwidth(fabric, service, events):
    perftest(fabric, 'ib_send_bw', 'send', '-c', service, '--use-srq', *events, '-s', 4096, sizes=[4096])


def test_srq_bandwidth_of_4_queue_pairs(fabric):
    perftest(fabric, 'ib_send_bw', 'send', '--use-srq', '-q', 4, '-s', 4096, sizes=[4096], ways=4)


@pytest.mark.parametrize('service', ['RC', 'UC', 'UD'])
@pytest.mark.parametrize('events', [[], ['-e']], ids=['poll', 'events'])
def test_srq_latency(fabric, service, events):
    perftest(fabric, 'ib_send_lat', 'send', '-c', service, '--use-srq', *events, '-s', 64, ways=2)


def test_srq_bandwidth_of_all_sizes(fabric):
    perftest(fabric, 'ib_send_bw', 'send', '--use-srq', '-a', sizes=ALL_SIZES, rounds=FEW)


@pytest.fixture
def domains():
    """Takes away the files by which perftest names its domains: it cannot open those that another
    user has left there, and a program that has them open does not need the name."""
    for path in Path('/tmp').glob('xrc_domain_*'):
        path.unlink(missing_ok=True)


XRC = pytest.mark.usefixtures('domains')


@XRC
@pytest.mark.parametrize('kind', [*SIZED, 'atomic'])
def test_xrc_latency(fabric, kind):
    size = [] if kind == 'atomic' else ['-s', 8]
    perftest(fabric, f'ib_{kind}_lat', kind, '-c', 'XRC', *size, sizes=[8], ways=LAT_WAYS[kind])


@XRC
@pytest.mark.parametrize('kind', [*SIZED, 'atomic'])
def test_xrc_bandwidth(fabric, kind):
    size = [] if kind == 'atomic' else ['-s', 8]
    perftest(fabric, f'ib_{kind}_bw', kind, '-c', 'XRC', *size, sizes=[8])


@XRC
@pytest.mark.parametrize('kind', ['write', 'send'])
def test_xrc_bandwidth_of_all_sizes(fabric, kind):
    perftest(fabric, f'ib_{kind}_bw', kind, '-c', 'XRC', '-a', sizes=ALL_SIZES, rounds=FEW)


@XRC
@pytest.mark.parametrize('options,ways', [(['-e'], 1), (['-q', 4], 4), (['-b'], 2), (['--use-srq'], 1)],
                         ids=['events', '4-qps', 'both-ways', 'srq'])
def test_xrc_bandwidth_of_sends(fabric, options, ways):
    perftest(fabric, 'ib_send_bw', 'send', '-c', 'XRC', *options, '-s', 4096, sizes=[4096], ways=ways)


@XRC
def test_xrc_latency_with_events(fabric):
    perftest(fabric, 'ib_send_lat', 'send', '-c', 'XRC', '-e', '-s', 64, ways=2)


@pytest.mark.parametrize('kind,service', [('write', 'RC'), ('send', 'RC'), ('write', 'UC'), ('send', 'UC'),
                                          ('send', 'UD'), pytest.param('write', 'XRC', marks=XRC),
                                          pytest.param('send', 'XRC', marks=XRC)])
def test_latency_with_64_bytes_inline(fabric, kind, service):
    perftest(fabric, f'ib_{kind}_lat', kind, '-c', service, '-I', 64, '-s', 64, ways=2)


@pytest.mark.parametrize('service', ['RC', 'UC', 'UD', pytest.param('XRC', marks=XRC)])
def test_bandwidth_with_64_bytes_inline(fabric, service):
    perftest(fabric, 'ib_send_bw', 'send', '-c', service, '-I', 64, '-s', 64)


@pytest.mark.parametrize('kind', [*SIZED, 'atomic'])
def test_region_for_each_queue_pair(fabric, kind):
    size = [] if kind == 'atomic' else ['-s', 8]
    perftest(fabric, f'ib_{kind}_bw', kind, '--mr_per_qp', '-q', 4, *size, sizes=[8], ways=4)


@pytest.mark.parametrize('service', ['UC', 'UD', pytest.param('XRC', marks=XRC)])
def test_region_for_each_queue_pair_of(fabric, service):
    perftest(fabric, 'ib_send_bw', 'send', '-c', service, '--mr_per_qp', '-q', 4, '-s', 64, ways=4)
