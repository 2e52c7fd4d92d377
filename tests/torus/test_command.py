# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft torus`: each command; what it says to wrong words, and what it leaves behind."""
import os
import re
import signal
import subprocess
import time
import warnings
from xml.etree import ElementTree
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
    # in the session of those that use them, which Linux gives the processor together, but out of reach of its terminal
    assert {os.getsid(pid) for pid in pids} == {os.getsid(0)}
    assert [os.getpgid(pid) for pid in pids] == pids
    for pid in pids:
        os.kill(pid, signal.SIGHUP)
    assert "'torus' is up" in live.weft('up', '2', status=1)
    assert all(map(is_running, pids)), 'a second `up` has ended cards of the first'
    assert live.weft('down') == 'torus is down: 8 cards ended\n'
    assert not any(map(is_running, pids)) and not list(live.home.iterdir())
    assert 'there is no torus' in live.weft('down', status=1)


@pytest.mark.parametrize('words', [
    ['0'], ['2x'], ['x2'], ['2x2x2x2'], ['-1'], ['65'], ['8x8x2'], ['300'], ['2,2'], ['2x0x2'], [],
    ['2', '--mesh', 'w'], ['2', '--order', 'xy'], ['2', '--order', 'xxy'], ['2', '--ties', 'left'],
    ['2', '--vcs', '3'], ['2', '--vcs', '0'], ['2', '--lanes', '3'], ['2', '--fifo', '100'], ['2', '--fifo', '61500'],
    ['2', '--lanes', '1', '--fifo', '30721'],
    ['2', '--engines', '0'], ['2', '--engines', '9'], ['2', '--name', 'a/b'], ['2', '--name', ''],
    ['2', '--phy', '10b8b'], ['2', '--link', 'wire'], ['2', '--phy', '8b10b', '--lanes', '8'], ['2', '--part', '2/2'],
    ['2', '--part', '0/2'], ['2', '--peer', 'localhost:4800'], ['2', '--part', '0/2', '--peer', 'localhost'],
    ['2', '--part', '0/2', '--peer', 'localhost:0'], ['2', '--part', '0/9'], ['2', '--port', '0'],
    ['2', '--name', 'a' * 33], ['2', '--name'], ['2', '--what'], ['2', '3'],
], ids=' '.join)
def test_wrong_words(live, words):
    said = live.weft('up', *words, status=2)
    assert said.startswith('weft torus: ') and said.endswith('Try `weft torus --help`.\n')
    assert not list(live.home.iterdir())


def test_no_such_torus(live):
    assert "there is no torus 'gone'" in live.weft('status', '--name', 'gone', status=1)
    assert "there is no torus 'gone'" in live.weft('run', '--name', 'gone', '--', 'true', status=125)


def test_a_relative_home(live):
    """It is the caller's folder, for cards, which work in another, and for programs that go elsewhere."""
    torus = live.fabric.program('torus-pairs')
    env = {**live.env, 'WEFT_TORUS_HOME': live.home.name}

    def weft(*words, status=0):
        done = subprocess.run(live.words(*words), capture_output=True, text=True, check=False, env=env, timeout=60, cwd=live.home.parent)
        assert done.returncode == status, done
        return done.stdout + done.stderr

    assert weft('up', '2') == 'torus is up: 2 nodes\n'
    assert weft('run', '--each', '--', 'sh', '-c', f'cd / && exec {torus}').count('every byte is right') == 2
    home = weft('run', '--', 'sh', '-c', 'echo $WEFT_TORUS_HOME; cd / && exec $0 torus status', live.fabric.command)
    assert home.startswith(f'{live.home}\n') and home.count(' up') >= 2
    assert weft('down') == 'torus is down: 2 cards ended\n'
    for home, why in ('not/there', 'No such file'), ('/' + 'x/' * 3000, 'too long'):
        env['WEFT_TORUS_HOME'] = home
        said = weft('status', status=2)
        assert 'WEFT_TORUS_HOME is no folder' in said and why in said


def test_run(live):
    live.weft('up', '3x2')
    assert live.weft('run', '--node', '2,1,0', '--', 'sh', '-c', 'echo $WEFT_TORUS_NODE $WEFT_POOL').split() == [
        f'{live.home}/weft-torus-{os.stat(next(live.home.iterdir())).st_uid}-torus/2.1.0{end}' for end in ('', '/pool')]
    assert 'has no node' in live.weft('run', '--node', '3,0,0', '--', 'true', status=2)
    assert 'has no node' in live.weft('run', '--node', '0,0', '--', 'true', status=2)
    live.weft('run', '--', 'sh', '-c', 'exit 7', status=7)
    live.weft('run', '--each', '--', 'sh', '-c', 'case $WEFT_TORUS_NODE in *1.1.0) exit 5;; esac', status=5)
    live.weft('run', '--', 'there-is-no-such-program', status=127)


