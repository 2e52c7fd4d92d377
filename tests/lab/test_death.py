# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A guest in traffic is killed as by a power cut, paused for longer than the pool's silence, or rebooted from inside, at random
moments. tests/wire/kills.c compares each byte and holds each request to one completion; here is when the survivor hears, how
soon there is traffic again, and that nothing is left."""
import collections
import os
import random
import re
import time

import pytest

from lab.guests import Guests
from wire.test_kills import EXHAUSTED

SILENCE_S = 1
TIMERS_S = 0.54  # of kills.c: (3 + 1) * 4.096 us << 15
HEARS_S = TIMERS_S + SILENCE_S + 1
LOOKS_S = 0.3  # until a line of a guest is a file of this machine, and read there
AGAIN_S = 10
LEFT_S = 5
PATIENCE_S = 300
KILLED, PAUSED, REBOOTED = 'killed', 'paused', 'rebooted'
MOST_MOMENT_S = 0.5

pytestmark = [pytest.mark.alone, pytest.mark.timeout(1800)]


def wait_until(holds, what, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f'not after {seconds} s: {what()}'
        time.sleep(0.02)


class Side:
    """A program of a host that has one connection after the other."""

    def __init__(self, machines, host, *peer):
        self.machines, self.host, self.peer = machines, host, peer
        self.start()

    def start(self):
        # its host has no home yet when it has just booted
        self.command = self.machines.start(self.host, '/run/job/kills', 1, *self.peer, PATIENCE=3600, ENOUGH=3,
                                           WEFT_HOST=self.host)
        self.seen = 0

    def lines(self):
        """What it has said of its connections: that one runs, or how it ended."""
        return [line for line in self.command.output().splitlines(True) if re.search(r'^running\n|^(\S.*) at \d+\n', line)]

    def runs(self):
        assert not self.command.is_over(), self.command.output()
        lines = self.lines()
        self.seen = len(lines)
        return lines[-1:] == ['running\n']

    def await_end(self):
        """How its connection ended, which ran; one that has begun since is not looked at."""
        wait_until(lambda: len(self.lines()) > self.seen or self.command.is_over(), self.command.output)
        assert len(self.lines()) > self.seen, self.command.output()
        return self.lines()[self.seen].rpartition(' at ')[0]


@pytest.fixture(scope='module')
def machines(lab):
    Guests.silence_ms, before = SILENCE_S * 1000, Guests.silence_ms
    try:
        with Guests('pcie', emulated=True, reboots=True) as made:
            yield made
    finally:
        Guests.silence_ms = before


def await_traffic(sides):
    """After how long there is."""
    begun_s = time.monotonic()
    wait_until(lambda: all([side.runs() for side in sides]), lambda: [side.command.output() for side in sides])
    return time.monotonic() - begun_s


def what_is_left(machines, host):
    """But for the times that each call tells anew."""
    info = machines.info(host)
    return len(info['members']), len(info['qps']), len(info['regions']), info['pool']['segments_leased']


def strike(machines, sides, how, which, pause_s):
    """(how late the survivor has heard of it, how soon there was traffic again), in seconds."""
    doomed, survivor = sides[which], sides[1 - which]
    guest = machines.guests[doomed.host]
    begun_s = time.monotonic()
    if how == PAUSED:
        with guest.paused():
            said, heard_s = survivor.await_end(), time.monotonic()
            time.sleep(max(0, begun_s + pause_s - time.monotonic()))
        doomed.await_end()
    else:
        if how == KILLED:
            guest.kill()
            begun_s = time.monotonic()
        else:
            begun_s = guest.reboot()
        said, heard_s = survivor.await_end(), time.monotonic()
        if how == KILLED:
            guest.boot()
        guest.await_up()
    up_s = time.monotonic()
    if how != PAUSED:
        machines.come(guest)
        doomed.start()
    assert said == EXHAUSTED, survivor.command.output()
    await_traffic(sides)
    return heard_s - begun_s, time.monotonic() - up_s


def play(machines, strikes, longest_s, seed):
    """{how: [what strike returns]}"""
    chance, taken = random.Random(seed), collections.defaultdict(list)
    machines.await_hosts()
    before = [what_is_left(machines, host) for host in (0, 1)]
    sides = [Side(machines, 0), Side(machines, 1, machines.guests[0].address)]
    for number in range(strikes):
        how = (KILLED, PAUSED, REBOOTED)[number % 3]
        print(f'traffic after {await_traffic(sides):.1f} s', flush=True)
        time.sleep(chance.uniform(0, MOST_MOMENT_S))
        pause_s = chance.uniform(SILENCE_S + 1, longest_s)
        taken[how].append(strike(machines, sides, how, chance.randrange(2), pause_s))
        print(f'{number + 1}: {how}: heard after {taken[how][-1][0]:.2f} s, traffic again after {taken[how][-1][1]:.1f} s', flush=True)
    for side in sides:
        side.command.kill()
    for host in (0, 1):
        wait_until(lambda host=host: what_is_left(machines, host) == before[host],
                   lambda host=host: (what_is_left(machines, host), before[host], machines.info(host)), LEFT_S)
    return taken


def check(taken):
    for how, each in taken.items():
        late_s, again_s = (max(values) for values in zip(*each, strict=True))
        assert late_s <= HEARS_S + LOOKS_S and again_s <= AGAIN_S, (how, each)


def test_one_of_each(machines):
    check(play(machines, 3, 3, 12))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many(machines):
    """$DEATHS bounds it."""
    seed = int(os.environ.get('SEED', time.time_ns()))
    print(f'seed {seed}')
    check(play(machines, int(os.environ.get('DEATHS', 200)), 60, seed))
