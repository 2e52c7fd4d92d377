# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A target of iSER and its initiators: tgt and QEMU's driver are unpacked, not installed, as tgt's package would start a
service."""
import contextlib
import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from fabric import BUILD, free_port, user_prefix, wait_for

NAME = 'iqn.2026-01.test:disk'
US = 'iqn.2026-01.test:us'  # the initiator's name: by iSER tgt admits only those that it was told
QEMU = 'iqn.2008-11.org.linux-kvm'
SIZE = 16 << 20
CHUNK = 64 << 10
# Debian 12's libiscsi carries no more in one request by iSER.
LIMIT = 256 << 10
MISSING = not all(map(shutil.which, ['iscsi-inq', 'qemu-io', 'apt-get']))


def version(package):
    return subprocess.run(['dpkg-query', '-W', '-f', '${Version}', package], check=True,
                          capture_output=True, text=True).stdout


@contextlib.contextmanager
def unpacked():
    """Where tgt and QEMU's driver are unpacked. Their packages are kept in the build folder."""
    kept = BUILD / 'packages'
    kept.mkdir(exist_ok=True)
    wanted = ['tgt', f'qemu-block-extra={version("qemu-utils")}']
    if not os.environ.get('WEFT_NO_APT'):
        done = subprocess.run(['apt-get', '-qq', '-o', 'APT::Sandbox::User=root', 'download', *wanted],
                              cwd=kept, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f'{" ".join(wanted)}: {done.stderr}')
    packages = [next(kept.glob(f'{name.partition("=")[0]}_*.deb'), None) for name in wanted]
    if None in packages:
        pytest.skip(f'{" ".join(wanted)}: not in {kept}, and WEFT_NO_APT is set')
    with tempfile.TemporaryDirectory(prefix='weft-unpacked-') as folder:
        os.chmod(folder, 0o755)
        for package in packages:
            subprocess.run(['dpkg-deb', '-x', package, folder], check=True)
        yield Path(folder)


def pattern(chunk, seed):
    return 1 + (chunk * 7 + seed) % 255


class Storage:
    """A target on a fabric, and the file that it serves. there, here: where target and initiators run, if not simply on the
    fabric; the target has that address."""

    def __init__(self, fabric, root, address='127.0.0.1', there=None, here=None):
        self.fabric = fabric
        self.there, self.here = there or fabric, here or fabric
        self.url = f'iser://{address}:3260/{NAME}/1'
        self.disk = (f'json:{{"driver": "raw", "file": {{"driver": "blkdebug", "max-transfer": {LIMIT}, "image": '
                     f'{{"driver": "iscsi", "transport": "iser", "portal": "{address}:3260", "target": "{NAME}", '
                     '"lun": 1}}}')
        self.sbin = root / 'usr/sbin'
        self.socket = {'TGT_IPC_SOCKET': str(fabric.folder / 'tgt')}
        self.modules = {'QEMU_MODULE_DIR': str(next(root.glob('usr/lib/*/qemu')))}
        self.file = fabric.folder / 'disk'
        self.file.write_bytes(random.Random(1).randbytes(SIZE))
        self.file.chmod(0o666)
        self.target = None

    def serve(self):
        # tgtd also listens by TCP, which no test uses: on a port of its own, so that two tests do not meet
        self.target = self.there.start(
            self.sbin / 'tgtd', '-f', '--iscsi', f'portal=127.0.0.1:{free_port()}',
            '--iser', 'pool_sz_mb=128', **self.socket)
        wait_for(lambda: self.admits('system', 'show'), 'tgtd answers')
        for words in (['target', 'new', '--targetname', NAME],
                      ['logicalunit', 'new', '--lun', 1, '--backing-store', self.file],
                      ['target', 'bind', '--initiator-address', 'ALL'],
                      ['target', 'bind', '--initiator-name', US],
                      ['target', 'bind', '--initiator-name', QEMU]):
            assert self.admits(*words[:2], '--tid', 1, *words[2:]), words
        # At its first connection tgtd makes its buffers, for longer than the second that libiscsi waits for an answer.
        wait_for(lambda: self.start('iscsi-inq', '-i', US, self.url).wait().status == 0, 'tgtd serves')
        return self

    def admits(self, mode, operation, *words):
        return subprocess.run(
            [*user_prefix(), self.sbin / 'tgtadm', '--lld', 'iser', '--mode', mode, '--op', operation,
             *map(str, words)], env={**self.fabric.env, **self.socket}, capture_output=True,
            check=False).returncode == 0

    def start(self, *argv):
        return self.here.start(*argv, core=1, **self.modules)

    def run(self, *argv):
        done = self.start(*argv).done()
        assert self.target.process.poll() is None
        return done

    def writer(self, chunks, seed):
        """A program that writes to random places of the disk, to each a pattern of its own, and prints a line for each write."""
        words = ['stdbuf', '-oL', 'qemu-io', '-t', 'none']
        order = list(range(SIZE // CHUNK))
        random.Random(seed).shuffle(order)
        for i in order[:chunks]:
            words += ['-c', f'write -P {pattern(i, seed)} {i * CHUNK} {CHUNK}']
        return self.start(*words, self.disk)

    def held(self):
        """How many objects there are in the pool, once a new member has recovered from the dead."""
        self.run('ibv_devinfo')
        info = self.fabric.info()
        return {name: len(info[name]) for name in ('members', 'qps', 'regions', 'ports')}

    def expect_no_more_than(self, before):
        """tgt gives back what a connection held when TIMEWAIT has passed."""
        wait_for(lambda: all(n <= before[name] for name, n in self.held().items()),
                 f'no more than {before}')
