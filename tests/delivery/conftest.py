# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the tests of delivery share: a Weft that an ordinary user can read, the programs of this folder beside it,
and calls that run something under `weft run` or without it."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from fabric import BUILD, Fabric, user_prefix

PROGRAMS = BUILD / 'tests' / 'delivery'
TIMEOUT_S = 60


class Delivery:
    def __init__(self, fabric, folder):
        self.weft = fabric.weft()
        [shim] = fabric.home.rglob('libweft-shim.so')
        self.libs = shim.parent
        self.pool = fabric.pool
        [self.rdma] = (p for p in fabric.home.rglob('rdma') if p.is_file())
        self.folder = folder  # programs and scratch files, writable by the user
        self.env = {'PATH': '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', 'LANG': 'C.UTF-8'}

    def program(self, name):
        """A copy of a program of this folder that the user can run, with the plugin beside it."""
        for file in (name, 'libweft-plugin.so'):
            if not (self.folder / file).exists():
                shutil.copy2(PROGRAMS / file, self.folder / file)
        return self.folder / name

    def plain(self, *words, user=True, **options):
        """Runs the words as an ordinary user, without Weft."""
        options = {'env': self.env, 'cwd': self.folder, 'capture_output': True, 'text': True,
                   'timeout': TIMEOUT_S, 'check': False, **options}
        prefix = user_prefix() if user else []
        return subprocess.run([*prefix, *(str(w) for w in words)], **options)

    def run(self, *words, **options):
        return self.plain(self.weft, 'run', *words, **options)

    def start(self, *words, **options):
        return subprocess.Popen([*user_prefix(), str(self.weft), 'run', *(str(w) for w in words)],
                                env=self.env, cwd=self.folder, **options)


@pytest.fixture(scope='session')
def delivery():
    # pytest's own temporary folders are closed to other users
    with tempfile.TemporaryDirectory(prefix='weft-delivery-') as parent, Fabric() as fabric:
        # some tests list the folder above theirs, too: no other program may write there
        os.chmod(parent, 0o755)
        folder = Path(parent) / 'folder'
        folder.mkdir()
        folder.chmod(0o777)
        yield Delivery(fabric, folder)
