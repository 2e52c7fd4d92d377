# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's programs that connect through librdmacm, unmodified."""
import gzip
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from cm.server import listening, serve
from fabric import free_port, listening as listening_socket, wait_for


def needs(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f'{program} is not installed')


@pytest.mark.parametrize('options', [[], ['-c', 20, '-C', 5, '-S', 4096], ['-P', 'ib'], ['-m']])
def test_ucmatose(fabric, options):
    server = serve(fabric, 'ucmatose', *options)
    client = fabric.start('ucmatose', *options, '-s', '127.0.0.1', core=1)
    for program in client, server:
        assert 'return status 0' in program.done().stdout


@pytest.mark.parametrize('options', [[], ['-c', 5, '-C', 20, '-S', 1000], ['-P', 'ipoib']])
def test_udaddy(fabric, options):
    """Queue pairs of datagrams, looked up by address."""
    server = serve(fabric, 'udaddy', *options)
    client = fabric.start('udaddy', *options, '-s', '127.0.0.1', core=1)
    for program in client, server:
        assert 'return status 0' in program.done().stdout


def test_port_space(fabric):
    """udaddy takes a number after -p, and makes 0 of everything else. The message comes although the device is not
    open yet."""
    done = fabric.start('udaddy', '-p', 'ipoib', WEFT_EXPLAIN='1').wait()
    assert 'weft: rdma_create_id: errno 22: port space 0x0 is none of RDMA_PS_TCP (0x106)' in done.stderr


@pytest.mark.parametrize('options', [[], ['-b', '127.0.0.1', '-c', 3], ['-p', '0x0002']])
@pytest.mark.waits
def test_mckey(fabric, options):
    """A multicast group: each datagram of the sender arrives."""
    receiver = fabric.start('stdbuf', '-oL', 'mckey', '-m', '239.255.0.1', *options)
    wait_for(lambda: 'receiving data' in receiver.output().stdout, 'it has joined')
    sender = fabric.start('mckey', '-m', '239.255.0.1', '-s', *options, core=1)
    for program in sender, receiver:
        assert 'return status 0' in program.done().stdout


@pytest.mark.parametrize('kind, options', [('', []), ('x', []), ('x', ['-c', 'x'])])
def test_rdma_client_and_server(fabric, kind, options):
    """Endpoints, whose calls block; -c x: with queue pairs of XRC. No verb fails on the way."""
    server = serve(fabric, f'rdma_{kind}server', *options, WEFT_EXPLAIN='1')
    fabric.run(f'rdma_{kind}client', '-s', '127.0.0.1', *options, core=1, WEFT_EXPLAIN='1')
    server.done()


@pytest.mark.parametrize('program, seconds', [
    ('udaddy', 17), pytest.param('ucmatose', 146, marks=pytest.mark.slow)])
@pytest.mark.waits
def test_listener_that_is_stopped(fabric, program, seconds):
    """The listener is asked 16 times, as often and as long as the kernel's rdma_cm would: at intervals of 1.1 s for
    a program that looks a datagram service up, of 9.1 s for one that connects."""
    server = serve(fabric, program)
    os.killpg(server.process.pid, signal.SIGSTOP)
    begun = time.monotonic()
    done = fabric.start(program, '-s', '127.0.0.1', core=1).wait(3 * seconds)
    assert 'event: RDMA_CM_EVENT_UNREACHABLE, error: -110' in done.stdout, done
    assert seconds < time.monotonic() - begun
    server.kill()


def test_cmtime(fabric):
    """A thousand connections at once, step by step."""
    server = serve(fabric, 'cmtime')
    done = fabric.run('cmtime', '-s', '127.0.0.1', '-c', 1000, core=1)
    assert re.search(r'^connect +: +\d', done.stdout, re.M)
    assert re.search(r'^disconnect +: +\d', done.stdout, re.M)
    server.kill()  # the server does not end by itself


@pytest.mark.parametrize('argv', [
    ['ib_send_lat', '-n', 1000], ['ib_write_lat', '-n', 1000], ['ib_read_lat', '-n', 1000],
    ['ib_atomic_lat', '-n', 1000], ['ib_write_bw', '-n', 500, '-q', 8],
    ['ib_send_bw', '-n', 500, '-e'],
], ids=lambda argv: argv[0])
def test_perftest(fabric, argv):
    """With -R no socket is used. The server listens twice: a client whose second request comes between would be rejected, and end;
    a port that was listened at just now is held for its owner."""
    port = free_port()
    server = serve(fabric, *argv, '-R', '-p', port, port=port)
    fabric.run(*argv, '-R', '-p', port, '127.0.0.1', core=1)
    server.done()
    assert sum(n for name, n in fabric.totals().items() if name.startswith('ops')) >= 500


@pytest.fixture
def qperf(fabric):
    """Starts tests of qperf against a server; the fixture's user looks at the results."""
    port = free_port()
    server = fabric.start('qperf', '-lp', port)
    # a TCP socket, over which each test tells the port for its connection
    wait_for(lambda: listening_socket(port), 'qperf listens')
    yield lambda *tests: fabric.start('qperf', '-lp', port, '-cm', 1, '-t', 1, '127.0.0.1', *tests,
                                      core=1)
    server.kill()


QPERF = {
    'send': ['rc_lat', 'rc_bw', 'rc_bi_bw'],
    'write': ['rc_rdma_write_lat', 'rc_rdma_write_poll_lat', 'rc_rdma_write_bw'],
    'read': ['rc_rdma_read_lat', 'rc_rdma_read_bw'],
    'atomic': ['rc_compare_swap_mr', 'rc_fetch_add_mr', 'ver_rc_compare_swap', 'ver_rc_fetch_add'],
}


