# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs of Debian between two virtual machines with a kernel each, whose only common memory is the window of a PCIe device: as
an ordinary user, on a pool whose memory has atomic instructions between them, and on one without. Over no card, and by no other
libibverbs: the counters of both hosts have grown by the bytes moved, and the loader of each program says what it has loaded."""
import collections
import re
import time

import pytest

from lab.guests import vm

ROUNDS, BYTES, MIB = 100, 4096, 1 << 20
PORT = 18515
LOST_S = 120
ROW_S, UCX_S = 180, 600  # what a program may take, also where emulated guests share two processors with much other work: of UCX minutes
PATIENCE = 18  # of perftest's queue pairs, -u: they give up after 8 s, and not after half a second, for which a guest stands still
HERE = '192.0.2.1'  # of the first guest, where servers run
GROUP = '239.255.0.1'
QUICK_ATOMICS, QUICK_PLAIN = 'quick with atomics', 'quick without'
POOLS = {'atomics': ['--atomics'], 'plain': []}
LIBRARY = r'libibverbs\.so\.1\S*'

pytestmark = pytest.mark.timeout(2400)  # the guests boot within the first

# What a program is to have carried, at least: of which counter, in the server's host and in the client's.
Carried = collections.namedtuple('Carried', 'counter server client')
# `how` begins both and returns what both have said; `quick`: on which pools in `make check`; `said`: what the client says; `seconds`: how
# long each of them may take. One that hangs costs no more than that, and the others run.
Row = collections.namedtuple('Row', 'name how words carried quick said seconds', defaults=((), '', ROW_S))


def pair(machines, words, port, env):
    return machines.pair(*words, port=port, **env)


def unreliable(machines, words, port, env):
    """A message is lost where its responder's helper does not answer within a second, as on a busy machine: the program waits for it
    for ever, and is begun once more."""
    try:
        return machines.pair(*words, port=port, ends_s=LOST_S, **env)
    except vm.Trouble as trouble:
        if 'not over after' not in str(trouble):
            raise
    return machines.pair(*words, port=port, **env)


def by_cm(machines, words, port, env):
    """perftest's -R: its port is one of librdmacm."""
    words = [*words, '-R', '-p', port]
    return machines.meet(words, [*words, HERE], **env)


def meet(machines, words, port, env):
    return machines.meet(*words, **env)


def libfabric(machines, words, port, env):
    return machines.serve([*words, '-B', port], [*words, '-P', port, HERE], port, **env)


def stays(machines, words, port, env):
    """Its server does not end by itself; clients are as many as are named, at once."""
    server = machines.start(0, *words[0], **env)
    begun, end = [], time.monotonic() + machines.ends_s
    try:
        for client in words[1:]:
            while True:
                begun.append(machines.start(1, *client, **env))
                while not begun[-1].is_over() and not re.search(r'rdma-ping-0', begun[-1].output()) and time.monotonic() < end:
                    time.sleep(0.05)
                # cmtime ends well where it found no server
                if not begun[-1].is_over() or (begun[-1].wait(0)[0] == 0 and 'ADDR_ERROR' not in begun[-1].output()):
                    break
                if server.is_over() or time.monotonic() > end:
                    raise vm.Trouble(f'{begun[-1].line}\n{begun[-1].output()}\n-- server\n{server.output()}')
                begun.pop()
        return [server.output(), *(client.done(machines.ends_s) for client in begun)]
    finally:
        for program in (server, *begun):
            program.kill()


def joins(machines, words, port, env):
    """The server is told nothing: the client sends to a group once it has joined."""
    server = machines.start(0, 'stdbuf', '-oL', *words, '-b', HERE, **env)
    try:
        end = time.monotonic() + machines.ends_s
        while 'receiving data' not in server.output():
            if server.is_over() or time.monotonic() > end:
                raise vm.Trouble(f'has not joined: {server.output()}')
            time.sleep(0.05)
        said = machines.start(1, *words, '-s', '-b', '192.0.2.2', **env).done(machines.ends_s)
        return server.done(machines.ends_s), said
    finally:
        server.kill()


