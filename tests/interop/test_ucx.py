# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's UCX between two processes, over its transports for reliable connections and for
datagrams, each of which keeps its own books about what the card does. ucx_perftest does not look at
the bytes; io_demo compares each."""
import re

import pytest

from cm.server import serve
from fabric import Trouble, free_port, listening, wait_for

# UCX's names: rc_v is rc_verbs, with ud_verbs to connect it; ud_v is ud_verbs alone.
TRANSPORTS = pytest.mark.parametrize('transport', ['rc_v', 'ud_v'])
TESTS = ['ucp_put_lat', 'ucp_put_bw', 'ucp_get', 'ucp_fadd', 'ucp_cswap', 'ucp_am_lat', 'ucp_am_bw',
         'tag_lat', 'tag_bw', 'stream_lat', 'stream_bw']
ATOMICS = ['ucp_fadd', 'ucp_cswap']
FEW = {8: 200, 4096: 100, 1 << 17: 20}
ALL = {1 << n: 200 if n < 16 else 20 for n in range(3, 25)}


def ended(server, client, seconds):
    try:
        return tuple(reversed((client.done(seconds), server.done(seconds))))
    except Trouble as trouble:
        server.kill()
        raise Trouble(f'{trouble}\n-- server\n{server.output()}') from None


def started(fabric, transport, *argv):
    """A server that listens, and the port."""
    port = free_port()
    server = fabric.start(*argv, '-p', port, core=0, UCX_TLS=f'{transport},self')
    wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
    return server, port


def perftest(fabric, transport, test, rounds, seconds=60):
    """One pair of processes runs the test for each size: {bytes: how often}."""
    if test in ATOMICS:
        rounds = {8: rounds[8]}
    batch = fabric.folder / 'batch'
    batch.write_text(''.join(f'{size} -s {size} -n {n} -w 10\n' for size, n in rounds.items()))
    batch.chmod(0o644)
    argv = ['ucx_perftest', '-t', test, '-b', batch, '-f']
    server, port = started(fabric, transport, *argv)
    client = fabric.start(*argv, '-p', port, '127.0.0.1', core=1, UCX_TLS=f'{transport},self')
    _, done = ended(server, client, seconds)
    found = re.findall(r'^\s*(\d+)\s+(\d+)\s+\d+\.\d', done.stdout, re.M)
    assert {int(size): int(n) for size, n in found} == rounds


def carried(fabric, transport, test, rounds):
    """Weft's counters must show at least what the test means. UCX 1.13 makes of messages what a card cannot do. In this
    layer those are all atomics: it uses a card's only if that has AND, OR, XOR and SWAP, too, for which there are no verbs."""
    totals = fabric.totals()
    if test in ATOMICS:
        assert totals['ops_send'] >= rounds[8]
        return
    kind = {'ucp_put': 'write', 'ucp_get': 'read'}.get(test[:7], 'send')
    if transport == 'ud_v':
        kind = 'send'
    assert totals[f'ops_{kind}'] >= min(rounds.values())
    moved = sum(totals[f'bytes_{each}'] for each in ('write', 'read', 'send'))
    assert moved >= sum(size * n for size, n in rounds.items())


@TRANSPORTS
@pytest.mark.parametrize('test', TESTS)
def test_perftest(fabric, transport, test):
    perftest(fabric, transport, test, FEW)
    carried(fabric, transport, test, FEW)


@pytest.mark.slow
@TRANSPORTS
@pytest.mark.parametrize('test', TESTS)
def test_perftest_of_all_sizes(fabric, transport, test):
    perftest(fabric, transport, test, ALL, 600)
    carried(fabric, transport, test, ALL)


@pytest.mark.parametrize('test', ['fadd', 'cswap'])
def test_atomics_of_the_card(fabric, test):
    """UCX's lower layer, which applications may use, has the atomics that a card has."""
    argv = ['ucx_perftest', '-x', 'rc_verbs', '-d', 'weft0:1', '-t', test, '-s', 8, '-n', 1000, '-w', 10, '-f']
    server, port = started(fabric, 'rc_v', *argv)
    client = fabric.start(*argv, '-p', port, '127.0.0.1', core=1)
    client.done()
    server.kill()  # it waits for another
    assert fabric.totals()['ops_atomic'] >= 1000


@TRANSPORTS
@pytest.mark.parametrize('api', [[], ['-A']], ids=['tag', 'am'])
@pytest.mark.parametrize('most', [1 << 20, pytest.param(1 << 24, marks=pytest.mark.slow)])
def test_each_byte(fabric, transport, api, most):
    """Buffers that UCX registers and remembers while they come and go: it hooks libc's memory calls."""
    rounds = 60
    argv = ['io_demo', '-q', '-d', f'8:{most}', *api]
    server, port = started(fabric, transport, *argv)
    client = fabric.start(*argv, '-i', rounds, '-o', 'read,write', '-p', port, '127.0.0.1', core=1,
                          UCX_TLS=f'{transport},self')
    done = client.wait()
    assert done.status == 0 and 'corruption' not in done.stdout + done.stderr, client.trouble('ended')
    assert server.process.poll() is None, server.trouble('ended')
    assert all(fabric.owns(library) for library in client.libraries())
    totals = fabric.totals()
    assert sum(totals[f'bytes_{each}'] for each in ('write', 'read', 'send')) > rounds * most / 8


@TRANSPORTS
def test_each_byte_by_rdmacm(fabric, transport):
    """The same with connections that librdmacm makes."""
    port = free_port()
    tls = {'UCX_TLS': f'{transport},self', 'UCX_SOCKADDR_TLS_PRIORITY': 'rdmacm'}
    server = serve(fabric, 'io_demo', '-q', '-p', port, port=port, **tls)
    assert not listening(port)
    client = fabric.start('io_demo', '-q', '-i', 60, '-o', 'read,write', '-p', port, '127.0.0.1',
                          core=1, **tls)
    done = client.wait()
    assert done.status == 0 and 'corruption' not in done.stdout + done.stderr, client.trouble('ended')
    assert server.process.poll() is None, server.trouble('ended')


def test_info(fabric):
    done = fabric.start('ucx_info', '-d').wait()
    assert done.status == 0 and 'ERROR' not in done.stdout + done.stderr
    shown = done.stdout[done.stdout.index('Memory domain: weft0'):]
    assert [name for name in ('rc_verbs', 'ud_verbs') if f'Transport: {name}' in shown] == [
        'rc_verbs', 'ud_verbs']
