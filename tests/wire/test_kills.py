# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Cards and programs are killed in traffic between two hosts. kills.c compares every byte, and holds each request to one
completion, in order; here is what each side hears: a program whose card has died hears QP_FATAL, within a second, and its peer, as the
peer of a program that has died, only its own timers. The next connection has a fresh card, and nothing is left at the end."""
import os
import random
import re
import signal
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fabric import Trouble, namespaces, wait_for
from wire.hosts import FOUR, Hosts

pytestmark = [pytest.mark.skipif(not namespaces(), reason='no user namespaces here'), pytest.mark.waits]
EXHAUSTED = 'transport retry counter exceeded'
CARD, PROGRAM = 'card', 'program'
PAIRS = 3
PROMISED_S = 1


class Side:
    """A program that has one connection after the other."""

    def __init__(self, host, peer=None):
        self.host, self.words = host, [FOUR, *([peer.address] if peer else [])]
        self.start()

    def start(self):
        self.program = self.host.start(self.host.fabric.program('kills'), *self.words)
        self.seen = 0  # lines

    def has_ended(self):
        return self.program.process.poll() is not None

    def runs(self):
        """Whether its connection has traffic. One that has ended because the machine stood still has been followed by another."""
        lines = self.lines()
        self.seen = len(lines)
        return lines[-1:] == ['running\n']

    def says(self):
        """Its next line since: of what failed, and when, in seconds of the clock of time.monotonic."""
        wait_for(lambda: len(self.lines()) > self.seen or self.has_ended(), 'a line')
        lines = self.lines()
        assert len(lines) > self.seen, self.program.trouble('ended')
        what, when = re.fullmatch(r'(.*) at (\d+)\n', lines[self.seen]).groups()
        return what, int(when) / 1e9

    def lines(self):
        return [line for line in self.program.output().stdout.splitlines(True) if line.endswith('\n')]

    def end(self):
        self.program.kill()


def kill_one(sides, what, which):
    """Kills the card, or the program, of that side. Of a card: after how many seconds its program has heard all of it."""
    doomed, other = sides[which], sides[1 - which]
    late_s = None
    if what == CARD:
        pid, killed_s = doomed.host.card()['pid'], time.monotonic()
        os.kill(pid, signal.SIGKILL)
        said, heard_s = doomed.says()
        assert said == f'{EXHAUSTED}, fatal'
        late_s = heard_s - killed_s
    else:
        doomed.end()
    assert other.says()[0] == EXHAUSTED
    if what == PROGRAM:
        doomed.start()
    return late_s


def nothing_left(host):
    """Once a new member has recovered what the dead have left."""
    host.start('ibv_devinfo').done()
    info = host.fabric.info()
    return not info['qps'] and not info['regions'] and len(info['members']) <= len(host.cards())


def end_all(hosts, sides):
    for side in sides:
        side.end()
    for host in hosts.hosts:
        wait_for(lambda host=host: nothing_left(host), 'nothing is left')
        assert len(host.cards()) == 1


def wait_for_traffic(sides):
    """Of two programs the one ends as the other has failed: what both say is told."""
    def all_run():
        if any(side.has_ended() for side in sides):
            time.sleep(0.5)
            raise Trouble('\n'.join(str(side.program.trouble(f'ended with {side.program.process.poll()}')) for side in sides))
        return all([side.runs() for side in sides])

    wait_for(all_run, 'traffic')


def play(kills, seed, whats=(CARD, PROGRAM)):
    """How late programs have heard of the deaths of their cards."""
    chance, late_s = random.Random(seed), []
    with Hosts() as hosts:
        here, there = hosts.hosts
        sides = [Side(there), Side(here, there)]
        for i in range(kills):
            wait_for_traffic(sides)
            time.sleep(chance.random() / 50)
            late_s.append(kill_one(sides, whats[i % len(whats)], i // len(whats) % 2))
        wait_for_traffic(sides)
        end_all(hosts, sides)
    return [s for s in late_s if s is not None]


def side_by_side(games):
    """Most of the time passes in waiting for timers: so several pairs of hosts at once. What each game returns."""
    with ThreadPoolExecutor(PAIRS) as pool:
        return [game.result() for game in [pool.submit(*game) for game in games]]


def play_side_by_side(kills, seed):
    late_s = sum(side_by_side((play, -(-kills // PAIRS), seed + i) for i in range(PAIRS)), [])
    assert statistics.median(late_s) <= PROMISED_S


def test_kills():
    play_side_by_side(50, 11)


@pytest.mark.alone
def test_within_a_second():
    """Of the death of a card its program hears within a second: the error, what is flushed, and the event."""
    assert max(play(6, 31, (CARD,))) <= PROMISED_S


@pytest.mark.slow
def test_many_kills():
    """$KILLS bounds it."""
    kills, begun = int(os.environ.get('KILLS', 5000)), time.monotonic()
    play_side_by_side(kills, 101)
    print(f'{kills} kills in {time.monotonic() - begun:.0f} s')