@needs('qperf')
@pytest.mark.parametrize('kind', QPERF)
def test_qperf(fabric, qperf, kind):
    done = qperf(*QPERF[kind]).done()
    assert re.findall(r'^(\w+):\n +(?:latency|bw|msg_rate) +=', done.stdout, re.M) == QPERF[kind]
    assert fabric.totals()[f'ops_{kind}'] >= 1000


@needs('qperf')
@pytest.mark.parametrize('test', [
    'uc_lat', 'uc_bw', 'uc_bi_bw', 'uc_rdma_write_lat', 'uc_rdma_write_poll_lat', 'uc_rdma_write_bw',
    'ud_lat', 'ud_bw', 'ud_bi_bw', 'xrc_lat', 'xrc_bw', 'xrc_bi_bw'])
def test_what_qperf_cannot_on_ethernet(qperf, test):
    """These tests know only LIDs, which Ethernet does not have: the kernel refuses such addresses on any RoCE card.
    Debian's qperf is built without XRC. Both ends fail at once, and the one that gets the other's end first may
    print no reason: `server: ` and nothing, one time in ten."""
    reason = {'uc': 'failed to modify QP to RTR', 'ud': 'failed to create address handle',
              'xr': 'bad test'}[test[:2]]
    for _ in range(10):
        done = qperf(test).wait()
        assert done.status == 1
        if not done.stderr.endswith('server: \n'):
            break
    assert reason in done.stdout + done.stderr


FIO = '''[job]
ioengine=rdma
port={port}
bs=64k
size=16m
'''


def fio(fabric, server_lines, client_lines):
    port = free_port()
    for name, lines in (('server', 'rw=read\n' + server_lines),
                        ('client', 'hostname=127.0.0.1\nrw=write\niodepth=8\n' + client_lines)):
        (fabric.folder / name).write_text(FIO.format(port=port) + lines)
    server = fabric.start('fio', 'server')
    wait_for(lambda: listening(fabric, port), 'fio listens')
    client = fabric.start('fio', 'client', core=1)
    return client, server


@needs('fio')
@pytest.mark.parametrize('verb', ['write', 'read'])
def test_fio(fabric, verb):
    for program in fio(fabric, 'iodepth=8\n', f'verb={verb}\n'):
        assert re.search(r'err= 0', program.wait().stdout) and program.process.poll() == 0
    assert fabric.totals()[f'bytes_{verb}'] >= 16 << 20


# The only verb whose data fio can verify: with WRITE and READ the server does not see when they have arrived. fio
# connects with rnr_retry 0, and its rate is bounded so that each SEND finds a receive.
SEND = 'verb=send\nrate_iops=200\ndo_verify=0\nverify=crc32c\n'


@needs('fio')
def test_fio_verifies(fabric):
    for program in fio(fabric, 'iodepth=256\nverify=crc32c\n', SEND):
        assert re.search(r'err= 0', program.wait().stdout) and program.process.poll() == 0
    assert fabric.totals()['bytes_send'] >= 16 << 20


@needs('fio')
def test_fio_that_expects_other_data(fabric):
    """fio verifies the data that have arrived."""
    _, server = fio(fabric, 'iodepth=256\nverify=md5\n', SEND)
    assert 'verify failed' in server.wait().stderr and server.process.poll() != 0


@needs('fi_pingpong')
@pytest.mark.parametrize('provider, endpoint, sizes, megabytes', [
    ('verbs', 'msg', 6, 400), ('verbs;ofi_rxm', 'rdm', 6, 400), ('verbs', 'dgram', 4, 2)])
def test_libfabric(fabric, provider, endpoint, sizes, megabytes):
    port = free_port()
    argv = ['fi_pingpong', '-p', provider, '-e', endpoint, '-c', '-I', 200]
    server = fabric.start(*argv, '-B', port)
    wait_for(lambda: listening_socket(port), 'fi_pingpong listens')
    done = fabric.run(*argv, '-P', port, '127.0.0.1', core=1)
    server.done()
    assert len(re.findall(r'^\w+ +200 +=200 ', done.stdout, re.M)) == sizes
    moved = sum(n for name, n in fabric.totals().items() if name.startswith('bytes'))
    assert moved >= megabytes << 20


SUITE = Path('/usr/share/doc/rdma-core/tests')
OF_SUITE = ['sync_traffic', 'async_traffic', 'async_reject_traffic', 'async_traffic_external_qp',
            'async_read', 'async_write', 'async_udp_traffic', 'async_multicast_traffic',
            'async_ex_multicast_traffic', 'async_ex_leave_multicast_traffic']


@pytest.mark.skipif(not (SUITE / 'test_rdmacm.py').exists(), reason='python3-pyverbs is not installed')
def test_suite_of_rdma_core(fabric):
    folder = fabric.folder / 'tests'
    shutil.copytree(SUITE, folder)
    for packed in folder.glob('*.gz'):
        packed.with_suffix('').write_bytes(gzip.decompress(packed.read_bytes()))
    fabric.folder.chmod(0o777)
    # the suite prints Failed where it expects a failure
    done = fabric.start('/usr/bin/python3', 'tests/run_tests.py', '-v', '--dev', 'weft0',
                        *(f'tests.test_rdmacm.CMTestCase.test_rdmacm_{name}' for name in OF_SUITE),
                        PYTHONDONTWRITEBYTECODE='1').wait()
    assert re.findall(r'^test_rdmacm_(\w+) .* (\w+)$', done.stderr, re.M) == [
        (name, 'ok') for name in OF_SUITE], done
