# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Cards on a wire that link/fault spoils, each way: across.c compares every byte of all verbs after each step, and what atomics
have counted. Up to 1 % nothing fails; above, retries may run out, which ends a connection and is counted. lossy.c: unreliable connections
and datagrams; what comes is whole, and once."""
import itertools
import os
import re
import time

import pytest

from fabric import namespaces, wait_for
from wire.hosts import FOUR, Hosts

pytestmark = pytest.mark.skipif(not namespaces(), reason='no user namespaces here')
OF = 65536
KINDS = 4  # lost, doubled, late, corrupted
# What a card counts once a kind of fault has befallen packets.
SIGNS = ('sent_again', 'duplicates', 'out_of_sequence', 'wrong_icrc')


@pytest.fixture(scope='module')
def hosts():
    with Hosts() as made:
        yield made


def spoil(hosts, *how):
    """Their cards, once they are there."""
    cards = [host.start(host.fabric.program('spoiled'), host.address, on_weft=False, WEFT_POOL=str(host.fabric.pool),
                        SPOILED=spoils) for host, spoils in zip(hosts.hosts, how)]
    for card in cards:
        wait_for(lambda card=card: 'ready' in card.output().stdout or card.process.poll() is not None, 'a card')
    return cards


def spoil_by(hosts, shares, seed):
    """The same by shares, in percent."""
    how = ','.join(str(round(share * OF / 100)) for share in shares)
    return spoil(hosts, *(f'{how},{2 * seed + i}' for i in range(2)))


def end(cards):
    for card in cards:
        card.kill()


def signs(hosts):
    """What either card has counted by now; they tell ten times a second."""
    return {sign for host in hosts.hosts for sign in SIGNS if host.card()[sign]}


def signs_of(shares):
    """One in a thousand befalls few packets of a short game."""
    return {sign for sign, share in zip(SIGNS, shares) if share >= 1}


def play(hosts, shares, seed, options, seconds=60):
    """How often retries ran out."""
    cards, failed = spoil_by(hosts, shares, seed), 0
    try:
        program = hosts.fabrics[0].program('across-verbs')
        here, there = hosts.hosts
        words = (program, FOUR, '-s', seed, *options)
        server = there.start(*words, core=0)
        wait_for(lambda: there.listens(18516) or server.process.poll() is not None, 'server listens')
        client = here.start(*words, there.address, core=1)
        client.wait(seconds), server.wait(seconds)
        sides = [side.output() for side in (client, server)]
        if any(side.status for side in sides):
            assert any('status 12' in side.stderr for side in sides), sides
            assert not any('a byte' in side.stderr for side in sides), sides
            failed = 1
        if not failed:
            wait_for(lambda: signs_of(shares) <= signs(hosts), 'counters')
        assert shares[3] or 'wrong_icrc' not in signs(hosts)
        return failed
    finally:
        end(cards)


CASES = [tuple(share if kind in (i, KINDS) else 0 for i in range(KINDS))
         for share, kind in itertools.product((0.1, 1, 5, 20), range(KINDS + 1))]


def name(shares):
    return '-'.join(map(str, shares))


@pytest.mark.parametrize('shares', CASES, ids=name)
def test_spoiled(hosts, shares):
    """Where a connection may end its time-outs are short; else a machine that stands still for a moment ends none."""
    options = ('-t', 14) if max(shares) > 5 else ()
    failed = play(hosts, shares, 7, ('-n', 10, '-l', 9000, *options))
    assert not failed or max(shares) > 5


def send_unreliably(hosts, *options):
    """What came of messages over UC, and of datagrams: of how many, how many, how many twice, how many late."""
    said, heard = hosts.pair(hosts.fabrics[0].program('lossy'), FOUR, *options, port=18521)
    assert said.stdout == ''
    came = re.fullmatch(r'UC: (\d+) of (\d+) came, (\d+) twice, (\d+) late\nUD: (\d+) of (\d+) came, (\d+) twice, (\d+) late\n',
                        heard.stdout)
    assert came, heard
    figures = list(map(int, came.groups()))
    return figures[:4], figures[4:]


@pytest.mark.parametrize('shares', [(5, 0, 0, 0), (0, 5, 0, 0), (0, 0, 5, 0), (0, 0, 0, 5), (1, 1, 1, 1), (20, 20, 20, 20)], ids=name)
def test_unreliable(hosts, shares):
    """A packet that is lost, late or corrupted takes its message with it; one that comes twice is a datagram that comes twice."""
    lost, doubled, late, corrupted = shares
    cards = spoil_by(hosts, shares, 9)
    try:
        (came, of, twice, behind), (datagrams, of_datagrams, datagrams_twice, datagrams_late) = send_unreliably(hosts)
        assert twice == behind == 0  # lossy.c fails otherwise
        assert (came < of) == (lost + late + corrupted > 0) and came > 0
        # the shares, and what a machine that stands still loses beside them
        left = of_datagrams * (1 - lost / 100) * (1 - corrupted / 100)
        assert left / 2 < datagrams <= of_datagrams
        # the last may be held back for ever
        assert datagrams < of_datagrams if lost + corrupted else datagrams >= of_datagrams - (late > 0)
        assert (datagrams_twice > 0) == (doubled > 0) and (datagrams_late > 0) == (late > 0)
        wait_for(lambda: not corrupted or 'wrong_icrc' in signs(hosts), 'counters')
    finally:
        end(cards)


def test_each_packet_lost(hosts):
    """Of UC's messages of ten packets, SEND and WRITE: each packet in turn, and no message but its own is missing."""
    cards = spoil(hosts, 'in turn', 'in turn')
    try:
        (came, of, *_), (datagrams, of_datagrams, *_) = send_unreliably(hosts, '-t')
        assert (came, of) == (20, 40) and datagrams == of_datagrams
    finally:
        end(cards)


@pytest.mark.slow
def test_long(hosts):
    """An hour; $SECONDS bounds it."""
    failures, seed, shares = 0, 100, itertools.cycle(CASES)
    end_s = time.monotonic() + int(os.environ.get('SECONDS', 3600))
    while time.monotonic() < end_s:
        case = next(shares)
        failed = play(hosts, case, seed, ('-n', 200, '-l', 300000), 600)
        assert not failed or max(case) > 1
        failures, seed = failures + failed, seed + 1
    print(f'{seed - 100} games, {failures} connections ended')
