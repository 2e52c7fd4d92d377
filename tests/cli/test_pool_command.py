# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft pool`: lists pools, removes one that no program uses, and gives back what the dead left."""
import json
import os
import signal
import struct
import subprocess
import sys

import pytest

from fabric import user_prefix, wait_for

pytestmark = pytest.mark.quick


def pool(fabric, *words, **env):
    return subprocess.run([str(w) for w in (*user_prefix(), fabric.weft(), 'pool', *words)],
                          env={**fabric.env, **env}, capture_output=True, text=True, check=False,
                          timeout=60)


def start(fabric):
    program = fabric.start(fabric.program('shown'))
    wait_for(lambda: 'ready' in program.output().stdout, 'two members')
    return program


def kill(fabric, program):
    os.killpg(program.process.pid, signal.SIGKILL)
    program.process.wait()
    wait_for(lambda: not any(m['alive'] for m in fabric.info()['members']), 'the end')


def listed(fabric, **env):
    done = pool(fabric, 'list', '--json', **env)
    assert done.returncode == 0 and not done.stderr
    return {entry['path']: entry for entry in json.loads(done.stdout)['pools']}


def test_list(fabric):
    path = str(fabric.pool)
    assert path not in listed(fabric)
    program = start(fabric)
    stat = fabric.pool.stat()
    assert listed(fabric)[path] == {
        'path': path, 'uid': stat.st_uid, 'alive': 2, 'dead': 0,
        'allocated_bytes': stat.st_blocks * 512, 'state': 'ok'}
    table = pool(fabric)
    assert table.returncode == 0 and f'{path} ' in table.stdout and 'ALIVE' in table.stdout
    kill(fabric, program)
    assert (listed(fabric)[path]['alive'], listed(fabric)[path]['dead']) == (0, 2)
    with open(fabric.pool, 'r+b') as file:
        file.seek(8)
        file.write(struct.pack('<I', 99))
    assert 'another version' in listed(fabric)[path]['state']


def test_list_named_elsewhere(fabric):
    other = fabric.folder / 'elsewhere'
    assert str(other) not in listed(fabric, WEFT_POOL=str(other))
    program = start(fabric)
    kill(fabric, program)
    fabric.pool.rename(other)
    assert listed(fabric, WEFT_POOL=str(other))[str(other)]['dead'] == 2


@pytest.mark.parametrize('name', ['--pool', 'WEFT_POOL'])
def test_remove(fabric, name):
    words, env = ((['--pool', fabric.pool], {}) if name == '--pool' else
                  ([], {'WEFT_POOL': str(fabric.pool)}))
    program = start(fabric)
    done = pool(fabric, 'rm', *words, **env)
    assert done.returncode == 1 and 'programs use the pool' in done.stderr
    assert fabric.pool.exists()
    kill(fabric, program)
    done = pool(fabric, 'rm', *words, **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    assert not fabric.pool.exists()
    done = pool(fabric, 'rm', *words, **env)
    assert done.returncode == 1 and 'No such file' in done.stderr


@pytest.mark.parametrize('make', [lambda p: p.write_bytes(b'my thesis'), lambda p: p.touch(),
                                  lambda p: os.mkfifo(p)])
def test_remove_keeps_what_is_no_pool(fabric, make):
    make(fabric.pool)
    fabric.pool.chmod(0o666)
    done = pool(fabric, 'rm', f'--pool={fabric.pool}')
    assert done.returncode == 1 and 'the file is not a pool' in done.stderr
    assert fabric.pool.exists()


def test_recover(fabric):
    done = pool(fabric, 'recover', '--pool', fabric.pool)
    assert done.returncode == 1 and 'there is no pool yet' in done.stderr
    assert not fabric.pool.exists()
    program = start(fabric)
    assert pool(fabric, 'recover', '--pool', fabric.pool).returncode == 0
    assert len(fabric.info()['members']) == 2
    kill(fabric, program)
    totals = fabric.totals()
    assert pool(fabric, 'recover', '--pool', fabric.pool).returncode == 0
    seen = fabric.info()
    assert seen['members'] == [] and seen['totals'] == totals
    assert seen['pool']['segments_leased'] == 0


@pytest.mark.parametrize('words', [['burn'], ['list', '--pool', 'x'], ['rm', '--json'],
                                   ['rm', '--pool'], ['rm', '--pool='], ['--what']])
def test_usage(fabric, words):
    done = pool(fabric, *words)
    assert (done.returncode, done.stdout) == (2, '') and '--help' in done.stderr


HOLDER = """import fcntl, os, signal, struct, sys
file = open(sys.argv[1], 'r+b')
fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 1, 0))
print(os.getpid(), flush=True)
os.kill(os.getpid(), signal.SIGSTOP)"""


@pytest.mark.waits
def test_stopped_lock_owner(fabric):
    """A process that is stopped while it has the pool's lock is named, and not waited for without end."""
    kill(fabric, start(fabric))
    with subprocess.Popen([*user_prefix(), sys.executable, '-c', HOLDER, fabric.pool],
                          stdout=subprocess.PIPE, text=True) as holder:
        try:
            pid = int(holder.stdout.readline())
            done = pool(fabric, 'recover', '--pool', fabric.pool)
        finally:
            holder.kill()
    assert done.returncode == 1 and f'process {pid} (' in done.stderr, done.stderr
    assert ', which is stopped, holds its lock: continue it' in done.stderr
    assert 'held by a process that does not go on' in done.stderr
    assert pool(fabric, 'recover', '--pool', fabric.pool).returncode == 0
    assert not fabric.info()['members']
