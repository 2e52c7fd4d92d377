# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What `weft pool create`, and joining a pool of several hosts, refuse: each in one sentence, and nothing changes."""
import fcntl
import hashlib
import os
import struct
import subprocess

import pytest
from pairs import wait_for

F_OFD_GETLK = 36
MIB = 1 << 20
PAGE = 4096


def digest(path):
    """Of the pages that describe the pool. None: there is no such file."""
    if not os.path.isfile(path):
        return None
    with open(path, 'rb') as file:
        return os.stat(path).st_size, hashlib.sha256(file.read(PAGE)).hexdigest()


# {what is wrong: (the words behind `weft pool create`, what it says)}; {} stands for the folder of the test.
MAKING = {
    'no kind': (['{}/new', '--hosts', '2'], 'only a memory of several hosts is made so: shm:PATH, pci:ADDRESS or dax:PATH'),
    'three hosts': (['shm:{}/new', '--hosts', '3'], 'a pool has 1, 2, 4, 8, 16, 32 or 64 hosts'),
    'too many hosts': (['shm:{}/new', '--hosts', '128'], 'a pool has 1, 2, 4, 8, 16, 32 or 64 hosts'),
    'too small': (['shm:{}/new', '--hosts', '64', '--bytes', str(16 * MIB)],
                  'so small a pool has no segment for each of its hosts'),
    'too large': (['shm:{}/new', '--hosts', '2', '--bytes', str((256 << 30) + 1)], 'a pool has at most 256 GiB'),
    'never silent': (['shm:{}/new', '--hosts', '2', '--silence', str(1 << 32)], 'a host is silent after 1 to 60000 ms'),
    'always silent': (['shm:{}/new', '--hosts', '2', '--silence', '0'], 'a host is silent after 1 to 60000 ms'),
    'a folder': (['shm:{}', '--hosts', '2'], 'the pool file cannot be made: Is a directory'),
    'no folder': (['shm:{}/none/new', '--hosts', '2'], 'the pool file cannot be made: No such file or directory'),
    'no address': (['pci:here', '--hosts', '2'], 'that is no address of a PCI device: pci:0000:00:05.0'),
    'no device': (['pci:ffff:ff:1f.7', '--hosts', '2'],
                  'there is no such PCI device, or it has no memory as BAR 2: No such file or directory'),
}


@pytest.mark.parametrize('fault', MAKING)
def test_making(two, fault):
    words, said = MAKING[fault]
    folder = os.path.dirname(two.pool[4:])
    before = sorted(os.listdir(folder))
    words = [word.replace('{}', folder) for word in words]
    done = two.command_line('pool', 'create', *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, '', f'weft pool create: {words[0]}: {said}\n')
    assert sorted(os.listdir(folder)) == before


def test_while_a_host_lives(two):
    """While a program is a member the pool may not be made again or removed; afterwards it may."""
    path = two.pool[4:]
    program = two.start('ibv_asyncwatch', host=1)
    wait_for(lambda: lives(two) or program.process.poll() is not None, 'the program is a member')
    before, home = digest(path), home_of(two)
    done = two.command_line('pool', 'create', two.pool, '--hosts', 4)
    assert (done.returncode, done.stderr) == (1, f'weft pool create: {two.pool}: a host of the pool lives\n')
    done = two.command_line('pool', 'rm', '--pool', two.pool)
    assert (done.returncode, done.stderr) == (1, f'weft pool rm: {two.pool}: a host of the pool lives\n')
    assert digest(path) == before
    program.kill()
    done = two.command_line('pool', 'create', two.pool, '--hosts', 4)
    assert (done.returncode, done.stderr) == (0, '') and digest(path) != before
    assert not os.path.exists(home)


def home_of(two):
    with open(two.pool[4:], 'rb') as file:
        pool_id, = struct.unpack_from('<Q', file.read(PAGE), 32)
    return f'/dev/shm/weft-{pool_id:016x}-1'


def lives(two):
    """Whether some member of host 1 lives, by the locks on its home."""
    home = home_of(two)
    if not os.path.exists(home):
        return False
    words = struct.unpack('hhqqi4x', file_lock(home))
    return words[0] != fcntl.F_UNLCK


def file_lock(home):
    """The first lock on the bytes of members there: struct flock."""
    with open(home, 'rb') as file:
        return fcntl.fcntl(file, F_OFD_GETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, MIB, 0, 0))


def damage(at, fmt, value):
    def change(path):
        with open(path, 'r+b') as file:
            file.seek(at)
            file.write(struct.pack(fmt, value))
    return change


def cut(path):
    os.truncate(path, 200 * MIB)


def is_as_it_was(path):
    pass


OTHER = 'the pool was made by another version of Weft'
NO_HOST = 'WEFT_HOST, or --host: the hosts of the pool are 0 to 1'
CANNOT_BE = "the pool's header says of hosts or a size that cannot be"

# {what is wrong: (what is done to the file, $WEFT_HOST, the pool's name, what is said)}
JOINING = {
    'no header': (damage(0, '<Q', 0), '0', 'shm:{}', 'the file is not a pool'),
    'another version': (damage(8, '<I', 1), '0', 'shm:{}', OTHER),
    'another layout': (damage(16, '<Q', 1), '0', 'shm:{}', OTHER),
    'hosts that cannot be': (damage(12, '<I', 3), '0', 'shm:{}', CANNOT_BE),
    'larger than the file': (cut, '0', 'shm:{}', CANNOT_BE),
    'a silence that cannot be': (damage(43, 'B', 255), '0', 'shm:{}', "the pool's header says of a silence that cannot be"),
    'a host too many': (is_as_it_was, '2', 'shm:{}', NO_HOST),
    'no number': (is_as_it_was, 'one', 'shm:{}', NO_HOST),
    'no home': (is_as_it_was, '', 'shm:{}',
                'no host of the pool has its home here: WEFT_HOST=NUMBER makes one: No such file or directory'),
    'named as a file': (is_as_it_was, '0', '{}', 'the pool has several hosts: name it shm:PATH'),
    'no pool': (os.unlink, '0', 'shm:{}', 'there is no pool yet: weft pool create makes it: No such file or directory'),
}