def pingpong(kind, *options, size=BYTES, quick=()):
    words = [f'ibv_{kind}_pingpong', '-g', 1, '-n', ROUNDS, *options, *(['-s', size] if size != BYTES else [])]
    how = unreliable if kind in ('uc', 'ud') else pair
    return Row(f'{words[0]} {" ".join(options)}'.strip(), how, words, Carried('bytes_send', ROUNDS * size, ROUNDS * size), quick,
               rf'^({ROUNDS} iters in |success$)')


def perftest(verb, figure, size, *options, how=pair, quick=(), rounds=ROUNDS):
    """A latency of SEND and WRITE is of both ways."""
    both = figure == 'lat' and verb in ('send', 'write')
    sized = ['-s', size] if verb != 'atomic' else []
    moved, counter = (rounds, 'ops_atomic') if verb == 'atomic' else (rounds * size, f'bytes_{verb}')
    name = ' '.join(map(str, (f'ib_{verb}_{figure}', *options, *(['-R'] if how is by_cm else []), *sized)))
    return Row(name, how, [f'ib_{verb}_{figure}', '-n', rounds, '-u', PATIENCE, *sized, *options], Carried(counter, moved if both else 0, moved), quick,
               rf'^ +{size} +{rounds} +[\d.]+')


BOTH_QUICK = (QUICK_ATOMICS, QUICK_PLAIN)
ATOMIC_QUICK = (QUICK_ATOMICS,)
UCX = ['-n', 10, '-w', 2, '-s', BYTES, '-f']
# fio connects with rnr_retry 0: the receiver posts all its receives at once, and the sender's rate is bounded so that they are there.
FIO = ['fio', '--name=job', '--ioengine=rdma', '--port=18700', '--bs=16k', '--size=256k', '--verb=send', '--do_verify=0',
       '--verify=crc32c', '--iodepth=16']
ROWS = [
    pingpong('rc', quick=ATOMIC_QUICK), pingpong('rc', '-e', '-c', quick=BOTH_QUICK),
    pingpong('uc', quick=ATOMIC_QUICK), pingpong('uc', '-e'),
    pingpong('ud', size=1024, quick=BOTH_QUICK), pingpong('ud', '-e', size=1024),
    pingpong('srq', quick=ATOMIC_QUICK), pingpong('srq', '-e'), pingpong('xsrq', quick=ATOMIC_QUICK), pingpong('xsrq', '-e'),
    *(perftest(verb, 'lat', size, quick=ATOMIC_QUICK if verb == 'write' and size == 8 else ())
      for verb in ('write', 'read', 'send') for size in (8, BYTES)),
    *(perftest(verb, 'bw', size, rounds=ROUNDS if size < MIB else 10, quick=ATOMIC_QUICK if verb == 'send' and size == 65536 else ())
      for verb in ('write', 'read', 'send') for size in (BYTES, 65536, MIB)),
    perftest('atomic', 'lat', 8, quick=BOTH_QUICK), perftest('atomic', 'bw', 8),
    *(perftest(verb, figure, BYTES, '-c', 'UC', how=unreliable) for verb in ('write', 'send') for figure in ('lat', 'bw')),
    *(perftest('send', figure, 1024, '-c', 'UD', how=unreliable) for figure in ('lat', 'bw')),
    *(perftest(verb, figure, BYTES if verb != 'atomic' else 8, '-c', 'XRC')
      for verb in ('write', 'read', 'send', 'atomic') for figure in ('lat', 'bw')),
    *(perftest('send', figure, BYTES, '--use-srq') for figure in ('lat', 'bw')),
    *(perftest(verb, figure, BYTES, '-e') for verb in ('read', 'send') for figure in ('lat', 'bw')),
    *(perftest(verb, 'lat', BYTES if verb != 'atomic' else 8, how=by_cm, quick=ATOMIC_QUICK if verb == 'send' else ())
      for verb in ('write', 'read', 'send', 'atomic')),
    Row('rping', meet, (['rping', '-s', '-a', HERE, '-C', 10, '-v'], ['rping', '-c', '-a', HERE, '-C', 10, '-v']),
        Carried('ops_read', 10, 0), ATOMIC_QUICK, 'ping data: rdma-ping-9'),
    Row('rping, 4 clients', stays, (['rping', '-s', '-P', '-a', HERE], *[['rping', '-c', '-a', HERE, '-C', 40, '-v']] * 4),
        Carried('ops_send', 0, 160), (), 'ping data: rdma-ping-'),
    Row('ucmatose', meet, (['ucmatose', '-b', HERE], ['ucmatose', '-s', HERE]), Carried('bytes_send', 1000, 1000), ATOMIC_QUICK,
        'return status 0'),
    Row('udaddy', meet, (['udaddy', '-b', HERE], ['udaddy', '-s', HERE]), Carried('bytes_send', 1000, 1000), ATOMIC_QUICK,
        'return status 0'),
    Row('mckey', joins, ['mckey', '-m', GROUP], Carried('bytes_send', 0, 1000), (), 'return status 0'),
    Row('cmtime', stays, (['cmtime', '-b', HERE], ['cmtime', '-s', HERE, '-c', 50]), Carried('ops_send', 0, 0), (),
        r'^disconnect +: +\d'),
    Row('rdma_client', meet, (['rdma_server'], ['rdma_client', '-s', HERE]), Carried('ops_send', 1, 1), (), 'rdma_client: end 0'),
    *(Row(f'rdma_xclient {" ".join(options)}'.strip(), meet, (['rdma_xserver', *options], ['rdma_xclient', '-s', HERE, *options]),
          Carried('ops_send', 0, 1), (), '') for options in ([], ['-c', 'x'])),
    *(Row(f'fi_pingpong {endpoint}', libfabric, ['fi_pingpong', '-p', provider, '-e', endpoint, '-c', '-I', 10, '-S', 1024],
          Carried('bytes_send', 10 * 1024, 10 * 1024), (), r'^\w+ +10 +=10 ')
      for provider, endpoint in (('verbs', 'msg'), ('verbs;ofi_rxm', 'rdm'), ('verbs', 'dgram'))),
    *(Row(f'ucx_perftest {test} {transport}', pair, ['ucx_perftest', '-t', test, *UCX, f'UCX_TLS={transport},self'],
          Carried('bytes_write' if test == 'ucp_put_bw' and transport == 'rc_v' else
                  'bytes_read' if test == 'ucp_get' and transport == 'rc_v' else 'bytes_send', 0,
                  10 * BYTES if test != 'ucp_get' or transport == 'rc_v' else 0), (), '', UCX_S)
      for transport in ('rc_v', 'ud_v') for test in ('ucp_put_bw', 'ucp_get', 'ucp_am_lat', 'tag_lat')),
    Row('fio, verified', meet, ([*FIO, '--rw=read'], [*FIO, '--rate_iops=20', '--hostname=' + HERE, '--rw=write']), Carried('bytes_send', 0, 256 << 10), (),
        r'err= 0'),
]


