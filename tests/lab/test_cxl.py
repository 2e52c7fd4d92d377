# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs of Debian between two virtual machines with a kernel each, whose only common memory is that of a CXL device: a device-dax
on which atomic instructions are none between the guests, and each access is emulated. As an ordinary user, and over no card, as
the counters of both hosts say in the end."""
import collections
import json
import re

import pytest

ROUNDS = 100
PINGPONG = ['-g', 1, '-n', ROUNDS]
LATENCY, BANDWIDTH = ['-n', ROUNDS, '-s', 8], ['-n', ROUNDS, '-s', 4096]
BOTH, CLIENT = (0, 1), (1,)
TRIED_S = 600
LOST = 'additions were lost: atomic instructions do not hold between the hosts, and no pool here may say --atomics'

pytestmark = pytest.mark.timeout(1800)  # the guests boot within the first, each access of theirs in software

# Whether in `make check`, what it runs, and of which counter the hosts are to have carried a request a round.
PROGRAMS = [
    (True, 'ibv_rc_pingpong', [*PINGPONG, '-c'], 'ops_send', BOTH),
    (False, 'ibv_rc_pingpong', [*PINGPONG, '-e'], 'ops_send', BOTH),
    (False, 'ibv_uc_pingpong', PINGPONG, 'ops_send', BOTH),
    (True, 'ibv_ud_pingpong', [*PINGPONG, '-s', 1024], 'ops_send', BOTH),
    (False, 'ibv_srq_pingpong', PINGPONG, 'ops_send', BOTH),
    (False, 'ibv_xsrq_pingpong', PINGPONG, 'ops_send', BOTH),
    (True, 'ib_write_lat', LATENCY, 'ops_write', BOTH),
    (False, 'ib_read_lat', LATENCY, 'ops_read', CLIENT),
    (False, 'ib_send_lat', LATENCY, 'ops_send', BOTH),
    (True, 'ib_atomic_lat', ['-n', ROUNDS], 'ops_atomic', CLIENT),
    (False, 'ib_write_bw', BANDWIDTH, 'ops_write', CLIENT),
    (False, 'ib_send_bw', BANDWIDTH, 'ops_send', CLIENT),
]


def in_words(program, options):
    return re.sub(r'\W+', '-', ' '.join(map(str, (program, *options))))


@pytest.fixture(scope='module')
def due(cxl):
    """What the hosts had carried before, and what they are to have carried since, by host and counter."""
    return [cxl.counted(host) for host in BOTH], collections.Counter()


@pytest.mark.parametrize('program, options, counter, hosts', [
    pytest.param(*words, id=in_words(*words[:2]), marks=() if quick else pytest.mark.slow) for quick, *words in PROGRAMS])
def test_program(cxl, due, program, options, counter, hosts):
    for said in cxl.pair(program, *options):
        assert 'rror' not in said, said
        assert hosts == CLIENT or re.search(rf'^(\d+ iters in |success$| +\d+ +{ROUNDS} +[\d.]+)', said, re.M), said
    due[1].update({(host, counter): ROUNDS for host in hosts})


def test_rping(cxl, due):
    at = ['-a', cxl.guests[0].address, '-C', 20, '-v']
    for said in cxl.meet(['rping', '-s', *at], ['rping', '-c', *at]):
        assert said.count('ping data') == 20, said
    due[1].update({(0, 'ops_write'): 20, (0, 'ops_read'): 20})


def test_tried(cxl):
    """Additions are lost there, which `weft pool test` finds; nothing else is wrong."""
    words = [cxl.weft, 'pool', 'test', cxl.pool, '--atomics', '--seconds', 2, '--wait', 300, '--json']
    sides = [guest.start(*words) for guest in cxl.guests]
    for status, out in [side.wait(TRIED_S) for side in sides]:
        said = json.loads(out[out.index('{'):])
        assert status == 1 and said['test']['verdict'][0] == LOST, said
        for side in said['sides']:
            assert side['stored'] and side['read'] and not any(side[fault] for fault in ('back', 'stale', 'torn', 'missing')), said
            assert side['sum'] < 2000000 and side['load_ns'] >= 50, said


@pytest.mark.slow
def test_ucmatose(cxl):
    for said in cxl.meet(['ucmatose'], ['ucmatose', '-s', cxl.guests[0].address]):
        assert 'return status 0' in said, said


def test_carried(cxl, due):
    for (host, counter), least in due[1].items():
        cxl.await_carried(host, due[0][host], counter, least)
