# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What applications use, between two hosts: UCX, Open MPI, block storage by iSER, perftest over librdmacm. Each test fails unless
both cards have counted what was moved."""
import itertools
import random
import re
import shutil

import pytest

from cm.server import listening
from fabric import BUILD, Trouble, namespaces, wait_for
from interop.storage import CHUNK, MISSING, SIZE, US, Storage, unpacked
from wire.hosts import FOUR, Hosts, check_moved

pytestmark = pytest.mark.skipif(not namespaces(), reason='no user namespaces here')
PORTS = itertools.count(13337)  # one that was listened at a moment ago is not free
TRANSPORTS = pytest.mark.parametrize('transport', ['rc_v', 'ud_v'])


@pytest.fixture(scope='module')
def hosts():
    with Hosts() as made:
        # a program that only listens starts no card
        for host in made.hosts:
            assert host.nic('up', host.address)[0] == 0
        yield made


# ---- UCX ----

FEW = {8: 50, 4096: 50, 1 << 17: 10}
TESTS = ['ucp_put_bw', 'ucp_get', 'tag_bw']


@TRANSPORTS
@pytest.mark.parametrize('test', TESTS)
def test_ucx(hosts, transport, test):
    before, port = hosts.rest(), next(PORTS)
    batch = hosts.fabrics[0].folder / 'batch'
    batch.write_text(''.join(f'{size} -s {size} -n {n} -w 5\n' for size, n in FEW.items()))
    batch.chmod(0o644)
    client, _ = hosts.pair('ucx_perftest', '-t', test, '-b', batch, '-f', '-p', port, port=port,
                           UCX_TLS=f'{transport},self')
    found = re.findall(r'^\s*(\d+)\s+(\d+)\s+\d+\.\d', client.stdout, re.M)
    assert {int(size): int(n) for size, n in found} == FEW
    moved = sum(size * n for size, n in FEW.items())
    check_moved(hosts, before, (1000, moved) if test == 'ucp_get' else (moved, 1000))


@pytest.mark.parametrize('test', ['fadd', 'cswap'])
def test_atomics_of_ucx(hosts, test):
    """UCX's lower layer has the atomics that a card has."""
    client, server = hosts.hosts
    before, port = hosts.rest(), next(PORTS)
    argv = ['ucx_perftest', '-x', 'rc_verbs', '-d', 'weft0:1', '-t', test, '-s', 8, '-n', 200, '-w', 5, '-f', '-p', port]
    there = server.start(*argv, core=0)
    wait_for(lambda: server.listens(port) or there.process.poll() is not None, 'server listens')
    client.start(*argv, server.address, core=1).done()
    there.kill()  # it waits for another
    check_moved(hosts, before, (200 * 28, 200 * 8))


