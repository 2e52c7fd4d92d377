# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft pool test` between two processes on one file: what it says of a memory that is as it should be, of one that is made wrong
(wrong_side.c), and where the other side does not come, or not to its end."""
import json
import os
import signal
import subprocess
import time

import pytest
from fabric import BUILD
from hosts import Hosts
from pairs import wait_for

MIB = 1 << 20
ROOM, PLACES, PLACE, PAGE = 512 << 10, 16, 8192, 4096
ADDITIONS = 1000000
PATIENCE_S = 60
QUICK = ('--seconds', 1, '--json')
NO_PROOF = 'nothing wrong was seen, which is no proof'
ONE_KERNEL = 'both sides are on one kernel: that says nothing of another machine'
INCOHERENT = 'stores were seen late, or not at all: the memory is not coherent between the hosts, and no pool can be made there'
TORN = 'words were torn: 8 bytes are not stored as one'
LOST = 'additions were lost: atomic instructions do not hold between the hosts, and no pool here may say --atomics'
NOT_SAID = 'atomic instructions were not tried: no --atomics was said'
OTHER_NOT = 'atomic instructions were not tried: the other command was without --atomics'


class Side:
    def __init__(self, hosts, *words, program=None):
        self.process = subprocess.Popen([*hosts.prefix, *map(str, program or (hosts.command, 'pool', 'test', *words))],
                                        env=hosts.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.communicate()

    def done(self):
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err


def wrong_side(hosts, how):
    return Side(hosts, program=(BUILD / 'tests/hosts/hosts-wrong-side', hosts.pool[4:], how))


def both(hosts, *words, of_one=()):
    """What two sides say: [(status, stdout, stderr)]."""
    with Side(hosts, hosts.pool, *words, *of_one) as one, Side(hosts, hosts.pool, *words) as other:
        return [one.done(), other.done()]


def against(hosts, how, *words):
    """What a side says whose other side is on a memory that is wrong."""
    with wrong_side(hosts, how), Side(hosts, hosts.pool, *QUICK, '--wait', 20, *words) as side:
        status, out, err = side.done()
        return status, json.loads(out) if out else None, err


def room(hosts):
    with open(hosts.pool[4:], 'rb') as file:
        file.seek(ROOM)
        return file.read(PAGE + PLACES * PLACE)


def occupied(hosts):
    return sum(room(hosts)[PAGE + i * PLACE:][:8] != bytes(8) for i in range(PLACES))


class Raw(Hosts):
    """A file in which no pool was made."""

    def __init__(self):
        super().__init__()
        with open(self.pool[4:], 'r+b') as file:
            file.truncate(0)
            file.truncate(4 * MIB)

    def __exit__(self, *args):
        assert args[0] or self.command_line('pool', 'create', self.pool, '--hosts', 2, '--bytes', 256 * MIB).returncode == 0
        super().__exit__(*args)


# ---- As it should be ----


def test_good(either, request):
    """With a pool there: which is as it was. Additions are tried if it says that they hold."""
    adds = 'atomics' in request.node.callspec.id
    with open(either.pool[4:], 'rb') as file:
        before = file.read(ROOM)
    for status, out, _ in both(either, *QUICK):
        assert status == 0, out
        said = json.loads(out)
        assert said['test'] == {'path': either.pool, 'pool': True, 'atomics': adds, 'one_kernel': True, 'wrong': False,
                                'verdict': [*([] if adds else [NOT_SAID]), ONE_KERNEL, NO_PROOF]}
        here, there = said['sides']
        for side in here, there:
            assert side['stored'] and side['read'] and not any(side[fault] for fault in ('back', 'stale', 'torn', 'missing')), said
            assert side['sum'] == (2 * ADDITIONS if adds else 0), said
            assert side['name'] == os.uname().nodename[:40] and side['load_ns'] < 1000
        assert (here['side'], there['side']) == ('here', 'there')
    with open(either.pool[4:], 'rb') as file:
        assert file.read(ROOM) == before
    assert occupied(either) == 0
    assert not any(os.path.exists(f'/dev/shm/weft-{before[32:40][::-1].hex()}-{host}') for host in (0, 1))


def test_beside_a_program(two):
    """Programs of both hosts go on meanwhile, in the same pool."""
    with wrong_side(two, 'none'), Side(two, two.pool, '--seconds', 1) as side:
        for done in two.pair('ibv_rc_pingpong', '-g', 1, '-n', 1000, '-c'):
            assert '1000 iters in' in done.stdout
        status, out, _ = side.done()
    assert status == 0 and out.splitlines()[1].split() == ['path', two.pool] and 'SIDE  NAME' in out and NO_PROOF in out, out


def test_without_a_pool():
    """On a memory that holds nothing, before a pool is made; what was tried may be tried again."""
    with Raw() as raw:
        for status, out, err in both(raw, *QUICK, '--atomics'):
            assert status == 0, err
            assert json.loads(out)['test'] == {'path': raw.pool, 'pool': False, 'atomics': True, 'one_kernel': True,
                                               'wrong': False, 'verdict': [ONE_KERNEL, NO_PROOF]}
        one, other = both(raw, *QUICK, of_one=['--atomics'])
        assert [json.loads(done[1])['test']['verdict'][0] for done in (one, other)] == [OTHER_NOT] * 2


# ---- Made wrong ----

# {how: (a fault that is counted, what the verdict begins with)}
WRONG = {
    'incoherent': ('missing', [INCOHERENT, LOST]),
    'back': ('back', [INCOHERENT]),
    'torn': ('torn', [TORN]),
    'lost': (None, [LOST]),
}


@pytest.mark.parametrize('how', WRONG)
def test_wrong(two, how):
    fault, verdict = WRONG[how]
    status, said, err = against(two, how)
    assert status == 1, (said, err)
    assert said['test']['wrong'] and said['test']['verdict'][:len(verdict)] == verdict, said
    assert NO_PROOF not in said['test']['verdict']
    if fault:
        assert said['sides'][0][fault], said
    else:
        assert said['sides'][0]['sum'] < 2 * ADDITIONS, said
    if how == 'incoherent':
        assert said['sides'][0]['read'] == 0 < said['sides'][0]['stale'], said


# ---- Without a result ----

NOBODY = ('{}: no other side came: run the same on another host at the same time. If it ran, what it stores does not '
          'arrive here')


def test_other_side_missing(two):
    begun = time.monotonic()
    done = two.command_line('pool', 'test', two.pool, '--wait', 2)
    assert 2 <= time.monotonic() - begun < 20
    assert (done.returncode, done.stdout) == (2, '')
    assert done.stderr.splitlines() == ['weft pool test: waits for the same command on another host',
                                        'weft pool test: ' + NOBODY.format(two.pool)]
    assert occupied(two) == 0


@pytest.mark.parametrize('how', ['die', 'stand'])
def test_other_side_ends_in_the_middle(two, how):
    """It is not waited for without end, and what it leaves is in no one's way."""
    with wrong_side(two, how) as gone:
        with Side(two, two.pool, *QUICK, '--wait', 2) as side:
            status, out, err = side.done()
        assert (status, out) == (2, ''), err
        assert err.endswith(f'weft pool test: {two.pool}: the other side does not go on\n')
        assert occupied(two) == 1
        if how == 'die':
            wait_for(lambda: gone.process.poll() is not None, 'its end')
        assert [done[0] for done in both(two, *QUICK)] == [0, 0]


