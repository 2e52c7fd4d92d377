# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs on the nodes of a live torus: each byte, the words on each cable, and which process maps which pool."""
import itertools
import importlib.util
import os
import signal
import time
from pathlib import Path

import pytest

import torus  # of bench/
from live import wait_until

spec = importlib.util.spec_from_file_location('oracle', Path(__file__).resolve().parents[1] / 'ape/test_routes.py')
oracle = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oracle)

RIGHT = 'every byte is right'
CABLES = ['x+', 'x-', 'y+', 'y-', 'z+', 'z-']
SIZES = [0, 1, 15, 16, 17, 255, 4095, 4096, 4097, 8192, 20000]  # as in pairs.c


@pytest.mark.parametrize('words', [
    '2x2x2', '1', '3x3 --mesh y', '8 --ties parity', '5 --lanes 4', '4x2 --lanes 1 --engines 1',
    '2x3x2 --order zyx --vcs 2', '4 --mesh x --vcs 1 --fifo 320', '3x2 --fifo 15360', '3 --lanes 1 --fifo 3840', '2x2 --phy 8b10b --lanes 4',
    '3 --phy 64b66b', '2x2 --link udp', '3 --link udp --phy 64b66b --lanes 1',
])
@pytest.mark.counted
def test_all_pairs(live, words):
    size = words.split()[0]
    nodes = eval(size.replace('x', '*'))  # pylint: disable=eval-used
    live.weft('up', *words.split())
    assert live.each('torus-pairs').count(RIGHT) == nodes
    assert all(node['bad'] == 0 for node in live.status()['nodes'])


def test_memory_in_place(live):
    """Memory that is not of the pool is reached by the kernel's process_vm calls."""
    live.weft('up', '2x2')
    assert live.each('torus-pairs', 'place').count(RIGHT) == 4


def coordinates(text):
    return tuple(map(int, text.split(',')))


