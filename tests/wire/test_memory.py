# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory of each kind at both ends of a wire. In a process namespace of its own a program's memory that is not in the pool is
reached by its helper alone."""
import os
import re
import signal
import time

import pytest

from fabric import namespaces, wait_for
from wire.hosts import FOUR, Hosts

pytestmark = pytest.mark.skipif(not namespaces(), reason='no user namespaces here')
APART = ('unshare', '--pid', '--fork')
PORT = 18516
STALL_S = 0.9  # of a card that waited for an answer of a program that stands still: a second


@pytest.fixture(scope='module')
def hosts():
    with Hosts() as made:
        yield made


@pytest.mark.parametrize('apart', [(), APART], ids=['near', 'apart'])
@pytest.mark.parametrize('kind', ['shared', 'half', 'demand'])
def test_every_byte(hosts, kind, apart):
    """across.c: SEND, WRITE, READ and atomics. Atomics on what is not in the pool are the helper's in either case."""
    before = hosts.rest()
    hosts.pair(*apart, hosts.fabrics[0].program('across-verbs'), FOUR, '-k', kind, '-l', 9000, '-n', 5, port=PORT)
    assert all(now['bytes_sent'] - was['bytes_sent'] > 100000 for was, now in zip(before, hosts.rest()))


def stop_in_traffic(hosts, server):
    """Stops the server when its peer waits for it."""
    for _ in range(50):
        os.killpg(server.process.pid, signal.SIGSTOP)
        time.sleep(0.3)
        was = hosts.hosts[0].card()['sent_again']
        time.sleep(0.7)
        if hosts.hosts[0].card()['sent_again'] > was:
            return
        os.killpg(server.process.pid, signal.SIGCONT)
        time.sleep(0.05)
    raise AssertionError('its peer never waits for it')


@pytest.mark.waits
def test_owner_stands_still(hosts):
    """Its card does not wait for it: others beside it go on."""
    here, there = hosts.hosts
    words = (*APART, hosts.fabrics[0].program('across-verbs'), FOUR, '-k', 'shared', '-l', 20000, '-n', 1000000, '-t', 18)
    server = there.start(*words)
    wait_for(lambda: there.listens(PORT) or server.process.poll() is not None, 'server listens')
    client = here.start(*words, there.address, core=1)
    wait_for(lambda: here.cards() and here.card()['bytes_sent'] > 100000, 'traffic')
    stop_in_traffic(hosts, server)
    said, _ = hosts.pair('ib_send_lat', '-x', FOUR, '-n', 1000, '-F', '-u', 20)
    most_us = float(re.search(r'^\s*2\s+1000\s+\S+\s+(\S+)', said.stdout, re.M)[1])
    assert most_us < STALL_S * 1e6
    os.killpg(server.process.pid, signal.SIGCONT)
    client.kill()
    server.kill()
