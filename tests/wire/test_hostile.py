# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Packets that are no good, beside a connection that is: rubbish.c sends them to the card of one of its ends, from an address
that is not the peer's."""
import os
import statistics
import time

import pytest

from fabric import namespaces, wait_for
from wire.hosts import FOUR, Hosts

pytestmark = [pytest.mark.skipif(not namespaces(), reason='no user namespaces here'), pytest.mark.alone]
RATE, OTHER = 100000 if len(os.sched_getaffinity(0)) >= 6 else 20000, '192.0.2.3'


@pytest.fixture(scope='module')
def hosts():
    with Hosts() as made:
        made.hosts[0].plain('ip', 'address', 'add', f'{OTHER}/24', 'dev', 'w0')
        yield made


def flood(hosts, *qpns):
    """Begins it; the host's second core has it."""
    here, there = hosts.hosts
    program = here.start(hosts.fabrics[0].program('rubbish'), OTHER, there.address, RATE, *qpns, on_weft=False, core=1)
    wait_for(lambda: program.output().stdout, 'rubbish')
    return program


def bandwidth(hosts):
    """In MB/s."""
    said, _ = hosts.pair('ib_write_bw', '-x', FOUR, '-s', 65536, '-n', 3000, '-F', '-u', 20)
    return float(said.stdout.splitlines()[-2].split()[3])


def test_bandwidth(hosts):
    """Beside 20,000 packets of rubbish a second, 100,000 where there are 6 cores, a connection keeps half of its bandwidth."""
    bandwidth(hosts)
    alone, beside = [], []
    for _ in range(3):
        alone.append(bandwidth(hosts))
        program = flood(hosts)
        beside.append(bandwidth(hosts))
        program.kill()
        sent = [int(line) for line in program.output().stdout.splitlines()]
        assert sent[-1] >= 0.9 * RATE * len(sent), sent
    print(alone, beside)
    assert statistics.median(beside) >= 0.5 * statistics.median(alone), (alone, beside)


def test_every_byte(hosts):
    """What is for the numbers of its own queue pairs changes no byte, and ends nothing; the card counts it."""
    here, there = hosts.hosts
    words = (hosts.fabrics[0].program('across-verbs'), FOUR, '-l', 20000, '-n', 1500, '-t', 18)
    server = there.start(*words, core=0)
    wait_for(lambda: there.listens(18516) or server.process.poll() is not None, 'server listens')
    client = here.start(*words, there.address, core=1)
    wait_for(lambda: there.fabric.info()['qps'] and there.cards() or server.process.poll() is not None, 'a connection')
    before = there.card()
    program = flood(hosts, *[qp['qpn'] for qp in there.fabric.info()['qps']])
    time.sleep(2)
    program.kill()
    after = there.card()
    client.done(120), server.done(120)
    for count in 'wrong_icrc', 'for_no_queue_pair':
        assert after[count] - before[count] > RATE / 20, (count, before, after)
    assert after['pid'] == there.card()['pid']