def words_of(size):
    """Payload words of the packets that a message is cut into."""
    return sum((min(4096, size - at) + 15) // 16 for at in range(0, size, 4096))


def predicted(size, lines):
    """How many words of payload each cable carries for what pairs.c does between its two holds."""
    nodes = [c[::-1] for c in itertools.product(*(range(s) for s in reversed(size)))]
    sent = {(node, cable): 0 for node in nodes for cable in range(6)}

    def travel(at, to, words):
        for hop in oracle.path(at, to, size, lines, 210, oracle.PLUS):
            cable = int(hop[0])
            sent[at, cable] += words
            d, step = cable // 2, -1 if cable % 2 else 1
            at = tuple((c + step) % size[i] if i == d else c for i, c in enumerate(at))
    for a, b in itertools.permutations(nodes, 2):
        for bytes_ in SIZES:
            travel(a, b, 3)  # three meetings, a word each
            travel(a, b, words_of(bytes_))
            travel(a, b, 1)  # a GET says what it wants in a word
            travel(b, a, words_of(bytes_))
    return sent


def counted(status):
    return {(coordinates(c['node']), CABLES.index(c['cable'])): c['data'] for c in status['cables']}


def repeated(status):
    return [(node['again'], node['refused']) for node in status['nodes']]


def settled(live):
    """The status when two looks find the same: cards write their counts when they go to sleep."""
    seen = []

    def is_settled():
        seen.append(live.status())
        time.sleep(0.2)
        return len(seen) > 1 and counted(seen[-1]) == counted(seen[-2]) and repeated(seen[-1]) == repeated(seen[-2])
    wait_until(is_settled, 'cards do not come to rest')
    return seen[-1]


@pytest.mark.parametrize('size,mesh', [((2, 2, 2), ''), ((5, 2, 1), ''), ((4, 3, 1), 'x')])
def test_words_are_those_of_dimension_order(live, size, mesh):
    live.weft('up', 'x'.join(map(str, size)), '--mesh', mesh)
    nodes = [node['node'] for node in live.status()['nodes']]
    programs = [live.start(node, 'torus-pairs', 'hold') for node in nodes]

    def all_say(what):
        for program in programs:
            assert program.stdout.readline().split()[1] == what
        return settled(live)

    def go_on():
        for program in programs:
            program.stdin.write('\n')
            program.stdin.flush()
    before = all_say('begins')
    go_on()
    after = all_say('ends')
    go_on()
    assert [program.wait(30) for program in programs] == [0] * len(programs)
    assert repeated(after) == repeated(before), 'something was sent twice: its words cannot be predicted'
    found = {key: counted(after)[key] - counted(before)[key] for key in counted(after)}
    wanted = {key: words for key, words in predicted(size, 1 if mesh else 0).items() if key in found}
    assert found == wanted
    for cable in after['cables']:
        other = list(coordinates(cable['node']))
        which = CABLES.index(cable['cable'])
        other[which // 2] = (other[which // 2] + (-1 if which % 2 else 1)) % size[which // 2]
        there = next(c for c in after['cables']
                     if c['node'] == ','.join(map(str, other)) and c['cable'] == CABLES[which ^ 1])
        assert there['data_received'] == cable['data']


@pytest.mark.parametrize('width', torus.LENGTHS)
def test_what_of_a_cable_is_payload(live, width):
    """Each kind of beat at the far end, exactly; as `weft bench --torus` shows it."""
    live.weft('up', '2x2x2', '--lanes', width // 64)
    rows = list(torus.shares(live.start, lambda: live.weft('status', '--json'), 'torus', width, 200))
    assert [row['words'] for row in rows] == torus.LENGTHS[width] and all(row['ok'] for row in rows), rows


def pools_of(pid):
    """The pools that a process maps or has open."""
    found = {line.split()[-1] for line in Path(f'/proc/{pid}/maps').read_text().splitlines() if '/pool' in line}
    for fd in Path(f'/proc/{pid}/fd').iterdir():
        try:
            found.add(os.readlink(fd))
        except FileNotFoundError:
            pass
    return {path for path in found if path.endswith('/pool')}


def children(pid):
    listed = Path(f'/proc/{pid}/task/{pid}/children').read_text().split()
    return [int(child) for child in listed]


def test_nodes_are_apart(live):
    live.weft('up', '2x2x2')
    cards = live.pids()
    programs = {node: live.start(node, 'torus-pairs', 'hold') for node in cards}
    for program in programs.values():
        assert program.stdout.readline().split()[1] == 'begins'
    home = next(live.home.iterdir())
    for node, card in cards.items():
        own = {f'{home}/{node.replace(",", ".")}/pool'}
        for pid in (card, programs[node].pid, *children(programs[node].pid)):
            assert pools_of(pid) <= own, pid
        assert pools_of(card) == own and pools_of(programs[node].pid) == own


def memory_kib(pid):
    return int(next(line for line in Path(f'/proc/{pid}/status').read_text().splitlines()
                    if line.startswith('RssAnon')).split()[1])


def test_a_card_is_stopped_for_a_second(live):
    """Traffic waits, and nothing is lost; no card's memory grows."""
    live.weft('up', '4x2')
    cards = live.pids()
    live.each('torus-pairs')
    before = {node: memory_kib(pid) for node, pid in cards.items()}
    programs = [live.start(node, 'torus-pairs') for node in cards]
    time.sleep(0.1)
    os.kill(cards['1,0,0'], signal.SIGSTOP)
    time.sleep(1)
    assert any(program.poll() is None for program in programs), 'the card was stopped too late'
    os.kill(cards['1,0,0'], signal.SIGCONT)
    assert [program.wait(40) for program in programs] == [0] * 8
    assert all(RIGHT in program.stdout.read() for program in programs)
    assert {node['bad'] for node in live.status()['nodes']} == {0}
    assert all(memory_kib(pid) - before[node] <= 256 for node, pid in cards.items())