# {what is wrong: (the words, what is said)}; {} is the file
REFUSED = {
    'another kind': (['{}'], '{}: the memory of several hosts is shm:PATH, pci:ADDRESS or dax:PATH'),
    'no file': (['shm:{}-none'], 'shm:{}-none: the memory cannot be opened: No such file or directory'),
    'a folder': (['shm:/dev/shm'], 'shm:/dev/shm: the memory cannot be opened: Is a directory'),
    'no address': (['pci:here'], 'pci:here: that is no address of a PCI device: pci:0000:00:05.0'),
    'no device': (['dax:/dev/null'], 'dax:/dev/null: that is neither a file nor a device with memory'),
}
USAGE = {
    'nothing': [], 'two': ['shm:/a', 'shm:/b'], 'no number': ['shm:/a', '--wait', 'x'], 'no second': ['shm:/a', '--seconds', '0'],
    'an option of others': ['shm:/a', '--hosts', '2'],
}


def test_refused(two):
    for fault, (words, said) in REFUSED.items():
        done = two.command_line('pool', 'test', *(word.replace('{}', two.pool[4:]) for word in words))
        assert (done.returncode, done.stdout, done.stderr) == (2, '', f'weft pool test: {said}\n'.replace('{}', two.pool[4:])), fault


def test_usage(two):
    for fault, words in USAGE.items():
        done = two.command_line('pool', 'test', *words)
        assert (done.returncode, done.stdout) == (2, '') and '--help' in done.stderr, fault


def test_memory_of_others():
    """What is no pool and not empty is left as it is, unless --yes is said; and a memory may be too small."""
    with Raw() as raw:
        for at, holds in (0, b'my thesis'), (ROOM, b'my thesis'):
            with open(raw.pool[4:], 'r+b') as file:
                file.seek(at)
                file.write(holds)
            done = raw.command_line('pool', 'test', raw.pool, '--wait', 2)
            assert (done.returncode, done.stderr) == (
                2, f'weft pool test: {raw.pool}: no pool is there, but something else: --yes says that it may be written over\n')
            with open(raw.pool[4:], 'r+b') as file:
                file.seek(at)
                assert file.read(len(holds)) == holds
                file.truncate(0)
                file.truncate(4 * MIB)
                file.write(holds)
        done = raw.command_line('pool', 'test', raw.pool, '--wait', 1, '--yes')
        assert NOBODY.format(raw.pool) in done.stderr
        os.truncate(raw.pool[4:], ROOM)
        done = raw.command_line('pool', 'test', raw.pool)
        assert (done.returncode, done.stderr) == (2, f'weft pool test: {raw.pool}: the memory is too small\n')


def test_other_version(two):
    with open(two.pool[4:], 'r+b') as file:
        file.seek(8)
        file.write(b'\1')
    done = two.command_line('pool', 'test', two.pool)
    assert (done.returncode, done.stderr) == (2, f'weft pool test: {two.pool}: the pool was made by another version of Weft\n')