@pytest.mark.parametrize('fault', JOINING)
def test_joining(two, fault):
    change, host, name, said = JOINING[fault]
    path = two.pool[4:]
    change(path)
    before = digest(path)
    name = name.replace('{}', path)
    done = two.command_line('pool', 'recover', '--pool', name, WEFT_HOST=host)
    assert (done.returncode, done.stdout, done.stderr) == (1, '', f'weft pool recover: {name}: {said}\n')
    assert digest(path) == before
    done = two.command_line('pool', 'create', two.pool, '--hosts', 2)
    assert (done.returncode, done.stderr) == (0, ''), 'made anew it is whole'


def test_file_of_others(two):
    """What has other contents, or is a pool of one host, is left as it is; zeros alone are no contents."""
    folder = os.path.dirname(two.pool[4:])
    path = f'{folder}/other'

    def made():
        done = two.command_line('pool', 'create', f'shm:{path}', '--hosts', 2, '--bytes', 64 * MIB)
        return done.stderr.removeprefix(f'weft pool create: shm:{path}: ')

    for contents in b'root:x:0:0\n', bytes(1080) + b'\x53\xef':
        with open(path, 'wb') as file:
            file.write(contents)
        os.chmod(path, 0o666)
        assert made() == 'the file has other contents: remove it first\n'
        with open(path, 'rb') as file:
            assert file.read() == contents
        os.unlink(path)
    assert not two.command_line('run', '--pool', path, '--', 'ibv_devinfo').returncode
    before = digest(path)
    assert made() == 'the file is a pool of one host: weft pool rm removes it\n'
    assert digest(path) == before and not two.command_line('pool', 'rm', '--pool', path).returncode
    with open(path, 'wb') as file:
        file.write(bytes(PAGE))
    os.chmod(path, 0o666)
    assert made() == ''
    done = two.command_line('pool', 'rm', '--pool', path)
    assert (done.returncode, done.stderr) == (1, f'weft pool rm: {path}: the pool has several hosts: name it shm:PATH\n')
    assert not two.command_line('pool', 'rm', '--pool', f'shm:{path}').returncode


def test_home_of_another_machine(two):
    """Another machine's process that was refused the number leaves a home there, which says nothing of the host that lives."""
    program = two.start('ibv_asyncwatch', host=1)
    wait_for(lambda: lives(two) or program.process.poll() is not None, 'the program is a member')
    home = home_of(two)
    os.rename(home, f'{home}-elsewhere')
    try:
        done = two.command_line('pool', 'recover', '--pool', two.pool, WEFT_HOST='1')
        assert done.returncode == 1 and 'is host 1, and lives' in done.stderr and os.path.exists(home)
        for words in ('rm', '--pool', two.pool), ('create', two.pool, '--hosts', 2):
            done = two.command_line('pool', *words)
            assert (done.returncode, done.stderr) == (1, f'weft pool {words[0]}: {two.pool}: a host of the pool lives\n')
    finally:
        os.rename(f'{home}-elsewhere', home)
    program.kill()


def test_named_from_a_folder(two):
    """`weft run` and `weft env` hand on what a name means here."""
    folder = os.path.dirname(two.pool[4:])
    done = subprocess.run([*two.prefix, two.command, 'env', '--pool', 'shm:there'], cwd=folder, env=two.env, capture_output=True,
                          text=True, check=True)
    assert f"WEFT_POOL='shm:{folder}/there'" in done.stdout


def test_listed(two):
    """A pool that $WEFT_POOL names is listed; homes are not."""
    two.run('ibv_devinfo', host=1)
    done = two.command_line('pool', 'list', WEFT_POOL=two.pool)
    assert two.pool in done.stdout and os.path.basename(home_of(two)) not in done.stdout and os.path.exists(home_of(two))


# {hosts: the least part of 256 MiB that are segments}
SEGMENTS = {1: .85, 4: .85, 64: .6}


@pytest.mark.parametrize('hosts', SEGMENTS)
def test_nearly_all_is_segments(two, hosts):
    """Each host fills its segments, all at once: tables are as large as the pool warrants, and no page is had twice."""
    done = two.command_line('pool', 'create', two.pool, '--hosts', hosts, '--bytes', 256 * MIB)
    assert (done.returncode, done.stderr) == (0, '')
    room = two.program('hosts-room')
    processes = []
    taken = 0
    try:
        for host in range(hosts):
            processes.append(subprocess.Popen([*two.prefix, room, str(host + 1)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                              env={**two.env, 'WEFT_POOL': two.pool, 'WEFT_HOST': str(host)}))
        for process in processes:
            has, dirty = map(int, process.stdout.readline().split())
            assert has and not dirty
            taken += has
        assert 256 * MIB * SEGMENTS[hosts] <= taken <= 256 * MIB
        for process in processes:
            out, _ = process.communicate('')
            assert (process.returncode, out) == (0, '0\n')
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
