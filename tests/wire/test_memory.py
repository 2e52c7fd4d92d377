# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory of each kind at both ends of a wire. In a process namespace of its own a program's memory that is not in the pool is
reached by its helper alone."""
import os
import re
import shutil
import signal
import time

import pytest

from fabric import BUILD, namespaces, wait_for
from wire.hosts import FOUR, Hosts

pytestmark = pytest.mark.skipif(not namespaces(), reason='no user namespaces here')
APART = ('unshare', '--pid', '--fork')
PORT = 18516
STALL_S = 0.9  # of a card that waited for an answer of a program that stands still: a second


@pytest.fixture(scope='module')
def hosts():
    with Hosts() as made:
        yield made


def soft_gpu(fabric):
    """The folder of the stand-in for a libcuda, where the user can load it."""
    folder = fabric.home / 'softgpu'
    folder.mkdir(mode=0o755, exist_ok=True)
    shutil.copy(BUILD / 'tests/softgpu/libcuda.so.1', folder)
    return folder


@pytest.mark.parametrize('apart', [(), APART], ids=['near', 'apart'])
@pytest.mark.parametrize('kind', ['shared', 'half', 'demand', 'imported', 'dm', 'gpu', 'inline'])
def test_every_byte(hosts, kind, apart):
    """across.c: SEND, WRITE, READ and atomics. Atomics on what is not in the pool are the helper's in either case, and so is
    all of a GPU's."""
    before = hosts.rest()
    env = {'LD_LIBRARY_PATH': str(soft_gpu(hosts.fabrics[0]))} if kind == 'gpu' else {}
    hosts.pair(*apart, hosts.fabrics[0].program('across-verbs'), FOUR, '-k', kind, '-l', 9000, '-n', 5, port=PORT, **env)
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


class Stopped:
    """A program that stands still in mid-traffic, while its peer waits for it; nothing but its helper reaches its memory."""

    def __init__(self, hosts):
        here, there = hosts.hosts
        words = (*APART, hosts.fabrics[0].program('across-verbs'), FOUR, '-k', 'shared', '-l', 20000, '-n', 1000000, '-t', 18)
        self.server = there.start(*words)
        wait_for(lambda: there.listens(PORT) or self.server.process.poll() is not None, 'server listens')
        sent = here.card()['bytes_sent'] if here.cards() else 0
        self.client = here.start(*words, there.address, core=1)
        wait_for(lambda: here.cards() and here.card()['bytes_sent'] > sent + 100000, 'traffic')
        stop_in_traffic(hosts, self.server)

    def end(self):
        os.killpg(self.server.process.pid, signal.SIGCONT)
        self.client.kill()
        self.server.kill()


def latency_us(hosts, iterations):
    """Of a SEND: the most, and the median."""
    said, _ = hosts.pair('ib_send_lat', '-x', FOUR, '-n', iterations, '-F', '-u', 20)
    most, median = re.search(rf'^\s*2\s+{iterations}\s+\S+\s+(\S+)\s+(\S+)', said.stdout, re.M).groups()
    return float(most), float(median)


@pytest.mark.waits
def test_owner_stands_still(hosts):
    """Its card does not wait for it: others beside it go on."""
    stopped = Stopped(hosts)
    assert latency_us(hosts, 1000)[0] < STALL_S * 1e6
    stopped.end()