def cases():
    for pool in POOLS:
        for row in ROWS:
            quick = {'atomics': QUICK_ATOMICS, 'plain': QUICK_PLAIN}[pool] in row.quick
            yield pytest.param(pool, row, id=f'{row.name}, {pool}', marks=() if quick else pytest.mark.slow)


@pytest.fixture(scope='module')
def on_pool(pcie):
    """The guests, on a pool that has what is asked for; another is made in its place once."""
    now = ['atomics']

    def remade(name):
        if now[0] != name:
            pcie.unmake()
            pcie.make(POOLS[name])
            now[0] = name
        return pcie
    return remade


@pytest.mark.parametrize('pool, row', cases())
def test_program(on_pool, pool, row):
    machines = on_pool(pool)
    machines.ends_s = row.seconds
    before = [machines.counted(host) for host in (0, 1)]
    env = {'LD_DEBUG': 'files', 'LD_DEBUG_OUTPUT': '/tmp/loaded'}
    words = row.words
    if row.how is pair:  # words like NAME=VALUE are for its environment
        env.update(word.split('=', 1) for word in words if re.match('[A-Z_]+=', str(word)))
        words = [word for word in words if not re.match('[A-Z_]+=', str(word))]
    said = row.how(machines, words, PORT, env)
    for each in said:
        assert 'rror' not in each.replace('error: 0', ''), each
    assert re.search(row.said, said[-1], re.M), said[-1]
    for host, least in enumerate((row.carried.server, row.carried.client)):
        machines.await_carried(host, before[host], row.carried.counter, least)
        loaded = machines.loaded(host, LIBRARY)
        assert loaded and all(library.startswith('/run/job/installed/') for library in loaded), loaded
