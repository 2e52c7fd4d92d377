# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Block storage over the fabric: tgt serves a file by iSER; libiscsi's programs and QEMU's block
driver read, write and verify it, and either side is killed. Debian's builds of all three link
libibverbs and librdmacm. tgt and QEMU's driver are unpacked, not installed: tgt's package would
start a service."""
import os
import random
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from fabric import BUILD, Trouble, free_port, user_prefix, wait_for

NAME = 'iqn.2026-01.test:disk'
URL = f'iser://127.0.0.1:3260/{NAME}/1'
US = 'iqn.2026-01.test:us'  # the initiator's name: by iSER tgt admits only those that it was told
QEMU = 'iqn.2008-11.org.linux-kvm'
SIZE = 16 << 20
CHUNK = 64 << 10
# Debian 12's libiscsi carries no more in one request by iSER.
LIMIT = 256 << 10
DISK = (f'json:{{"driver": "raw", "file": {{"driver": "blkdebug", "max-transfer": {LIMIT}, "image": '
        f'{{"driver": "iscsi", "transport": "iser", "portal": "127.0.0.1:3260", "target": "{NAME}", '
        '"lun": 1}}}')

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ['iscsi-inq', 'qemu-io', 'apt-get'])),
    reason='libiscsi-bin or qemu-utils is not installed')


def version(package):
    return subprocess.run(['dpkg-query', '-W', '-f', '${Version}', package], check=True,
                          capture_output=True, text=True).stdout


@pytest.fixture(scope='module')
def root():
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


class Storage:
    """A target on a fabric, and the file that it serves."""

    def __init__(self, fabric, root):
        self.fabric = fabric
        self.root = root
        self.sbin = root / 'usr/sbin'
        self.socket = {'TGT_IPC_SOCKET': str(fabric.folder / 'tgt')}
        self.modules = {'QEMU_MODULE_DIR': str(next(root.glob('usr/lib/*/qemu')))}
        self.file = fabric.folder / 'disk'
        self.file.write_bytes(random.Random(1).randbytes(SIZE))
        self.file.chmod(0o666)
        self.target = None

    def serve(self):
        # tgtd also listens by TCP, which no test uses: on a port of its own, so that two tests do not meet
        self.target = self.fabric.start(
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
        wait_for(lambda: self.start('iscsi-inq', '-i', US, URL).wait().status == 0, 'tgtd serves')
        return self

    def admits(self, mode, operation, *words):
        return subprocess.run(
            [*user_prefix(), self.sbin / 'tgtadm', '--lld', 'iser', '--mode', mode, '--op', operation,
             *map(str, words)], env={**self.fabric.env, **self.socket}, capture_output=True,
            check=False).returncode == 0

    def start(self, *argv):
        return self.fabric.start(*argv, core=1, **self.modules)

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
        return self.start(*words, DISK)

    def held(self):
        """How many objects there are in the pool, once a new member has recovered from the dead."""
        self.run('ibv_devinfo')
        info = self.fabric.info()
        return {name: len(info[name]) for name in ('members', 'qps', 'regions', 'ports')}

    def expect_no_more_than(self, before):
        """tgt gives back what a connection held when TIMEWAIT has passed."""
        wait_for(lambda: all(n <= before[name] for name, n in self.held().items()),
                 f'no more than {before}')


def pattern(chunk, seed):
    return 1 + (chunk * 7 + seed) % 255


def written(client):
    """The chunks whose writing was acknowledged."""
    offsets = re.findall(rf'^wrote {CHUNK}/{CHUNK} bytes at offset (\d+)$', client.output().stdout, re.M)
    return [int(offset) // CHUNK for offset in offsets]


@pytest.fixture
def storage(fabric, root):
    return Storage(fabric, root).serve()


def test_libiscsi(storage):
    words = ['-i', US, URL]
    assert 'Product:VIRTUAL-DISK' in storage.run('iscsi-inq', *words).stdout
    assert f'Total size:{SIZE}' in storage.run('iscsi-readcapacity16', *words).stdout
    assert 'finished.' in storage.run('iscsi-perf', '-r', '-t', 2, '-b', 16, *words).stdout
    assert storage.fabric.totals()['bytes_write'] > SIZE


# Not Read10.Async and Write10.Async: they have more in flight than Debian 12's libiscsi has
# descriptors by iSER, and it follows a null pointer.
FAMILIES = ['Read6', 'Read10.Simple', 'Read10.BeyondEol', 'Read12', 'Read16', 'Write10.Simple',
            'Write10.BeyondEol', 'Write12', 'Write16', 'WriteVerify10', 'CompareAndWrite']


def test_suite_of_libiscsi(storage):
    for family in FAMILIES:
        done = storage.start('iscsi-test-cu', '-i', US, '--dataloss', f'--test=ALL.{family}', URL).wait()
        assert re.search(r'tests +[1-9]\d* +[1-9]\d* +[1-9]\d* +0 ', done.stdout), done
        assert done.status == 0, done


def test_qemu(storage):
    """The whole disk is overwritten, compared, read back, and compared in the file itself."""
    fresh, back = storage.fabric.folder / 'fresh', storage.fabric.folder / 'back'
    fresh.write_bytes(random.Random(2).randbytes(SIZE))
    fresh.chmod(0o666)
    storage.run('qemu-img', 'convert', '-n', '-O', 'raw', '-f', 'raw', fresh, DISK)
    assert storage.file.read_bytes() == fresh.read_bytes()
    assert 'identical' in storage.run('qemu-img', 'compare', '-f', 'raw', fresh, DISK).stdout
    storage.run('qemu-img', 'convert', '-O', 'raw', DISK, back)
    assert back.read_bytes() == fresh.read_bytes()
    totals = storage.fabric.totals()
    assert min(totals['bytes_read'], totals['bytes_write']) >= SIZE


def check(storage, acknowledged, seed):
    """Each write that the client was told of is in the file, and a client that reads it by the fabric gets it."""
    data = storage.file.read_bytes()
    for i in acknowledged:
        assert data[i * CHUNK:][:CHUNK] == bytes([pattern(i, seed)]) * CHUNK, f'chunk {i}'
    words = [word for i in acknowledged
             for word in ('-c', f'read -P {pattern(i, seed)} {i * CHUNK} {CHUNK}')]
    done = storage.run('qemu-io', *words, DISK)
    assert done.stdout.count(f'read {CHUNK}/{CHUNK} bytes') == len(acknowledged)
    assert 'Pattern verification failed' not in done.stdout


def test_killed_client(storage):
    """A client is killed: the target serves others, what was written stays, and nothing of the dead is left."""
    before = storage.held()
    for seed in range(3):
        client = storage.writer(SIZE // CHUNK, seed)
        wait_for(lambda c=client: len(written(c)) >= 20 or c.process.poll() is not None, 'it writes')
        client.kill()
        check(storage, written(client), seed)
    storage.expect_no_more_than(before)


def test_killed_target(storage):
    """The target is killed: the client is told, and Debian 12's libiscsi then connects anew, though by TCP even where it was by iSER,
    and waits. A client of the next target finds what was written."""
    before = storage.held()
    storage.modules['LIBISCSI_DEBUG'] = '2'
    client = storage.writer(SIZE // CHUNK, 5)
    wait_for(lambda: len(written(client)) >= 20 or client.process.poll() is not None, 'it writes')
    storage.target.kill()
    wait_for(lambda: 'reconnect initiated' in client.output().stderr, 'it is told')
    client.kill()
    storage.serve()
    check(storage, written(client), 5)
    storage.expect_no_more_than(before)
