# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Where the pool, or the memory cgroup, has no room for a region, that stays in place, with one warning, and works;
regions for which there is room still migrate. No SIGBUS, no SIGKILL."""
import json
import os
import subprocess
from pathlib import Path

import pytest

from fabric import installed, wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='mounts and makes cgroups: needs root')

CGROUP = Path('/sys/fs/cgroup/memory')


class Room:
    """The program room, started by a prefix of words, and ended with the test."""

    def __init__(self, fabric, before, large_mib, small_kib):
        self.fabric = fabric
        self.out = fabric.folder / 'out'
        words = [next(installed().glob('**/bin/weft')), 'run', '--pool', fabric.pool, '--',
                 fabric.program('room'), large_mib, small_kib]
        command = f'{before} exec "$@" > {self.out} 2>&1'
        self.process = subprocess.Popen(['unshare', '-m', 'sh', '-ec', command, 'sh',
                                         *map(str, words)], env=fabric.env)

    def __enter__(self):
        wait_for(lambda: self.keys() or self.process.poll() is not None, 'regions', 30)
        assert self.process.poll() is None, self.out.read_text()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def keys(self):
        text = self.out.read_text() if self.out.exists() else ''
        lines = [line for line in text.splitlines() if line[:1].isdigit()]
        return [int(key) for key in lines[0].split()] if text.endswith('\n') and lines else None

    def kinds(self):
        """The kinds of the large and the small region, seen from inside the program's mounts."""
        words = ['nsenter', '-m', '-t', str(self.process.pid),
                 next(installed().glob('**/bin/weft')), 'info', '--pool', self.fabric.pool, '--json']
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        kind = {region['key']: region['kind'] for region in json.loads(done.stdout)['regions']}
        return [kind[key] for key in self.keys()]


def test_small_shm(fabric):
    mount = f'mkdir -p {fabric.folder}/shm; mount -t tmpfs -o size=64m,mode=777 weft {fabric.folder}/shm;'
    fabric.pool = fabric.folder / 'shm/pool'
    with Room(fabric, mount, 128, 1024) as room:
        assert room.kinds() == ['in-place', 'pooled']
        assert room.out.read_text().count('weft:') == 1


@pytest.mark.skipif(not CGROUP.is_dir(), reason='needs the memory controller of cgroup v1')
def test_cgroup(fabric):
    group = CGROUP / 'weft-test-room'
    group.mkdir(exist_ok=True)
    try:
        (group / 'memory.limit_in_bytes').write_text(str(256 << 20))
        with Room(fabric, f'echo $$ > {group}/cgroup.procs;', 160, 1024) as room:
            assert room.kinds() == ['in-place', 'pooled']
            assert room.out.read_text().count('weft:') == 1
    finally:
        wait_for(lambda: not (group / 'cgroup.procs').read_text(), 'the group is empty', 10)
        group.rmdir()
