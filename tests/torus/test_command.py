# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft torus`: up, down, status, run; what it says to wrong words, and what it leaves behind."""
import os
import time
from pathlib import Path

import pytest

from live import is_running, kill, wait_until


def test_up_and_down(live):
    assert live.weft('up', '2x2x2') == 'torus is up: 8 nodes\n'
    status = live.status()
    assert status['torus']['size'] == '2x2x2' and status['torus']['cards'] == 8
    assert len(status['cables']) == 8 * 6 and all(cable['up'] for cable in status['cables'])
    pids = [node['pid'] for node in status['nodes']]
    assert len(set(pids)) == 8 and all(map(is_running, pids))
    assert "'torus' is up" in live.weft('up', '2', status=1)
    assert all(map(is_running, pids)), 'a second `up` has ended cards of the first'
    assert live.weft('down') == 'torus is down: 8 cards ended\n'
    assert not any(map(is_running, pids)) and not list(live.home.iterdir())
    assert 'there is no torus' in live.weft('down', status=1)


@pytest.mark.parametrize('words', [
    ['0'], ['2x'], ['x2'], ['2x2x2x2'], ['-1'], ['65'], ['8x8x2'], ['300'], ['2,2'], ['2x0x2'], [],
    ['2', '--mesh', 'w'], ['2', '--order', 'xy'], ['2', '--order', 'xxy'], ['2', '--ties', 'left'],
    ['2', '--vcs', '3'], ['2', '--vcs', '0'], ['2', '--lanes', '3'], ['2', '--fifo', '100'], ['2', '--fifo', '4000'],
    ['2', '--engines', '0'], ['2', '--engines', '9'], ['2', '--name', 'a/b'], ['2', '--name', ''],
    ['2', '--name', 'a' * 33], ['2', '--name'], ['2', '--what'], ['2', '3'],
], ids=' '.join)
def test_wrong_words(live, words):
    said = live.weft('up', *words, status=2)
    assert said.startswith('weft torus: ') and said.endswith('Try `weft torus --help`.\n')
    assert not list(live.home.iterdir())


def test_no_such_torus(live):
    assert "there is no torus 'gone'" in live.weft('status', '--name', 'gone', status=1)
    assert "there is no torus 'gone'" in live.weft('run', '--name', 'gone', '--', 'true', status=125)


def test_run(live):
    live.weft('up', '3x2')
    assert live.weft('run', '--node', '2,1,0', '--', 'sh', '-c', 'echo $WEFT_TORUS_NODE $WEFT_POOL').split() == [
        f'{live.home}/weft-torus-{os.stat(next(live.home.iterdir())).st_uid}-torus/2.1.0{end}' for end in ('', '/pool')]
    assert 'has no node' in live.weft('run', '--node', '3,0,0', '--', 'true', status=2)
    assert 'has no node' in live.weft('run', '--node', '0,0', '--', 'true', status=2)
    live.weft('run', '--', 'sh', '-c', 'exit 7', status=7)
    live.weft('run', '--each', '--', 'sh', '-c', 'case $WEFT_TORUS_NODE in *1.1.0) exit 5;; esac', status=5)
    live.weft('run', '--', 'there-is-no-such-program', status=127)


@pytest.mark.parametrize('then', ['down', 'up'])
def test_after_a_kill_of_everything(live, then):
    """Programs, too: one that uses the torus is killed with the cards."""
    live.weft('up', '2x2')
    program = live.start('0,0,0', 'torus-pairs', 'alone')
    assert program.stdout.readline() == '0 alone\n'
    pids = list(live.pids().values())
    program.kill()
    kill(pids)
    assert {node['state'] for node in live.status()['nodes']} == {'dead'}
    assert 'has died' in live.weft('run', '--', 'true', status=125)
    if then == 'up':
        assert 'what was left of a torus' in live.weft('up', '2x2')
        assert live.each('torus-pairs').count('every byte is right') == 4
    live.weft('down')
    assert not list(live.home.iterdir())


def test_a_program_hears_that_its_card_has_gone(live):
    live.weft('up', '2')
    program = live.start('0,0,0', 'torus-pairs', 'alone')
    assert program.stdout.readline() == '0 alone\n'
    kill([live.pids()['0,0,0']])
    program.wait(20)
    assert program.returncode == 3 and program.stdout.read() == '0 has no card\n'


def test_a_process_number_is_free_again(live):
    """64 of a node; a program that was killed holds its number no longer than the card takes to see it."""
    live.weft('up', '2')
    for _ in range(3):
        program = live.start('0,0,0', 'torus-pairs', 'alone')
        assert program.stdout.readline() == '0 alone\n'
        assert 'busy' in live.weft('run', '--', live.fabric.program('torus-pairs'), 'alone', status=1)
        program.kill()
        program.wait()
        time.sleep(0.5)
    assert live.each('torus-pairs').count('every byte is right') == 2


def ticks(pid):
    fields = Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_idle_cards_sleep(live):
    """An idle cable says that it is well, twice a second; a card that spun would take all the time of a core."""
    live.weft('up', '2x2x2')
    pids, before, credits = live.pids().values(), {}, {}
    for pid in pids:
        before[pid] = ticks(pid)
    begun = time.monotonic()
    for cable in live.status()['cables']:
        credits[cable['node'], cable['cable']] = cable['credits']
    time.sleep(2)
    last = live.status()['cables']
    passed = time.monotonic() - begun  # more where the machine has other work
    assert sum(ticks(pid) - before[pid] for pid in pids) <= 10 * (passed + 1)
    for cable in last:
        assert cable['packets'] == 0 and 2 <= cable['credits'] - credits[cable['node'], cable['cable']] <= 4 * passed + 1


def test_a_card_is_killed_and_the_others_live(live):
    live.weft('up', '4')
    kill([live.pids()['2,0,0']])
    wait_until(lambda: [c['up'] for c in live.status()['cables'] if c['node'] == '1,0,0'] == [False, True],
               'a neighbour does not notice')
    assert [node['state'] for node in live.status()['nodes']] == ['up', 'up', 'dead', 'up']
