# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Block storage over the fabric: tgt serves a file by iSER; libiscsi's programs and QEMU's block
driver read, write and verify it, and either side is killed. Debian's builds of all three link
libibverbs and librdmacm."""
import random
import re

import pytest

from fabric import wait_for
from interop.storage import CHUNK, MISSING, SIZE, US, Storage, pattern, unpacked

pytestmark = pytest.mark.skipif(MISSING, reason='libiscsi-bin or qemu-utils is not installed')


@pytest.fixture(scope='module')
def root():
    with unpacked() as folder:
        yield folder


def written(client):
    """The chunks whose writing was acknowledged."""
    offsets = re.findall(rf'^wrote {CHUNK}/{CHUNK} bytes at offset (\d+)$', client.output().stdout, re.M)
    return [int(offset) // CHUNK for offset in offsets]


@pytest.fixture
def storage(fabric, root):
    return Storage(fabric, root).serve()


def test_libiscsi(storage):
    words = ['-i', US, storage.url]
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
        done = storage.start('iscsi-test-cu', '-i', US, '--dataloss', f'--test=ALL.{family}', storage.url).wait()
        assert re.search(r'tests +[1-9]\d* +[1-9]\d* +[1-9]\d* +0 ', done.stdout), done
        assert done.status == 0, done


def test_qemu(storage):
    """The whole disk is overwritten, compared, read back, and compared in the file itself."""
    fresh, back = storage.fabric.folder / 'fresh', storage.fabric.folder / 'back'
    fresh.write_bytes(random.Random(2).randbytes(SIZE))
    fresh.chmod(0o666)
    storage.run('qemu-img', 'convert', '-n', '-O', 'raw', '-f', 'raw', fresh, storage.disk)
    assert storage.file.read_bytes() == fresh.read_bytes()
    assert 'identical' in storage.run('qemu-img', 'compare', '-f', 'raw', fresh, storage.disk).stdout
    storage.run('qemu-img', 'convert', '-O', 'raw', storage.disk, back)
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
    done = storage.run('qemu-io', *words, storage.disk)
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