@pytest.mark.parametrize('words, says', [
    ('up 2 --mesh w', "--mesh is letters of x, y and z, not 'w'"), ('up 2 --vcs 3', "--vcs is 1 or 2, not '3'"),
    ('up 2 --lanes 3', "--lanes is 1, 2 or 4, not '3'"), ('up 2 --engines 9', "--engines is 1 to 8, not '9'"),
    ('up 2 --fifo 61441', "--fifo is 1 to 61440 words, not '61441'"),
    ('up 2 --fifo 30721 --lanes 1', '--fifo is 1 to 30720 words with one lane'),
    ('up 2 --phy 10b', "--phy is none, 8b10b or 64b66b, not '10b'"), ('up 2 --ties', '--ties needs plus, minus or parity'),
    ('up 2 --part 2/2', "--part is I/N: from 0/1 to 7/8, not '2/2'"), ('up 2 --each', 'up takes no --each'),
    ('status --mesh x', 'status takes no --mesh'), ('down --json', 'down takes no --json'), ('run --svg true', 'run takes no --svg'),
    ('map --node 0,0,0', 'map takes no --node'), ('reg --each 0,0,0', 'reg takes no --each'), ('status --nmae x', "unknown option '--nmae'")])
def test_wrong_options(live, words, says):
    assert says in live.weft(*words.split(), status=2)


def test_one_of_each_fails(live):
    """The others are ended, also those that do not want to."""
    live.weft('up', '3x2')
    said = live.weft('run', '--each', '--', 'sh', '-c', 'case $WEFT_TORUS_NODE in *1.1.0) kill -SEGV $$;; esac; exec sleep 600', status=139)
    assert 'node 1,1,0 ended with signal 11' in said
    said = live.weft('run', '--each', '--', 'sh', '-c', 'case $WEFT_TORUS_NODE in *2.0.0) exit 5;; esac; trap "" TERM; exec sleep 600', status=5)
    assert 'node 2,0,0 ended with status 5' in said


def test_wrong_words_of_what_is_up(live):
    live.weft('up', '2')
    for words in ('reg', 'reg 9,0,0', 'reg 0,0,0 220', 'reg 0,0,0 x', 'reg 0,0,0 68=', 'reg 0,0,0 68=4294967296',
                  'reg 0,0,0 68 1', 'words 0,0,0', 'words 0,0,0 y+', 'cut 0,0,0 x', 'cut 2,0,0 x+', 'mend', 'map 3',
                  'map --map xy', 'down x', 'run --each --node 0,0,0 true', 'run --ranks --each true', 'run', 'jump'):
        said = live.weft(*words.split(), status=2)
        assert said.startswith('weft torus: ') and said.endswith('Try `weft torus --help`.\n'), words
    assert len(live.pids()) == 2 and all(map(is_running, live.pids().values()))


def test_nothing_to_look_at(live):
    for words in ['map'], ['reg', '0,0,0'], ['words', '0,0,0', 'x+'], ['cut', '0,0,0', 'x+'], ['mend', '0,0,0', 'x+']:
        assert "there is no torus 'torus'" in live.weft(*words, status=1)
    live.weft('up', '2')
    kill([live.pids()['1,0,0']])
    assert 'has died' in live.weft('reg', '1,0,0', '5', status=1)


def test_a_damaged_lattice(live):
    """What each command says of a file that is no lattice: never that there is no torus, as `down` ends its cards."""
    live.weft('up', '2x1x2')
    lattice = next(live.home.iterdir()) / 'lattice'
    whole = lattice.read_text()
    for line, damaged in (('order 0 1 2', 'order 0 -1 2'), ('order 0 1 2', 'order 0 1 77777'), ('order 0 1 2', 'order 4 1 2'),
                          ('order 0 1 2', 'order 0 1 1'), ('size 2 1 2', 'size -2 1 -2'), ('size 2 1 2', 'size 2 1 0'),
                          ('size 2 1 2', 'size 32 32 1'), ('engines 2', 'engines 0'), ('channels', 'x')):
        lattice.write_text(whole.replace(line, damaged))
        for words in (['status'], ['status', '--json'], ['map'], ['reg', '0,0,0'], ['cut', '0,0,0', 'x+']):
            assert 'is damaged' in live.weft(*words, status=1), (damaged, words)
        for words in (['run', '--', 'true'], ['run', '--each', '--', 'true']):
            assert 'is damaged' in live.weft(*words, status=125), (damaged, words)
    lattice.unlink()
    assert 'is damaged' in live.weft('status', status=1)
    assert live.weft('down') == 'torus is down: 4 cards ended\n'


