# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What carries a message, by its source, its destination, where the peer is, and the MTU: a table of which each row is a
test. The first host has two interfaces: w0 of 1,500 bytes, by which the second is reached, and e0 of 9,000, of which the
default GID is no address."""
import re
import time
from dataclasses import dataclass

import pytest

from cm.server import listening
from fabric import namespaces, wait_for
from wire.hosts import FOUR, LINK, Host, Hosts

pytestmark = pytest.mark.skipif(not namespaces(), reason='no user namespaces here')
PORT = 18517
V1, WIDE_NONE, WIDE = 2, 5, 7  # more indexes of GIDs: RoCE v1 of w0; of e0 the default one, and the address
# Where the peer is.
POOL, SPACE, BEYOND, HERE, NOBODY = 'pool', 'other namespace', 'beyond', 'here', 'nobody'
# What becomes of the message: it goes through the pool, or the wire; nobody answers; it is refused, in these words.
BY_POOL, BY_WIRE, SILENCE = 'by the pool', 'by the wire', 'silence'


@dataclass
class Row:
    index: int
    peer: str
    outcome: str
    mtu: int = 1024
    service: str = 'rc'
    nic: str = 'on'

    def name(self):
        return f'{self.service}-{self.index}-{self.peer}-{self.mtu}-{self.nic}'.replace(' ', '-')


IS_V1 = 'sgid_index 2 is of RoCE v1, which no card here sends: index 3 is of v2'
NO_ADDRESS = 'sgid_index 5 is no address of an interface, from which alone a card sends: index 7 is one'
TABLE = [
    Row(FOUR, POOL, BY_POOL, 4096),
    Row(V1, POOL, BY_POOL),
    Row(WIDE_NONE, POOL, BY_POOL),
    Row(FOUR, POOL, BY_POOL, 4096, 'ud'),
    Row(V1, POOL, BY_POOL, 4096, 'ud'),
    Row(WIDE_NONE, POOL, BY_POOL, 4096, 'ud'),
    Row(FOUR, SPACE, BY_POOL, 4096),
    Row(FOUR, SPACE, BY_POOL, 4096, 'ud'),
    Row(FOUR, BEYOND, BY_WIRE),
    Row(LINK, BEYOND, BY_WIRE),
    Row(FOUR, BEYOND, BY_WIRE, 256),
    Row(FOUR, BEYOND, BY_WIRE, 1024, 'uc'),
    Row(FOUR, BEYOND, BY_WIRE, 1024, 'ud'),
    Row(LINK, BEYOND, BY_WIRE, 1024, 'ud'),
    Row(FOUR, BEYOND, 'path_mtu is 2048: packets of more than 1024 bytes do not fit', 2048),
    Row(FOUR, BEYOND, 'path_mtu is 4096: packets of more than 1024 bytes do not fit', 4096, 'uc'),
    Row(FOUR, BEYOND, 'local length error', 1025, 'ud'),
    Row(FOUR, BEYOND, 'local protection error', 100, 'key'),
    Row(V1, BEYOND, IS_V1),
    Row(V1, BEYOND, IS_V1, 1024, 'uc'),
    Row(V1, BEYOND, IS_V1, 1024, 'ud'),
    Row(WIDE_NONE, BEYOND, NO_ADDRESS),
    Row(WIDE_NONE, BEYOND, NO_ADDRESS, 1024, 'ud'),
    Row(FOUR, HERE, SILENCE, 4096),
    Row(FOUR, NOBODY, SILENCE, 4096, nic='off'),
    Row(V1, NOBODY, SILENCE, nic='off'),
    Row(WIDE_NONE, NOBODY, SILENCE, nic='off'),
    Row(FOUR, NOBODY, SILENCE),
    Row(WIDE, NOBODY, SILENCE, 4096),
]
NOBODYS = '192.0.2.99'
WHERE = {HERE: '::ffff:192.0.2.1', NOBODY: f'::ffff:{NOBODYS}'}


@pytest.fixture(scope='module')
def hosts():
    with Hosts(mtu=1500) as made:
        here, there = made.hosts
        here.plain('ip', 'link', 'add', 'e0', 'mtu', 9000, 'type', 'veth', 'peer', 'name', 'e1', 'mtu', 9000)
        here.plain('ip', 'address', 'add', '198.51.100.1/24', 'dev', 'e0')
        for name in 'e0', 'e1':
            here.plain('ip', 'link', 'set', name, 'addrgenmode', 'none')
            here.plain('ip', 'link', 'set', name, 'up')
        for host in made.hosts:
            wait_for(lambda host=host: 'tentative' not in host.plain('ip', 'address', 'show', 'dev', 'w0'), 'addresses')
        yield made


def listener(hosts, row):
    """The host where it is, with the pool of the first if need be; None: nobody listens."""
    here, there = hosts.hosts
    return {POOL: here, SPACE: Host(here.fabric, there.address, there.holder, there.enter), BEYOND: there}.get(row.peer)


def asked_for(host):
    """Whether something was to go to where nobody is."""
    return bool(host.plain('ip', 'neighbour', 'show', 'to', NOBODYS).strip())


@pytest.mark.counted
@pytest.mark.parametrize('row', TABLE, ids=Row.name)
def test_choice(hosts, row):
    """Rows of the pool come first: there is no card yet by which a message could have gone. One that has come to another pool
    came over the wire: there is no other way."""
    here = hosts.hosts[0]
    program = hosts.fabrics[0].program('choice')
    place = listener(hosts, row)
    if place:
        # the peer's own choices are others': its source is an address, and its MTU fits
        index, mtu = LINK if row.index == LINK else FOUR, row.mtu if row.peer != BEYOND else min(row.mtu, 1024)
        there = place.start(program, row.service, index, mtu, 'listen', core=1)
        wait_for(lambda: place.listens(PORT) or there.process.poll() is not None, 'a listener')
    said = here.start(program, row.service, row.index, row.mtu, place.address if place else WHERE[row.peer],
                      WEFT_NIC=row.nic, WEFT_EXPLAIN='1').wait()
    assert said.status == 0, said
    heard = there.done() if place else None
    if row.outcome in (BY_POOL, BY_WIRE):
        assert said.stdout == 'success\n' and heard.stdout == 'arrived\n', (said, heard)
        assert row.outcome == BY_WIRE or not [*here.cards(), *hosts.hosts[1].cards()]
    elif row.outcome == SILENCE:
        assert said.stdout == 'transport retry counter exceeded\n', said
        assert asked_for(here) == (row.peer == NOBODY and row.nic == 'on')
    elif row.outcome.startswith('local '):
        assert (said.stdout, heard.stdout) == (row.outcome + '\n', ''), (said, heard)
    else:
        assert said.stdout == 'refused: EINVAL\n' and row.outcome in said.stderr, said


# Datagrams to a group: the GID they are sent from, the group, bytes, the outcome; where there is one, whether it reaches the
# listener beyond, too, beside that of the pool.
GROUP_FOUR, GROUP_LINK = '::ffff:239.255.0.9', 'ff02::1:9'
GROUPS = [
    (FOUR, GROUP_FOUR, 1024, 'on', 'success', True),
    (LINK, GROUP_LINK, 1024, 'on', 'success', True),
    (FOUR, GROUP_FOUR, 1024, 'off', 'success', False),
    (FOUR, GROUP_FOUR, 4096, 'off', 'success', False),
    (WIDE_NONE, GROUP_LINK, 1024, 'on', 'success', False),
    (V1, GROUP_FOUR, 1024, 'on', IS_V1, False),
    (V1, GROUP_FOUR, 1024, 'off', 'success', False),
    (FOUR, GROUP_FOUR, 1025, 'on', 'local length error', False),
]


@pytest.fixture(scope='module')
def joined(hosts):
    """Listeners to both groups, in the pool and beyond, with cards beyond that have joined for them."""
    here, there = hosts.hosts
    link = re.search(r'inet6 (fe80:\S+)/', there.plain('ip', 'address', 'show', 'dev', 'w0'))[1]
    for address in there.address, link:
        assert there.nic('up', address)[0] == 0
    listeners = {(host, group): host.start(here.fabric.program('choice'), 'ud', FOUR, 1024, f'+{group}')
                 for host in (here, there) for group in (GROUP_FOUR, GROUP_LINK)}
    for program in listeners.values():
        wait_for(lambda program=program: program.output().stdout, 'it listens')
    for group in GROUP_FOUR, GROUP_LINK:
        wait_for(lambda group=group: group.removeprefix('::ffff:') in there.plain('ip', 'maddress', 'show', 'dev', 'w0'),
                 'the card has joined')
    return listeners


@pytest.mark.counted
@pytest.mark.parametrize('index, group, mtu, nic, outcome, beyond', GROUPS)
def test_groups(hosts, joined, index, group, mtu, nic, outcome, beyond):
    """Where it arrives: each listener hears it once. The next row would find one that has come late."""
    here, there = hosts.hosts

    def arrived():
        return {place: program.output().stdout.count('arrived\n') for place, program in joined.items()}
    before = arrived()
    said = here.start(here.fabric.program('choice'), 'ud', index, mtu, group, WEFT_NIC=nic, WEFT_EXPLAIN='1').wait()
    if outcome == IS_V1:
        assert said.stdout == 'refused: EINVAL\n' and outcome in said.stderr, said
    else:
        assert said.stdout == outcome + '\n', said
    expected = dict(before)
    if outcome == 'success':
        expected[here, group] += 1
        expected[there, group] += beyond
    wait_for(lambda: arrived() == expected, 'it arrives')
    time.sleep(0.1)
    assert arrived() == expected


def active_mtu(host, **env):
    return int(re.search(r'active_mtu:\s+(\d+)', host.start('ibv_devinfo', **env).done().stdout)[1])


@pytest.mark.parametrize('mtu, active', [(9000, 4096), (4176, 4096), (4175, 2048), (2128, 2048), (1500, 1024), (1103, 512),
                                         (592, 512)])
def test_active_mtu(hosts, mtu, active):
    """As the first interface carries it now; what stays within the host has 4096."""
    here = hosts.hosts[0]
    here.plain('ip', 'link', 'set', 'w0', 'mtu', mtu)
    try:
        assert active_mtu(here) == active
        assert active_mtu(here, WEFT_NIC='off') == 4096
    finally:
        here.plain('ip', 'link', 'set', 'w0', 'mtu', 1500)


def test_cards_follow(hosts):
    """A card that is up carries what its interface does by then."""
    here = hosts.hosts[0]
    assert here.nic('up', here.address)[0] == 0
    try:
        for mtu, carried in (9000, 4096), (1280, 1024), (1103, 512):
            here.plain('ip', 'link', 'set', 'w0', 'mtu', mtu)
            wait_for(lambda carried=carried: {card['mtu'] for card in here.cards() if card['interface'] == 'w0'} ==
                     {carried}, 'the card tells')
    finally:
        here.plain('ip', 'link', 'set', 'w0', 'mtu', 1500)


@pytest.mark.parametrize('words', [('rping', '-C', 10, '-S', 3000), ('udaddy', '-c', 2, '-C', 10, '-S', 1000),
                                   ('ucmatose', '-c', 2, '-C', 10, '-S', 3000)], ids=lambda words: words[0])
def test_connections(hosts, words):
    """What librdmacm agrees upon fits through the interface."""
    client, server = hosts.hosts
    assert server.nic('up', server.address)[0] == 0
    before = hosts.counts_at_rest(0)
    to = ('-s', '-a', server.address) if words[0] == 'rping' else ('-b', server.address)
    there = server.start(*words, *to, core=1)
    wait_for(lambda: listening(server.fabric) or there.process.poll() is not None, 'server listens')
    here = client.start(*words, *(('-c', '-a') if words[0] == 'rping' else ('-s',)), server.address)
    here.done()
    there.done()
    after = hosts.counts_at_rest(0)
    assert after['bytes_sent'] - before['bytes_sent'] > 10 * 1000 and after['unsent'] == before['unsent']
    assert (after['bytes_sent'] - before['bytes_sent']) / (after['packets_sent'] - before['packets_sent']) < 1500


@pytest.mark.alone
def test_dead_wire(hosts):
    """Behind an interface that carries nothing: (retry_cnt + 1) time-outs, as choice.c has them, and half as many more and 50 ms at
    most."""
    here, there = hosts.hosts
    computed_us = 2 * 4.096 * 2 ** 14
    assert here.nic('up', here.address)[0] == 0
    there.plain('ip', 'link', 'set', 'w0', 'down')
    try:
        for _ in range(5):
            said = here.start(here.fabric.program('choice'), 'rc', FOUR, 1024, f'::ffff:{there.address}').done()
            assert said.stdout == 'transport retry counter exceeded\n'
            took_us = int(re.fullmatch(r'after (\d+) us\n', said.stderr)[1])
            assert computed_us <= took_us <= 1.5 * computed_us + 50000
    finally:
        there.plain('ip', 'link', 'set', 'w0', 'up')
