# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Cards and programs die in traffic at each labelled step (pool/step.h) that they pass there, and where a connection begins and
ends; what the others hear is as in test_kills.py. mortal/ has a libibverbs and a card with steps: each counts in a file how often it
has passed each step, and dies at the one that the file orders."""
import atexit
import functools
import mmap
import random
import re
import shutil
import statistics
import struct
import tempfile
import time
import zlib
from pathlib import Path

import pytest

from fabric import BUILD, Fabric, namespaces, wait_for
from wire.hosts import Hosts
from wire.test_kills import EXHAUSTED, PAIRS, PROMISED_S, Side, end_all, side_by_side, wait_for_traffic

MORTAL = BUILD / 'tests/wire/mortal'
SOURCES = Path(__file__).resolve().parents[2] / 'src'
pytestmark = [pytest.mark.skipif(not namespaces(), reason='no user namespaces here'), pytest.mark.waits,
              pytest.mark.skipif(not (MORTAL / 'weftd').exists(), reason='built without steps')]
CARD, PROGRAM = 'weftd', 'kills'
NAME, STEP, STEPS = 40, 48, 250  # bytes of a name, and of an entry; entries
# What kills.c and its card pass with each message, at least.
IN_TRAFFIC = {CARD: {'card_entry_written', 'card_returned', 'card_ended', 'peer_receive_taken', 'peer_completed'},
              PROGRAM: {'handed_posted', 'handed_rung', 'return_found'}}
# Of a connection that begins or ends; and what brings them there: the death of the other's program, or of their own card.
AT_ITS_END = [(CARD, 'card_verdict', PROGRAM), (PROGRAM, 'handed_verdict_taken', PROGRAM),
              (PROGRAM, 'handed_card_dead', CARD), (PROGRAM, 'handed_returns_put', PROGRAM),
              (PROGRAM, 'handed_made', PROGRAM)]


@functools.cache
def home():
    """A folder as of a build, where an ordinary user may read it."""
    folder = Path(tempfile.mkdtemp(prefix='weft-mortal-'))
    atexit.register(shutil.rmtree, folder)
    folder.chmod(0o755)
    (folder / 'src/cli').mkdir(parents=True)
    for path in [BUILD / name for name in ('weft', 'librdmacm.so.1', 'libweft-shim.so', 'tests/wire/kills')] + [
            MORTAL / name for name in ('libibverbs.so.1', 'weftd')]:
        shutil.copy2(path, folder)
    return folder


class MortalFabric(Fabric):
    def __init__(self):
        super().__init__()
        self.home, self.command = home(), home() / 'weft'
        self.deaths = {name: Deaths(self.folder / f'deaths-{name}') for name in (CARD, PROGRAM)}


class Deaths:
    """The file that processes of one name share with us (mortal/death.c)."""

    def __init__(self, path):
        path.write_bytes(bytes(NAME + 16 + STEPS * STEP))
        path.chmod(0o666)
        with open(path, 'r+b') as file:
            self.map = mmap.mmap(file.fileno(), 0)

    def passed(self):
        """How often they have passed each step."""
        entries = [struct.unpack_from(f'{NAME}sQ', self.map, NAME + 16 + i * STEP) for i in range(STEPS)]
        return {name.rstrip(b'\0').decode(): passed for name, passed in entries if name[0]}

    def order(self, step, passes):
        """The process that passes the step so many times from now on dies there."""
        struct.pack_into('Q', self.map, NAME + 8, 0)
        struct.pack_into(f'{NAME}s', self.map, 0, step.encode())
        struct.pack_into('Q', self.map, NAME, passes)

    def died_s(self):
        """When, on the clock of time.monotonic; 0: nothing has died yet."""
        return struct.unpack_from('Q', self.map, NAME + 8)[0] / 1e9


def steps_in_traffic(hosts, name):
    """What either side's processes of that name pass."""
    every = [host.fabric.deaths[name] for host in hosts.hosts]
    was = [deaths.passed() for deaths in every]
    time.sleep(0.3)
    return {step for deaths, before in zip(every, was) for step, passed in deaths.passed().items() if passed > before[step]}


def bring_to_end(sides, which, cause):
    """Ends the connection of that side's program; in the death of a program or a card, of which nothing else is asked."""
    if cause == PROGRAM:
        sides[1 - which].end()
        sides[1 - which].start()
    else:
        deaths = sides[which].host.fabric.deaths[CARD]
        deaths.order('card_ended', 1)
        wait_for(deaths.died_s, 'the death of the card')


def die_in_traffic(sides, name, step, which, passes):
    """Of a card: after how many seconds its program has heard all of it."""
    deaths = sides[which].host.fabric.deaths[name]
    wait_for_traffic(sides)
    deaths.order(step, passes)
    wait_for(deaths.died_s, f'a death at {step}')
    if name == PROGRAM:
        assert sides[1 - which].says()[0] == EXHAUSTED
        sides[which].end()
        sides[which].start()
        return None
    said, heard_s = sides[which].says()
    assert said == f'{EXHAUSTED}, fatal', (step, said)
    assert sides[1 - which].says()[0] == EXHAUSTED
    return heard_s - deaths.died_s()


def die_at_end(sides, name, step, which, cause):
    deaths = sides[which].host.fabric.deaths[name]
    wait_for_traffic(sides)
    deaths.order(step, 1)
    bring_to_end(sides, which, cause)
    wait_for(deaths.died_s, f'a death at {step}')
    if name == PROGRAM:
        sides[which].end()
        sides[which].start()
    else:
        # the card dies as it tells of an error: of that, or of its death, the program hears
        assert sides[which].says()[0].startswith(EXHAUSTED)


def part_of(step):
    return zlib.crc32(step.encode()) % PAIRS


def play(part, seed):
    """One of PAIRS parts of all deaths: the steps at which there was one, and how late programs have heard of those of cards."""
    chance, late_s, died = random.Random(seed), [], set()
    with Hosts(fabric=MortalFabric) as hosts:
        here, there = hosts.hosts
        sides = [Side(there), Side(here, there)]
        wait_for_traffic(sides)
        steps = [(name, step) for name in (CARD, PROGRAM) for step in sorted(steps_in_traffic(hosts, name) | IN_TRAFFIC[name])]
        for name, step in steps:
            if part_of(step) == part:
                late_s.append(die_in_traffic(sides, name, step, chance.randint(0, 1), chance.randint(1, 8)))
                died.add(step)
        for name, step, cause in AT_ITS_END:
            if part_of(step) == part:
                die_at_end(sides, name, step, chance.randint(0, 1), cause)
                died.add(step)
        wait_for_traffic(sides)
        end_all(hosts, sides)
    return died, [s for s in late_s if s is not None]


def of_handed():
    """The steps of what is handed, at either side."""
    return {step for path in SOURCES.glob('**/*.c')
            for step in re.findall(r'WEFT_STEP\(((?:handed|card|return)_\w+)\)', path.read_text())}


def test_deaths():
    """The limit of a second is asked of the median: programs wait for cores, too, where the machine has other work."""
    games = side_by_side((play, part, 50 + part) for part in range(PAIRS))
    died = set.union(*(steps for steps, _ in games))
    print(len(died), 'steps:', *sorted(died))
    assert of_handed() <= died
    assert statistics.median(sum((late_s for _, late_s in games), [])) <= PROMISED_S
