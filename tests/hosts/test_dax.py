# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""dax:PATH as a pool's memory, by a stand-in for the device (dax.c): a file that refuses what Linux's device-dax refuses. What a
device is beside that, its speed and its coherence, is not seen here."""
import json
import os
import re
import shutil

import pytest
from fabric import BUILD, free_port, listening, wait_for
from hosts import Hosts

MIB = 1 << 20
DEVICE = 'dax:/dev/dax9.9'
SIZE_MIB = 512
STAYS = 'weft: pages cannot migrate: memory is registered in place, which is slower\n'


class Dax(Hosts):
    """The file that plays the device lies where that of shm: would."""

    def __init__(self):  # pylint: disable=super-init-not-called
        super(Hosts, self).__init__()
        self.file, self.pool = self.pool, DEVICE
        library = shutil.copy(BUILD / 'tests/hosts/libtest-dax.so', self.folder)
        os.chmod(self.folder, 0o755)
        self.env = {**self.env, 'WEFT_TEST_DAX': str(self.file), 'LD_PRELOAD': str(library)}
        with open(self.file, 'wb') as file:
            os.fchmod(file.fileno(), 0o666)
            file.truncate(SIZE_MIB * MIB)
            file.write(b'what was there before' * 1000)

    def create(self, *words, **env):
        return self.command_line('pool', 'create', DEVICE, '--hosts', 2, *words, **env)


@pytest.fixture
def dax():
    with Dax() as made:
        yield made


# {what is wrong: (the words, the environment, what is said)}
REFUSED = {
    'not said to be coherent': ([], {}, 'whether that memory is coherent between its hosts is not known: if it is, say --coherent'),
    'larger than the device': (['--coherent', '--bytes', str(1 << 30)], {}, "the pool is larger than the device's memory"),
    'no multiple of the align': (['--coherent', '--bytes', str(256 * MIB + 4096)], {}, "the pool's size is no multiple of what the device maps"),
    'an align of 1 GiB': (['--coherent'], {'WEFT_TEST_DAX_ALIGN': str(1 << 30)},
                          'the device maps multiples of more than 2 MiB alone: its align (/sys/bus/dax/devices) is to be less'),
    'too small': (['--coherent', '--bytes', str(8 * MIB)], {}, 'so small a pool has no segment for each of its hosts'),
    'no device': (['--coherent'], {'WEFT_TEST_DAX': '/dev/shm/weft-none'}, 'that is no device-dax: dax:/dev/dax0.0: No such file or directory'),
}


@pytest.mark.parametrize('fault', REFUSED)
def test_refused(dax, fault):
    words, env, said = REFUSED[fault]
    before = dax.file.read_bytes()[:1 << 16]
    done = dax.create(*words, **env)
    assert (done.returncode, done.stdout, done.stderr) == (1, '', f'weft pool create: {DEVICE}: {said}\n')
    assert dax.file.read_bytes()[:1 << 16] == before
    assert dax.create('--coherent').returncode == 0


@pytest.mark.parametrize('name', ['dax:dax0.0', 'dax:/dev/null', 'dax:/etc/hostname'])
def test_no_device_dax(dax, name):
    done = dax.command_line('pool', 'create', name, '--hosts', 2, '--coherent')
    said = "the device's memory cannot be looked at" if name == 'dax:/dev/null' else 'that is no device-dax: dax:/dev/dax0.0'
    assert done.returncode == 1 and done.stderr.startswith(f'weft pool create: {name}: {said}'), done
    assert dax.create('--coherent').returncode == 0


def pair(dax, *argv):
    """What server and client say: both may warn once that memory stays in place, which other tests take for trouble."""
    port = free_port()
    server = dax.start(*argv, '-p', port, host=0)
    wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
    done = [dax.start(*argv, '-p', port, '127.0.0.1', host=1).wait(60), server.wait(60)]
    assert [d.status for d in done] == [0, 0], done
    return done


@pytest.mark.parametrize('align, state', [(2 * MIB, 'note'), (4096, 'ok')])
def test_doctor(dax, align, state):
    """Where single pages cannot be mapped it says what to do."""
    dax.env['WEFT_TEST_DAX_ALIGN'] = str(align)
    assert dax.create('--coherent').returncode == 0
    said = json.loads(dax.command_line('doctor', '--json', '--pool', DEVICE).stdout)['checks']
    [pages] = [check for check in said if check['check'] == 'pages']
    assert pages['state'] == state, pages
    if state == 'note':
        assert pages['finding'] == 'align of dax9.9 is 2097152 bytes: memory is registered in place, which is slower'
        assert pages['remedy'].endswith(': cd /sys/bus/dax; echo dax9.9 >drivers/device_dax/unbind; echo 4096 >devices/dax9.9/align; '
                                        'echo dax9.9 >drivers/device_dax/bind')


@pytest.mark.parametrize('align', [2 * MIB, 4096])
def test_programs(dax, align):
    """Without atomic instructions between the hosts. Memory stays in place unless single pages can be mapped."""
    dax.env['WEFT_TEST_DAX_ALIGN'] = str(align)
    done = dax.create('--coherent')
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    for program in ('ibv_rc_pingpong', 'ibv_ud_pingpong', 'ibv_srq_pingpong'):
        for done in pair(dax, program, '-g', 1, '-n', 50):
            assert re.search(r'^50 iters in [\d.]+ seconds', done.stdout, re.M), done
            # of less than a page nothing would migrate anyway
            stays = align > 4096 and (program == 'ibv_rc_pingpong' or done.stderr)
            assert done.stderr == (STAYS if stays else ''), done
    done = dax.command_line('info', '--pool', DEVICE, '--json')
    seen = json.loads(done.stdout)
    assert seen['pool']['capabilities'] == ['coherent'] and seen['pool']['file_bytes'] == SIZE_MIB * MIB
    assert seen['totals']['ops_send'] > 0 and [host['life'] for host in seen['hosts']] == [1, 1]