def test_run_by_rank(live):
    """`--ranks`, in the environment of a launcher of MPI; mpirun itself is in test_mpi.py."""
    live.weft('up', '3x2')
    assert 'no rank' in live.weft('run', '--ranks', '--', 'true', status=125)
    for name in 'OMPI_COMM_WORLD_RANK', 'PMIX_RANK', 'PMI_RANK', 'SLURM_PROCID':
        live.env[name] = '10'
        for order, node in ('xyz', '1.1.0'), ('yxz', '2.0.0'), ('zyx', '2.0.0'):
            said = live.weft('run', '--ranks', '--map', order, '--', 'sh', '-c', 'echo $WEFT_TORUS_NODE')
            assert said.strip().endswith('/' + node), (name, order, said)
        live.env[name] = 'ten'
        assert 'no rank' in live.weft('run', '--ranks', '--', 'true', status=125)
        del live.env[name]


def test_map(live):
    live.weft('up', '3x2', '--mesh', 'x')
    text = live.weft('map')
    assert [f'[{rank} {rank % 3},{rank // 3},0]' in text for rank in range(6)] == [True] * 6
    assert '[2 1,0,0]' in live.weft('map', '--map', 'yxz') and 'cut' not in text and 'down' not in text
    assert set(re.findall(r'\s(\d+k?)\b(?!,)', text.split('z = 0')[1])) == {'0'}
    live.each('torus-pairs')
    wait_until(lambda: '0' not in re.findall(r'\s(\d+k?)\b(?!,)', live.weft('map').split('z = 0')[1]),
               'no load is shown')
    live.weft('cut', '1,1,0', 'x+')
    assert live.weft('map').count('cut') == 1
    picture = ElementTree.fromstring(live.weft('map', '--svg'))
    parts = [part.tag.split('}')[1] for part in picture]
    # two lines of three, both ways round between them
    assert parts.count('circle') == 6 and parts.count('line') == 2 * 2 + 3 * 2
    assert [part.text for part in picture].count('cut') == 1
    kill([live.pids()['0,0,0']])
    wait_until(lambda: '(0 0,0,0)' in live.weft('map'), 'the node is not dead')


def test_registers(live):
    live.weft('up', '3x2')
    assert live.weft('reg', '1,1,0', '8') == '  8  0x00010203\n'
    assert live.weft('reg', '0,0,0', '69') == ' 69  0x01800060\n'
    assert live.weft('reg', '0,0,0', '69=0x01400050') == ' 69  0x01400050\n'
    shown = live.weft('reg', '0,0,0')
    assert ' 69  0x01400050\n' in shown and '  8  0x00010203\n' in shown
    assert live.weft('reg', '1,0,0', '69') == ' 69  0x01800060\n', 'it is of another node'
    assert 'does not take' in live.weft('reg', '0,0,0', '5=7', status=1)
    assert live.each('torus-pairs').count('every byte is right') == 6


def test_words(live):
    """What a cable has carried last, as `words` decodes it: whole packets between START and footer, whatever their order."""
    for lanes, phy in (1, 'none'), (2, 'none'), (4, 'none'), (4, '8b10b'), (1, '64b66b'):
        live.weft('up', '2', '--lanes', lanes, '--phy', phy)
        live.each('torus-pairs')
        said = live.weft('words', '0,0,0', 'x+')
        assert f'words of {128 if phy == "8b10b" else 64 * lanes} bits' in said and 'credit: FIFOs' in said
        packets = said.split('START\n')[1:]
        assert len(packets) > 1 and not re.search('damaged|filler|of no kind', said)
        for packet in packets[:-1]:
            [(to, size)] = re.findall(r'header: .* to (\S+) port .*, (\d+) bytes', packet)
            assert to == '1,0,0' and packet.count('  data\n') == (int(size) + 15) // 16
            assert 'footer: from 0,0,0' in packet
        live.weft('down')


def cut_and_mend(live):
    """How the programs between four nodes ended, and the seconds that their cable was cut."""
    live.weft('up', '4')
    programs = [live.start(f'{x},0,0', 'torus-pairs', 'hold') for x in range(4)]
    for program in programs:
        assert program.stdout.readline().split()[1] == 'begins'
    begun = time.monotonic()
    live.weft('cut', '1,0,0', 'x+')
    for program in programs:
        program.stdin.write('\n\n')
        program.stdin.flush()
    time.sleep(0.5)
    assert 0 not in [program.poll() for program in programs], 'a cut cable has brought something'
    live.weft('mend', '2,0,0', 'x-')
    cut_s = time.monotonic() - begun
    return [program.wait(60) for program in programs], [program.stdout.read() for program in programs], cut_s


