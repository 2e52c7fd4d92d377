# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory of each kind at both ends of a wire. In a process namespace of its own a program's memory that is not in the pool is
reached by its helper alone."""
import itertools
import os
import re
import shutil
import signal
import statistics
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
        # one that a program apart starts is apart, too
        for host in made.hosts:
            assert host.nic('up', host.address)[0] == 0
        yield made


def soft_gpu(fabric):
    """The folder of the stand-in for a libcuda, where the user can load it."""
    folder = fabric.home / 'softgpu'
    folder.mkdir(mode=0o755, exist_ok=True)
    shutil.copy(BUILD / 'tests/softgpu/libcuda.so.1', folder)
    return folder


@pytest.mark.parametrize('kind, apart', [
    *itertools.product(['shared', 'demand', 'imported'], [(), APART]), ('half', ()), pytest.param('half', APART, marks=pytest.mark.counted),
    ('dm', ()), ('gpu', ()), ('inline', ())],
    ids=lambda value: value if isinstance(value, str) else 'apart' if value else 'near')
def test_every_byte(hosts, kind, apart):
    """across.c: SEND, WRITE, READ and atomics. Atomics on what is not in the pool are the helper's in either case, and so is
    all of a GPU's; device memory and what goes inline are in the pool."""
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


def in_traffic(hosts):
    """Two programs in mid-traffic: the server and its client. Nothing but the helpers of their own reaches their memory."""
    here, there = hosts.hosts
    words = (*APART, hosts.fabrics[0].program('across-verbs'), FOUR, '-k', 'shared', '-l', 20000, '-n', 1000000, '-t', 18)
    server = there.start(*words)
    wait_for(lambda: there.listens(PORT) or server.process.poll() is not None, 'server listens')
    sent = here.card()['bytes_sent'] if here.cards() else 0
    client = here.start(*words, there.address, core=1)
    wait_for(lambda: here.cards() and here.card()['bytes_sent'] > sent + 100000, 'traffic')
    return server, client


def end(programs):
    for program in programs:
        os.killpg(program.process.pid, signal.SIGCONT)
        program.kill()


def latency_us(hosts, iterations):
    """Of a SEND: the most, and the median."""
    said, _ = hosts.pair('ib_send_lat', '-x', FOUR, '-n', iterations, '-F', '-u', 20)
    most, median = re.search(rf'^\s*2\s+{iterations}\s+\S+\s+(\S+)\s+(\S+)', said.stdout, re.M).groups()
    return float(most), float(median)


@pytest.mark.waits
def test_owner_stands_still(hosts):
    """Its card does not wait for it: others beside it go on."""
    server, client = in_traffic(hosts)
    stop_in_traffic(hosts, server)
    assert latency_us(hosts, 1000)[0] < STALL_S * 1e6
    end((server, client))


@pytest.mark.alone
def test_latency_beside_one_that_stands_still(hosts):
    """The median stays within 1.5 x of runs without it. Its peer is stopped, too, as it would take a core to poll: whichever of them
    was to be read or written, its card tries that again and again."""
    beside, without = [], []
    for _ in range(3):
        programs = in_traffic(hosts)
        for program in programs:
            os.killpg(program.process.pid, signal.SIGSTOP)
        beside.append(latency_us(hosts, 1000)[1])
        end(programs)
        without.append(latency_us(hosts, 1000)[1])
    assert statistics.median(beside) <= 1.5 * statistics.median(without), (beside, without)
