# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's programs of verbs between nodes of a live torus. Each test fails unless Weft's counters at both ends, and
those of the cables between them, grew by what was moved, times the hops: nothing went round the torus."""
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from fabric import free_port, listening, wait_for
from live import TIMEOUT_S, wait_until

INDEX = 1  # of the one GID as RoCE v2
WORD = 16
PATIENCE_S = 240  # each packet takes its turns of processes: on a machine with much other work, long
NEAR, FAR = ('1,0,0', 1), ('1,1,1', 3)  # from node 0,0,0, and the hops


class Ends:
    """A pair of programs: the server on node 0,0,0, the client on another."""

    def __init__(self, live, node, hops):
        self.live, self.node, self.hops = live, node, hops

    def start(self, node, argv, **env):
        process = subprocess.Popen(self.live.words('run', '--node', node, '--', *argv), stdin=subprocess.PIPE, cwd='/',
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={**self.live.env, **env})
        self.live.started.append(process)
        return process

    def connected(self, server, client):
        """A pair that librdmacm connects, by the address of the server's node: its ports are those of its pool."""
        pool = next(self.live.home.iterdir()) / '0.0.0' / 'pool'
        words = [*self.live.fabric.prefix, self.live.fabric.command, 'info', '--pool', pool, '--json']

        def listening_ports():
            info = subprocess.run(words, env=self.live.env, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
            ports = [] if info.returncode else json.loads(info.stdout)['ports']
            return {port['port'] for port in ports if port['listening']}
        wait_for(lambda: not listening_ports(), 'the server before has gone')
        first = self.start('0,0,0', server)
        wait_for(lambda: listening_ports() or first.poll() is not None, 'server listens')
        second = self.start(self.node, client)
        said = [second.communicate(timeout=PATIENCE_S)[0]]
        assert second.returncode == 0, said
        said.append(first.communicate(timeout=PATIENCE_S)[0])
        assert first.returncode == 0, said
        return said

    def pair(self, *argv, port=None, status=0, **env):
        named = [] if port else ['-p', free_port()]
        server = self.start('0,0,0', [*argv, *named], **env)
        wait_for(lambda: listening(port or named[1]) or server.poll() is not None, 'server listens')
        client = self.start(self.node, [*argv, *named, '127.0.0.1'], **env)
        said = [process.communicate(timeout=PATIENCE_S)[0] for process in (client, server)]
        assert [client.returncode, server.returncode] == [status, status], '\n'.join(said)
        return ''.join(said)

    def told(self):
        """Bytes that the two cards have sent and received for verbs; words that all cables have carried."""
        totals = []
        for node in ('0,0,0', self.node):
            pool = next(self.live.home.iterdir()) / node.replace(',', '.') / 'pool'
            words = [*self.live.fabric.prefix, self.live.fabric.command, 'nic', 'list', '--pool', pool, '--json']
            [card] = json.loads(subprocess.run(words, env=self.live.env, capture_output=True, text=True, check=True,
                                               timeout=TIMEOUT_S).stdout)['cards']
            totals += [card['bytes_sent'], card['bytes_received']]
        return [*totals, sum(cable['data'] for cable in self.live.status()['cables'])]

    def run(self, *argv, least, **how):
        return self.moves(least, lambda: self.pair(*argv, **how))

    def moves(self, least, what):
        """least: bytes that it must have moved, both ways together."""
        before = self.told()
        said = what()

        def grew():
            return [after - earlier for after, earlier in zip(self.told(), before)]
        # cards tell it now and then
        wait_until(lambda: grew()[0] + grew()[2] >= least and grew()[1] + grew()[3] >= least and
                   grew()[4] * WORD >= least * self.hops, f'{least} bytes over {self.hops} hops are not counted')
        return said


@pytest.fixture(params=[NEAR, FAR], ids=['near', 'far'])
def ends(live, request):
    live.weft('up', '2x2x2')
    return Ends(live, *request.param)


@pytest.fixture
def near(live):
    live.weft('up', '2')
    return Ends(live, *NEAR)


def test_pingpong(ends):
    for service, size, options in (('rc', 4096, ['-c']), ('rc', 1, ['-e']), ('rc', 100001, ['-c', '-m', 2048]),
                                   ('uc', 4096, ['-c']), ('uc', 4096, ['-c', '-e']), ('srq', 4096, ['-c']),
                                   ('srq', 4096, ['-c', '-e']), ('ud', 1024, ['-c']), ('ud', 1024, ['-c', '-e'])):
        rounds = 5 if size > 4096 else 20
        ends.run(f'ibv_{service}_pingpong', '-g', INDEX, '-n', rounds, '-s', size, *options, least=2 * rounds * size)


def test_rping(ends):
    """By address, to which no route of the host's leads: the source is the node's."""
    rounds, size = 10, 1000
    words = ['rping', '-v', '-a', '10.0.0.1', '-C', rounds, '-S', size]
    said = ends.moves(2 * rounds * size, lambda: ends.connected([*words, '-s'], [*words, '-c']))
    assert said[0].count('ping data: rdma-ping-') == rounds and said[1].count('server ping data') == rounds


@pytest.mark.parametrize('program', ['ib_send_lat', 'ib_write_bw'])
def test_connected_perftest(near, program):
    """-R: two connections, one after the other, and the server has no listener between them (tests/card/test_manager.c)."""
    words = [program, '-R', '-F', '-n', 20, '-s', 1024]
    near.moves(20 * 1024, lambda: near.connected(words, [*words, '10.0.0.1']))


def test_nobody_listens(near):
    """Rejected by a node that is there; an address beyond the lattice is told at once to be none."""
    for address, why in ('10.0.0.1', 'RDMA_CM_EVENT_REJECTED'), ('10.7.0.1', 'RDMA_CM_EVENT_ADDR_ERROR'):
        client = near.start(near.node, ['rping', '-c', '-a', address])
        said = client.communicate(timeout=PATIENCE_S)[0]
        assert client.returncode and why in said, said


@pytest.mark.skipif(not shutil.which('ucx_perftest'), reason='no ucx_perftest (ucx-utils)')
@pytest.mark.parametrize('test,size', [('tag_lat', 8), ('tag_bw', 4096), ('ucp_put_lat', 8), ('ucp_get', 4096), ('ucp_fadd', 8)])
def test_ucx_perftest(ends, test, size):
    said = ends.run('ucx_perftest', '-t', test, '-s', size, '-n', 100, '-w', 1, '-f', least=100 * size, UCX_TLS='rc_v,self')
    assert re.search(r'^\s+100 ', said, re.M), said


@pytest.mark.parametrize('options', [('-l', 300001), ('-m', 2048, '-l', 300001), ('-u', '-l', 20000)],
                         ids=lambda options: ' '.join(map(str, options)))
def test_every_byte(near, options):
    """across.c: SEND, WRITE, READ, atomics, of each odd length, with immediates, late receives; both sides' memory is
    compared after each step."""
    near.run(near.live.fabric.program('across-verbs'), INDEX, *options, least=20000, port=18516)


def test_bad_cables(near):
    """Of a million words 100 have a flipped bit, and 100 are lost: each byte comes all the same, as packets go again."""
    for node in '0,0,0', '1,0,0':
        near.live.weft('spoil', node, 'x+', 100, 100)
    near.run('ibv_rc_pingpong', '-g', INDEX, '-n', 100, '-s', 4096, '-c', least=100 * 4096 * 2)
    assert sum(node['again'] for node in near.live.status()['nodes']) > 0
    for words in ('0,0,0', 'x+', 1000001, 0), ('0,0,0', 'x+', 1, '-1'), ('0,0,0', 'x+', 1), ('0,0,0', 'y+', 1, 1):
        assert 'weft torus' in near.live.weft('spoil', *words, status=2)


@pytest.mark.waits
def test_errors(near):
    """What a peer can cause, both ways: the status at the requester, the receive, the event."""
    near.run(near.live.fabric.program('across-verbs'), INDEX, '-e', least=1, port=18516)


def test_to_oneself_goes_direct(live):
    """Between two programs of a node: neither the card nor a cable moves a byte."""
    live.weft('up', '2')
    ends = Ends(live, '0,0,0', 0)
    before = ends.told()
    ends.pair('ibv_rc_pingpong', '-g', INDEX, '-n', 100, '-c')
    time.sleep(0.5)
    assert ends.told() == before


def test_a_path_that_is_too_wide(near):
    """A packet of the torus takes 4,096 bytes, headers and all."""
    said = near.pair('ibv_rc_pingpong', '-g', INDEX, '-m', 4096, status=1, WEFT_EXPLAIN='1')
    assert 'path_mtu is 4096' in said and 'more than 2048' in said, said


def drop_domains():
    """The programs keep files of their domains in /tmp, and do not open one that another user has left."""
    for path in Path('/tmp').glob('xrc_domain*'):
        path.unlink(missing_ok=True)


@pytest.fixture
def domains():
    drop_domains()
    yield
    drop_domains()


@pytest.mark.usefixtures('domains')
def test_extended_pingpong(ends):
    """Each request names the receive queue that it is for."""
    rounds, size = 20, 4096
    for options in [], ['-e']:
        drop_domains()
        ends.run('ibv_xsrq_pingpong', '-g', INDEX, '-n', rounds, '-s', size, *options, least=2 * rounds * size)


# ---- perftest's options, service by service ----

ROUNDS, EACH_ROUNDS, QUEUE_PAIRS = 20, 5, 16
ALL = sum(1 << n for n in range(1, 24))  # `-a`: 2 bytes to 8 MiB
DATAGRAMS = sum(1 << n for n in range(1, 12))  # to the path MTU
# Each option of each service by one program or another; what costs most, 16 MiB by `-a`, seldom.
FEW = {
    'RC': ['ib_write_lat', 'ib_send_lat', 'ib_send_lat -e', 'ib_read_lat', 'ib_read_lat -e', 'ib_atomic_lat', 'ib_atomic_lat -e',
           'ib_write_bw -a', 'ib_write_bw -q 16', 'ib_send_bw -e', 'ib_send_bw -q 16 --use-srq', 'ib_read_bw', 'ib_read_bw -q 16 -e',
           'ib_atomic_bw', 'ib_atomic_bw -q 16 -e'],
    'UC': ['ib_write_lat', 'ib_write_bw', 'ib_write_bw -q 16', 'ib_send_lat -e', 'ib_send_bw -q 16 -e', 'ib_send_bw --use-srq'],
    'UD': ['ib_send_lat -a', 'ib_send_lat -e', 'ib_send_bw', 'ib_send_bw -q 16 -e', 'ib_send_bw --use-srq'],
    'XRC': ['ib_write_lat', 'ib_write_bw -q 16', 'ib_send_lat', 'ib_send_lat -e', 'ib_send_bw -q 16 -e', 'ib_send_bw --use-srq',
            'ib_read_lat -e', 'ib_read_bw -q 16 -e', 'ib_atomic_lat -e', 'ib_atomic_bw -q 16 -e'],
}


def whole_matrix(service):
    """All that perftest has of this: WRITE waits for no event, atomics have one size, and only SENDs take receives. Without
    connections that wait for a receive `--use-srq` of 16 queue pairs loses messages, whatever is below: perftest posts a sixteenth."""
    verbs = {'UC': ['write', 'send'], 'UD': ['send']}.get(service, ['write', 'read', 'send', 'atomic'])
    for verb in verbs:
        for options in '', '-a', '-e', '--use-srq', '-e --use-srq':
            if ('-a' in options and verb == 'atomic') or ('-e' in options and verb == 'write') or ('srq' in options and verb != 'send'):
                continue
            yield f'ib_{verb}_lat {options}'
            yield f'ib_{verb}_bw {options}'
            if '-a' not in options and ('srq' not in options or service in ('RC', 'XRC')):
                yield f'ib_{verb}_bw -q {QUEUE_PAIRS} {options}'


def run_perftest(ends, service, line):
    program, *options = line.split()
    drop_domains()
    rounds, size = ROUNDS, 8 if 'atomic' in program else 2
    if '-a' in options:
        rounds, size = EACH_ROUNDS, DATAGRAMS if service == 'UD' else ALL
    elif program in ('ib_write_bw', 'ib_read_bw', 'ib_send_bw'):
        size = 1024 if service == 'UD' else 16384
        options += ['-s', size]
    least = rounds * size * (QUEUE_PAIRS if '-q' in options else 1)
    options += ['-C'] if 'lat' in program else []  # spares it a calibration for each size
    # a verb that fails says why
    said = ends.run(program, '-c', service, '-x', INDEX, '-n', rounds, '-F', '-u', 20, *options, least=least, WEFT_EXPLAIN='1')
    rows = [int(row) for row in re.findall(r'^ *(\d+) +\d+ +\d+\.\d', said, re.M)]
    assert len(set(rows)) == (1 if '-a' not in options else 11 if service == 'UD' else 23), said


@pytest.mark.timeout(1000)
@pytest.mark.usefixtures('domains')
@pytest.mark.parametrize('service', FEW)
def test_perftest_options(near, service):
    for line in FEW[service]:
        run_perftest(near, service, line)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.usefixtures('domains')
@pytest.mark.parametrize('service', FEW)
def test_perftest_all(ends, service):
    for line in whole_matrix(service):
        run_perftest(ends, service, line)
