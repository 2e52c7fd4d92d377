# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's programs between two hosts of one kernel: each has a home, and one file is their memory."""
import os
import re
import shutil
import signal
import time

import pytest
from fabric import free_port, listening, wait_for
from hosts import ADDRESS, Hosts

QPN = re.compile(r'QPN (?:0x)?([0-9a-f]{4,6})')
SLICE_BITS = 17  # of the 18 bits of a queue pair's index, where there are two hosts


def are_apart(done):
    """The queue pairs that a pair of programs prints are of the slices of both hosts."""
    found = {int(number, 16) >> SLICE_BITS & 1 for number in QPN.findall(done.stdout)}
    assert found == {0, 1}, done.stdout


@pytest.mark.parametrize('service,options', [
    ('rc', []), ('rc', ['-c']), ('rc', ['-e']), ('uc', []), ('uc', ['-e']), ('ud', []), ('ud', ['-e']), ('srq', []),
    ('srq', ['-e']), ('xsrq', [])])
def test_pingpong(either, service, options):
    rounds = 100 if '-e' in options or service == 'ud' else 1000
    for done in either.pair(f'ibv_{service}_pingpong', '-g', 1, '-n', rounds, *options):
        if service != 'xsrq':
            assert re.search(rf'^{rounds} iters in [\d.]+ seconds', done.stdout, re.M)
        if service in ('rc', 'uc', 'ud'):
            are_apart(done)


@pytest.mark.parametrize('program', ['ib_write_lat', 'ib_read_lat', 'ib_send_lat', 'ib_atomic_lat'])
def test_latency(either, program):
    for done in either.pair(program, '-n', 1000):
        are_apart(done)


@pytest.mark.parametrize('program,options', [
    ('ib_write_bw', ['-s', 65536]), ('ib_write_bw', ['-s', 1 << 20]), ('ib_read_bw', ['-s', 65536]),
    ('ib_send_bw', ['-s', 65536]), ('ib_send_bw', ['-c', 'UC']), ('ib_atomic_bw', []),
    ('ib_send_bw', ['--use-srq'])])
def test_bandwidth(either, program, options):
    for done in either.pair(program, '-n', 200, *options):
        are_apart(done)


@pytest.mark.skipif(not shutil.which('fi_pingpong') or not ADDRESS, reason='no fi_pingpong, or no address but the loopback\'s')
@pytest.mark.parametrize('provider, endpoint', [('verbs', 'msg'), ('verbs;ofi_rxm', 'rdm')])
def test_libfabric(two, provider, endpoint):
    """Where the server's name stands for the loopback's address, or for none, libfabric binds 127.0.0.1 and tells its peer that address,
    unless librdmacm has no device for it, as Linux has none: then it takes one of the device's."""
    for done in two.pair('fi_pingpong', '-p', provider, '-e', endpoint, '-c', '-I', 10, '-S', 1024, ports=('-B', '-P'), address=ADDRESS):
        assert re.search(r'^1k +10 +=10 ', done.stdout, re.M), done


@pytest.mark.waits
def test_owner_that_stands_still():
    """Where its helper is asked for each receive: requests wait for it, or end; none is told to be done that it has not taken."""
    with Hosts(atomics=False) as plain:
        plain.start('ibv_asyncwatch', host=0)  # so that the host itself is not silent
        port = free_port()
        server = plain.start('ibv_srq_pingpong', '-g', 1, '-n', 1 << 24, '-p', port, host=0)
        wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
        client = plain.start('ibv_srq_pingpong', '-g', 1, '-n', 1 << 24, '-p', port, '127.0.0.1', host=1)

        def sent():
            return plain.info()['totals']['ops_send']

        wait_for(lambda: sent() > 20, 'messages are sent', 60)
        os.killpg(server.process.pid, signal.SIGSTOP)
        time.sleep(2.5)
        before = sent()
        os.killpg(server.process.pid, signal.SIGCONT)
        wait_for(lambda: client.process.poll() is not None or sent() > before + 20, 'they go on, or have ended', 60)
        done = client.output()
        assert done.status is None or 'Failed status' in done.stdout + done.stderr, done
