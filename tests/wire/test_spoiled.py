# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Cards on a wire that link/fault spoils, each way: across.c compares every byte of all verbs after each step, and what atomics
have counted. Up to 1 % nothing fails; above, retries may run out, which ends a connection and is counted."""
import itertools
import os
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


def spoil(hosts, shares, seed):
    """Their cards, once they are there."""
    how = ','.join(str(round(share * OF / 100)) for share in shares)
    cards = [host.start(host.fabric.program('spoiled'), host.address, on_weft=False, WEFT_POOL=str(host.fabric.pool),
                        SPOILED=f'{how},{2 * seed + i}') for i, host in enumerate(hosts.hosts)]
    for card in cards:
        wait_for(lambda card=card: 'ready' in card.output().stdout or card.process.poll() is not None, 'a card')
    return cards


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
    cards, failed = spoil(hosts, shares, seed), 0
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