def test_a_cable_is_cut_and_mended(live):
    """Nothing gets through a cut cable; what is missing is sent again when it is mended. Cards give a packet up after 8 s, which
    the two commands may take on a machine with much other work: then all begins anew."""
    for left in reversed(range(4)):
        statuses, said, cut_s = cut_and_mend(live)
        if statuses == [0] * 4:
            break
        assert cut_s > 2 and left, (statuses, said, cut_s)
        warnings.warn(f'the cable was cut for {cut_s:.1f} s, and packets were given up: once more')
        live.weft('down')
    assert all('every byte is right' in words for words in said)
    assert sum(node['again'] for node in live.status()['nodes']) > 0


def holds(live, node, rank, size, ms, count=4):
    program = live.start(node, 'torus-hold', rank, size, ms, count)
    assert program.stdout.readline() == 'holds\n'
    return program


def held(program):
    """How many messages were answered, how many failed otherwise, and the longest time without either."""
    [refused, failed, longest] = program.stdout.readline().split()
    assert program.wait(60) == 0
    return int(refused), int(failed), float(longest)


@pytest.mark.parametrize('link', ['ring', 'udp'])
def test_a_cut_cable_holds_up_no_other(live, link):
    """What is for a cable that is cut does not wait for it; programs on either side of it reach their other neighbours."""
    live.weft('up', '2x2', '--mesh', 'xy', '--link', link, '--engines', 8)
    lost = [holds(live, '0,0,0', 1, 65536, 5000), holds(live, '1,0,0', 0, 65536, 5000)]
    others = [holds(live, *ends, 65536, 4500) for ends in (('0,0,0', 2), ('0,1,0', 0), ('1,0,0', 3), ('1,1,0', 1))]
    time.sleep(0.5)
    live.weft('cut', '0,0,0', 'x+')
    for program in others:
        refused, failed, longest = held(program)
        assert refused > 100 and not failed and longest < 3
    live.weft('mend', '0,0,0', 'x+')
    for program in lost:
        refused, failed, _ = held(program)
        assert refused and not failed
    assert 'down' not in live.weft('map')


def seconds_of_pairs(live):
    begun = time.monotonic()
    assert live.each('torus-pairs').count('every byte is right') == 2
    return time.monotonic() - begun


@pytest.mark.parametrize('link', ['ring', 'udp'])
def test_a_cable_is_long(live, link):
    """For each of 11 sizes the programs meet at least three times, and one asks for bytes and has them: five times one way."""
    live.weft('up', '2', '--mesh', 'x', '--link', link)
    live.weft('spoil', '0,0,0', 'x+', 0, 0, 20000)
    long_s = seconds_of_pairs(live)
    assert long_s >= 11 * 5 * 0.02
    live.weft('mend', '1,0,0', 'x-')
    assert seconds_of_pairs(live) < long_s
    assert 'weft torus' in live.weft('spoil', '0,0,0', 'x+', 0, 0, 1000001, status=2)


@pytest.mark.parametrize('then', ['down', 'up'])
def test_after_a_kill_of_everything(live, then):
    """All cards are killed, and a program that uses the torus with them: `up` and `down` remove what they leave."""
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
    """A node has 64 process numbers; that of a program that was killed is free when the card has seen the death."""
    live.weft('up', '2')
    for _ in range(3):
        program = live.start('0,0,0', 'torus-pairs', 'alone')
        assert program.stdout.readline() == '0 alone\n'
        assert 'busy' in live.weft('run', '--', live.fabric.program('torus-pairs'), 'alone', status=1)
        program.kill()
        program.wait()
        time.sleep(0.5)
    assert live.each('torus-pairs').count('every byte is right') == 2


def test_a_program_follows_at_once(live):
    """One that takes the number of a program that has just ended without ape_close; and 64 of them."""
    live.weft('up', '2')
    live.weft('run', '--', live.fabric.program('torus-errors'), 'ends')


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


def test_cards_stand_still(live):
    """All for longer than a cable may be silent, as where programs have all cores, and one longer still: no card takes that for the
    death of another."""
    live.weft('up', '2x2')
    first, *others = live.pids().values()
    for pid in (first, *others):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(5)
    for pid in others:
        os.kill(pid, signal.SIGCONT)
    time.sleep(4)
    assert {cable['went_down'] for cable in live.status()['cables']} == {0}
    assert [node['state'] for node in live.status()['nodes']] == ['stopped', 'up', 'up', 'up']
    os.kill(first, signal.SIGCONT)
    assert live.each('torus-pairs').count('every byte is right') == 4
    assert {cable['went_down'] for cable in live.status()['cables']} == {0}


def test_a_card_is_killed_and_the_others_live(live):
    live.weft('up', '4')
    kill([live.pids()['2,0,0']])
    wait_until(lambda: [c['up'] for c in live.status()['cables'] if c['node'] == '1,0,0'] == [False, True],
               'a neighbour does not notice')
    assert [node['state'] for node in live.status()['nodes']] == ['up', 'up', 'dead', 'up']
