# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""librdmacm between two hosts that have the same address: a listener on the own host is preferred, then one on the
other."""
import os
import signal

import pytest
from fabric import wait_for
from hosts import ADDRESS, Hosts

pytestmark = pytest.mark.skipif(not ADDRESS, reason='this machine has no IPv4 address but the loopback\'s')


def meet(pool, server, client):
    """The ports of rdma_cm are in no table of the kernel: the client tries until a program listens."""
    listener = pool.start(*server, host=0, core=0)
    for _ in range(100):
        done = pool.start(*client, host=1, core=1).wait(30)
        if done.status == 0 or listener.process.poll() is not None:
            break
    assert done.status == 0, f'{done.stdout}\n{done.stderr}\n-- server\n{listener.output()}'
    return listener.wait(30), done


def test_rping(either):
    server, client = meet(either, ['rping', '-s', '-C', '10', '-v'],
                          ['rping', '-c', '-a', ADDRESS, '-C', '10', '-v'])
    assert client.stdout.count('ping data') == 10 and server.stdout.count('ping data') == 10


@pytest.mark.parametrize('program', ['ucmatose', 'udaddy'])
def test_messages(either, program):
    server, client = meet(either, [program], [program, '-s', ADDRESS])
    assert 'return status 0' in server.stdout and 'return status 0' in client.stdout


def test_loopback_is_the_own_host(two):
    """A listener at the loopback's address on another host is not found."""
    listener = two.start('rping', '-s', '-C', '1', host=0)
    done = two.start('rping', '-c', '-a', '127.0.0.1', '-C', '1', host=1).wait(30)
    assert done.status != 0 and 'wrote' not in done.stdout
    listener.kill()


def test_silent_host():
    """The server waits for a message alone: that the client's host is silent is all that ends its connection."""
    with Hosts(silence_ms=500) as two:
        server = two.start('rping', '-s', '-v', host=0)
        client = two.start('rping', '-c', '-a', ADDRESS, '-v', '-C', 1 << 20, host=1)
        wait_for(lambda: 'ping data' in server.output().stdout, 'pings go on', 60)
        os.killpg(client.process.pid, signal.SIGSTOP)
        try:
            done = server.wait(60)
        finally:
            os.killpg(client.process.pid, signal.SIGCONT)
        assert 'server DISCONNECT EVENT' in done.stdout + done.stderr, done
        client.kill()
