# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Cards and programs are killed in traffic between two hosts. kills.c compares every byte, and holds each request to one
completion, in order; here is what each side hears: a program whose card has died hears QP_FATAL, and its peer, as the peer of a program that
has died, only its own timers. The next connection has a fresh card, and nothing is left at the end."""
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fabric import namespaces, wait_for
from wire.hosts import FOUR, Hosts

pytestmark = [pytest.mark.skipif(not namespaces(), reason='no user namespaces here'), pytest.mark.waits]
EXHAUSTED = 'transport retry counter exceeded'
CARD, PROGRAM = 'card', 'program'
PAIRS = 3


class Side:
    """A program that has one connection after the other."""

    def __init__(self, host, peer=None):
        self.host, self.words = host, [FOUR, *([peer.address] if peer else [])]
        self.start()

    def start(self):
        self.program = self.host.start(self.host.fabric.program('kills'), *self.words)
        self.seen = 0  # lines

    def runs(self):
        """Whether its connection has traffic. One that has ended because the machine stood still has been followed by another."""
        assert self.program.process.poll() is None, self.program.trouble('ended')
        lines = self.lines()
        self.seen = len(lines)
        return lines[-1:] == ['running\n']

    def says(self):
        """Its next line since."""
        wait_for(lambda: len(self.lines()) > self.seen or self.program.process.poll() is not None, 'a line')
        assert len(self.lines()) > self.seen, self.program.trouble('ended')
        return self.lines()[self.seen]

    def lines(self):
        return [line for line in self.program.output().stdout.splitlines(True) if line.endswith('\n')]

    def end(self):
        self.program.kill()


def kill_one(sides, what, which):
    """Kills the card, or the program, of that side."""
    doomed, other = sides[which], sides[1 - which]
    if what == CARD:
        os.kill(doomed.host.card()['pid'], signal.SIGKILL)
        assert doomed.says() == f'{EXHAUSTED}, fatal\n'
    else:
        doomed.end()
    assert other.says() == f'{EXHAUSTED}\n'
    if what == PROGRAM:
        doomed.start()


def nothing_left(host):
    """Once a new member has recovered what the dead have left."""
    host.start('ibv_devinfo').done()
    info = host.fabric.info()
    return not info['qps'] and not info['regions'] and len(info['members']) <= len(host.cards())


def play(kills, seed):
    chance = random.Random(seed)
    with Hosts() as hosts:
        here, there = hosts.hosts
        sides = [Side(there), Side(here, there)]
        for i in range(kills + 1):
            wait_for(lambda: all([side.runs() for side in sides]), 'traffic')
            if i == kills:
                break
            time.sleep(chance.random() / 50)
            kill_one(sides, (CARD, PROGRAM)[i % 2], i // 2 % 2)
        for side in sides:
            side.end()
        for host in hosts.hosts:
            wait_for(lambda host=host: nothing_left(host), 'nothing is left')
            assert len(host.cards()) == 1


def play_side_by_side(kills, seed):
    """Most of the time passes in waiting for timers: so several pairs of hosts at once."""
    with ThreadPoolExecutor(PAIRS) as pool:
        for game in [pool.submit(play, -(-kills // PAIRS), seed + i) for i in range(PAIRS)]:
            game.result()


def test_kills():
    play_side_by_side(50, 11)


@pytest.mark.slow
def test_many_kills():
    play_side_by_side(5000, 101)