@TRANSPORTS
def test_each_byte_of_ucx(hosts, transport):
    """io_demo compares each byte. Its connections are librdmacm's."""
    client, server = hosts.hosts
    before, port, rounds, most = hosts.rest(), next(PORTS), 30, 1 << 20
    env = {'UCX_TLS': f'{transport},self', 'UCX_SOCKADDR_TLS_PRIORITY': 'rdmacm'}
    argv = ['io_demo', '-q', '-d', f'8:{most}', '-p', port]
    there = server.start(*argv, core=0, **env)
    wait_for(lambda: listening(server.fabric, port) or there.process.poll() is not None, 'server listens')
    here = client.start(*argv, '-i', rounds, '-o', 'read,write', server.address, core=1, **env)
    done = here.wait()
    assert done.status == 0 and 'corruption' not in done.stdout + done.stderr, (here.trouble('ended'), there.output())
    assert there.process.poll() is None, there.trouble('ended')
    there.kill()
    check_moved(hosts, before, (rounds * most // 16, rounds * most // 16))


# ---- Open MPI ----

# What mpirun has in ssh's place: it runs a command on the host that it is told, with that host's pool, and a name of its own
# for the host.
AGENT = """#!/bin/sh
shift
exec nsenter -t {holder} -n unshare -u sh -c 'hostname weft-second; exec "$@"' sh {weft} run --pool {pool} -- sh -c "$*"
"""


@pytest.mark.skipif(not shutil.which('mpirun') or not (BUILD / 'tests/programs/mpi').exists(),
                    reason='no Open MPI (openmpi-bin, libopenmpi-dev)')
@TRANSPORTS
def test_mpi(hosts, transport):
    """Four ranks on two hosts, which mpirun knows by their addresses."""
    client, server = hosts.hosts
    ranks, elements, folder = 4, 2000, client.fabric.folder
    agent = folder / 'agent'
    agent.write_text(AGENT.format(holder=server.holder, weft=server.fabric.weft(), pool=server.fabric.pool))
    agent.chmod(0o755)
    before = hosts.rest()
    line = ['mpirun', '--oversubscribe', '-n', ranks, '--host', f'{client.address}:2,{server.address}:2', '--map-by', 'node',
            '--mca', 'plm_rsh_agent', agent, '--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx',
            '-x', f'UCX_TLS={transport},self', '-x', 'WEFT_NIC']
    here = client.start(*line, client.fabric.program('mpi'), elements, TMPDIR=str(folder), OMPI_ALLOW_RUN_AS_ROOT='1',
                        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    shown = here.done().stdout
    assert int(re.search(rf'{ranks} ranks, {elements} elements: (\d+) right', shown)[1]) > 90
    # of each of six all-to-alls half of the pairs of ranks are on two hosts, and half of these on either
    least = 6 * ranks * (ranks - 1) * elements * 8 // 4
    check_moved(hosts, before, (least, least))


# ---- Block storage ----

@pytest.mark.skipif(MISSING, reason='libiscsi-bin or qemu-utils is not installed')
def test_storage(hosts):
    """The whole disk is written, compared, read back, and compared in the file itself; the suite of libiscsi."""
    client, server = hosts.hosts
    before = hosts.rest()
    with unpacked() as root:
        storage = Storage(server.fabric, root, server.address, server, client).serve()
        try:
            folder = client.fabric.folder
            fresh, back = folder / 'fresh', folder / 'back'
            fresh.write_bytes(random.Random(2).randbytes(SIZE))
            fresh.chmod(0o666)
            assert 'Product:VIRTUAL-DISK' in storage.run('iscsi-inq', '-i', US, storage.url).stdout
            storage.run('qemu-img', 'convert', '-n', '-O', 'raw', '-f', 'raw', fresh, storage.disk)
            assert storage.file.read_bytes() == fresh.read_bytes()
            assert 'identical' in storage.run('qemu-img', 'compare', '-f', 'raw', fresh, storage.disk).stdout
            storage.run('qemu-img', 'convert', '-O', 'raw', storage.disk, back)
            assert back.read_bytes() == fresh.read_bytes()
        finally:
            storage.target.kill()
    check_moved(hosts, before, (SIZE, 2 * SIZE))


# ---- perftest over librdmacm ----

@pytest.mark.parametrize('program, words, least', [
    ('ib_write_bw', (), (100 * 65536, 0)), ('ib_read_bw', (), (0, 100 * 65536)), ('ib_send_bw', (), (100 * 65536, 0)),
    ('ib_send_bw', ('-c', 'UD', '-s', 2048), (100 * 2048, 0)), ('ib_send_lat', (), (200, 200)), ('ib_write_lat', (), (200, 200)),
    ('ib_atomic_bw', (), (2800, 800))], ids=lambda value: '-'.join(map(str, value)) if isinstance(value, tuple) else value)
def test_perftest_by_rdmacm(hosts, program, words, least):
    client, server = hosts.hosts
    before = hosts.rest()
    argv = [program, '-R', '-F', '-n', 100, *words]
    there = server.start(*argv, core=0)
    wait_for(lambda: listening(server.fabric) or there.process.poll() is not None, 'server listens')
    here = client.start(*argv, server.address, core=1)
    try:
        here.done(), there.done()
    except Trouble as trouble:
        raise Trouble(f'{trouble}\n-- server\n{there.output()}') from None
    check_moved(hosts, before, least)
