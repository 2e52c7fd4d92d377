# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft info`: what it says about a pool whose contents are known, and that nothing in a file can
harm it."""
import fcntl
import json
import os
import random
import re
import signal
import struct
import subprocess
import time

import pytest

from fabric import BUILD, NOBODY, user_prefix, wait_for

pytestmark = [pytest.mark.quick, pytest.mark.counted]

MIB = 1 << 20
LAYOUT = {name: int(value) for name, value in (
    line.split() for line in subprocess.run([BUILD / 'tests/cli/layout'], capture_output=True,
                                            text=True, check=True).stdout.splitlines())}
TOTALS = {'ops_write': 1, 'bytes_write': 100, 'ops_read': 0, 'bytes_read': 0, 'ops_send': 2,
          'bytes_send': 32, 'ops_atomic': 1}


def info(fabric, *words, pool=None, user=True, **options):
    argv = [*(user_prefix() if user else []), fabric.weft(), 'info', '--pool', pool or fabric.pool,
            *words]
    return subprocess.run(argv, env=fabric.env, capture_output=True, text=True, check=False,
                          timeout=60, **options)


class Shown:
    """The program tests/programs/shown.c, running; what it says about itself."""

    def __init__(self, fabric):
        self.program = fabric.start(fabric.program('shown'))
        wait_for(lambda: 'ready\n' in self.text() or self.program.process.poll() is not None,
                 'shown is ready')
        lines = [line.split() for line in self.text().splitlines()]
        self.regions = {words[0]: tuple(map(int, words[1:])) for words in lines if len(words) == 4}
        [self.qps] = [(int(words[1]), int(words[2])) for words in lines if words[0] == 'qp']

    def text(self):
        return self.program.output().stdout


@pytest.fixture
def shown(fabric):
    return Shown(fabric)


def test_contents(fabric, shown):
    seen = fabric.info()
    assert list(seen) == ['pool', 'members', 'qps', 'regions', 'ports', 'totals']

    assert seen['pool']['path'] == str(fabric.pool)
    assert seen['pool']['file_bytes'] == fabric.pool.stat().st_size
    assert seen['pool']['allocated_bytes'] == fabric.pool.stat().st_blocks * 512
    assert seen['pool']['version'] >= 1 and 'atomics' in seen['pool']['capabilities']
    assert seen['pool']['segments_leased'] >= 2

    assert [m['index'] for m in seen['members']] == [0, 1]
    assert shown.program.process.pid in [m['pid'] for m in seen['members']]
    for member in seen['members']:
        assert member['comm'] == 'shown' and member['alive'] is True
        assert member['uid'] == (NOBODY if user_prefix() else os.geteuid())
        assert '::ffff:127.0.0.1' in member['gids'] or len(member['gids']) >= 2
        assert member['incarnation'] > 0 and member['threads'] >= 1

    assert {(q['qpn'], q['dest_qpn']) for q in seen['qps']} == {shown.qps, shown.qps[::-1]}
    for qp in seen['qps']:
        assert (qp['type'], qp['state']) == ('RC', 'RTS')
        used = (3, 2) if qp['qpn'] == shown.qps[0] else (0, 0)
        assert (qp['receives_posted'], qp['receives_taken']) == used

    regions = {region['key']: region for region in seen['regions']}
    assert len(regions) == len(shown.regions) + 2  # and the memory of each end
    for name, (key, address, length) in shown.regions.items():
        region = regions[key]
        assert (region['address'], region['iova'], region['length']) == (address, address, length)
        assert region['access'] == 'lr'
        assert region['kind'] == ('mixed' if name == 'pieces' else name)
    pooled = {name: regions[key]['pooled_bytes'] for name, (key, _, _) in shown.regions.items()}
    assert pooled == {'in-place': 0, 'pooled': MIB, 'mixed': MIB - 4096, 'pieces': 2 * MIB}

    assert seen['totals'] == TOTALS


def test_looking_changes_nothing(fabric, shown):
    before = fabric.pool.stat()
    info(fabric, '--json').check_returncode()
    after = fabric.pool.stat()
    assert (before.st_blocks, before.st_mtime_ns) == (after.st_blocks, after.st_mtime_ns)


@pytest.mark.skipif(not user_prefix(), reason='needs a second user')
def test_read_only(fabric, shown):
    os.chown(fabric.pool, 0, 0)
    fabric.pool.chmod(0o644)
    done = info(fabric, '--json')
    assert done.returncode == 0 and all(m['alive'] for m in json.loads(done.stdout)['members'])
    fabric.pool.chmod(0o600)
    done = info(fabric)
    assert done.returncode == 1 and 'cannot be opened: Permission denied' in done.stderr


def test_tables(fabric, shown):
    done = info(fabric)
    assert done.returncode == 0 and not done.stderr
    sections = done.stdout.split('\n\n')
    assert [s.split('\n')[0] for s in sections] == ['pool', 'members', 'qps', 'regions',
                                                     'ports: none', 'totals']
    assert re.search(r'^ *0 +\d+ shown .* yes ', sections[1], re.M)
    assert re.search(rf'0x{shown.qps[0]:x} +\d RC +RTS +0x{shown.qps[1]:x} +3 +2$', sections[2],
                     re.M)
    key, address, _ = shown.regions['mixed']
    assert re.search(rf'0x{key:x} +\d 0x{address:x} .* mixed +{MIB - 4096} +pool and process$', sections[3], re.M)
    assert re.search(r'^bytes write +100$', sections[5], re.M)


def test_dead_and_departed(fabric, shown):
    os.killpg(shown.program.process.pid, signal.SIGKILL)
    shown.program.process.wait()
    wait_for(lambda: not any(m['alive'] for m in fabric.info()['members']), 'the kernel lets go')
    seen = fabric.info()
    assert len(seen['members']) == 2 and len(seen['qps']) == 2  # they have not been recovered from yet
    assert seen['totals'] == TOTALS
    fabric.run('ibv_devinfo')  # a new member recovers the dead, and leaves
    seen = fabric.info()
    assert (seen['members'], seen['qps'], seen['regions']) == ([], [], [])
    assert seen['pool']['segments_leased'] == 0
    assert seen['totals'] == TOTALS


def test_held_lock(fabric, shown):
    with open(fabric.pool, 'r+b') as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 1, 0))
        begun = time.monotonic()
        done = info(fabric, '--json')
        assert time.monotonic() - begun < 20
    assert done.returncode == 0 and 'holds the pool\'s lock' in done.stderr
    assert json.loads(done.stdout)['totals'] == TOTALS


# ---- What is no pool ----

@pytest.mark.parametrize('make,why', [
    (lambda path: None, 'there is no pool yet'),
    (lambda path: path.touch(), 'there is no pool yet'),
    (lambda path: path.write_bytes(b'x'), 'the file is not a pool'),
    (lambda path: path.write_bytes(bytes(MIB)), 'the file is not a pool'),
    (lambda path: path.mkdir(), 'not a regular file'),
    (lambda path: os.mkfifo(path, 0o666), 'not a regular file'),
    (lambda path: path.symlink_to('/dev/null'), 'Too many levels of symbolic links'),
])
def test_no_pool(fabric, make, why):
    make(fabric.pool)
    if fabric.pool.exists() and not fabric.pool.is_symlink():
        fabric.pool.chmod(0o777)
    for words in ((), ('--json',)):
        done = info(fabric, *words)
        assert (done.returncode, done.stdout) == (1, '')
        assert str(fabric.pool) in done.stderr and why in done.stderr


def test_path_too_long(fabric):
    done = info(fabric, pool='/' + 'x' * 5000)
    assert done.returncode == 1 and 'too long' in done.stderr


@pytest.mark.parametrize('words', [['--what'], ['--pool'], ['--pool='], ['--pool', ''], ['more']])
def test_usage(fabric, words):
    done = subprocess.run([fabric.weft(), 'info', *words], capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stdout) == (2, '') and '--help' in done.stderr


def test_default_pool_of_others(fabric):
    """A user's own pool to which others may write is refused."""
    words = ['unshare', '-rm', 'sh', '-c', 'mount -t tmpfs tmpfs /dev/shm && umask 0 && '
             f'echo x > /dev/shm/weft-0 && exec {fabric.weft()} info']
    if subprocess.run(['unshare', '-rm', 'true'], check=False).returncode:
        pytest.skip('no user namespaces')
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=fabric.env)
    assert done.returncode == 1 and 'open to others' in done.stderr


def test_full_output(fabric, shown):
    with open('/dev/full', 'w') as full:
        argv = [*user_prefix(), fabric.weft(), 'info', '--pool', fabric.pool]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                              env=fabric.env)
    assert done.returncode == 1 and 'No space left' in done.stderr


# ---- Damage ----

class Corpse:
    """A pool whose members are dead, to be damaged. Places are named NAME of LAYOUT, or
    OBJECT.FIELD for the first member, the receiver's queue pair and the regions of `shown`."""

    def __init__(self, fabric, shown):
        os.killpg(shown.program.process.pid, signal.SIGKILL)
        shown.program.process.wait()
        wait_for(lambda: not any(m['alive'] for m in fabric.info()['members']), 'the end')
        self.seen = fabric.info()
        self.path = fabric.pool
        self.file = os.open(self.path, os.O_RDWR)
        self.base = {name: ('mr', LAYOUT['mrs'] + (key >> LAYOUT['key_bits']) * LAYOUT['mr_bytes'])
                     for name, (key, _, _) in shown.regions.items()}
        index = shown.qps[0] % (1 << LAYOUT['qp_index_bits'])
        self.base['qp'] = 'qp', LAYOUT['qps'] + index * LAYOUT['qp_bytes']
        self.base['member'] = 'member', LAYOUT['members']
        self.base['piece'] = 'piece', self.get(self.at('pieces.off'), 'Q')

    def at(self, place):
        """The offset in the file."""
        if '.' not in place:
            return LAYOUT[place]
        name, field = place.split('.')
        kind, base = self.base[name]
        return base + (8 * int(field) if kind == 'piece' else LAYOUT[f'{kind}.{field}'])

    def put(self, off, form, value):
        os.pwrite(self.file, struct.pack(f'<{form}', value), off)

    def get(self, off, form):
        return struct.unpack(f'<{form}', os.pread(self.file, struct.calcsize(form), off))[0]


@pytest.fixture
def corpse(fabric, shown):
    made = Corpse(fabric, shown)
    yield made
    os.close(made.file)


@pytest.mark.parametrize('size', [1, 100, MIB])
def test_truncated(fabric, corpse, size):
    os.truncate(corpse.path, size)
    done = info(fabric, '--json')
    assert (done.returncode, done.stdout) == (1, '')
    assert re.search('the file is not a pool|the file has 1048576 bytes', done.stderr)


@pytest.mark.parametrize('place,form,value,why', [
    ('file_bytes', 'Q', 1 << 63, "the pool's header says"),
    ('file_bytes', 'Q', 0, "the pool's header says"),
    ('version', 'I', 99, 'another version'),
    ('signature', 'Q', 99, 'another version'),
])
def test_other_header(fabric, corpse, place, form, value, why):
    corpse.put(corpse.at(place), form, value)
    done = info(fabric, '--json')
    assert (done.returncode, done.stdout) == (1, '') and why in done.stderr


@pytest.mark.parametrize('section,left_out,place,form,value', [
    ('members', 0, 'members_end', 'Q', 1 << 40),
    ('members', 0, 'member.lines', 'I', 1 << 30),
    ('members', 0, 'member.ngids', 'I', 1 << 30),
    ('qps', 1, 'qp.qpn', 'I', 0x1234567),
    ('qps', 1, 'qp.rq_start', 'Q', 1 << 60),  # voided more than were posted
    ('regions', 1, 'pooled.key', 'I', 77777),  # of another place
    ('regions', 1, 'pooled.len_bytes', 'Q', 0),
    ('regions', 1, 'pooled.va', 'Q', (1 << 64) - 1),  # wraps
    ('regions', 1, 'pooled.off', 'Q', 5),  # in the tables
    ('regions', 1, 'pooled.off', 'Q', 1 << 62),
    ('regions', 1, 'mixed.lo', 'Q', 1 << 40),
    ('regions', 1, 'pooled.hi', 'Q', 1 << 40),
    ('regions', 1, 'pieces.off', 'Q', 1 << 62),
    ('regions', 1, 'pieces.hi', 'Q', 0xffffffff),
    ('regions', 1, 'piece.0', 'Q', 1),  # does not start at the start
    ('regions', 1, 'piece.1', 'Q', 3),  # nowhere in the file's segments
    ('regions', 1, 'piece.2', 'Q', 1 << 50),  # starts beyond the end
])
def test_damaged_entry(fabric, corpse, section, left_out, place, form, value):
    corpse.put(corpse.at(place), form, value)
    done = info(fabric, '--json')
    assert done.returncode == 0 and 'make no sense' in done.stderr
    assert len(json.loads(done.stdout)[section]) == len(corpse.seen[section]) - left_out


def test_orphaned_leases(fabric, corpse):
    """Leases of members that are not there: the entries of such blocks are not shown."""
    for off in range(LAYOUT['leases'], LAYOUT['leases'] + LAYOUT['leases_bytes'], 8):
        if corpse.get(off, 'Q'):
            corpse.put(off, 'Q', 999 << 16 | 1)
    seen = fabric.info()
    assert (seen['qps'], seen['regions']) == ([], [])
    assert seen['pool']['segments_leased'] == corpse.seen['pool']['segments_leased']


def test_strange_names(fabric, corpse):
    name = corpse.at('member.comm')
    assert corpse.get(name, '16s').startswith(b'shown\0')
    corpse.put(name, '16s', b'\x1b[31m"\\\n\xff\xc3(xxxxx')  # no end, either
    assert fabric.info()['members'][0]['comm'] == '?[31m"\\???(xxxxx'
    assert '\x1b' not in info(fabric).stdout


@pytest.mark.parametrize('name,shown_as', [
    ('a "b"\\\n\x01', 'a "b"\\\n\x01'), ('gr\u00fcn', 'gr\u00fcn'), ('a\udcff', 'a\u00ff')])
def test_strange_path(fabric, corpse, name, shown_as):
    path = fabric.folder / name
    fabric.pool.rename(path)
    done = info(fabric, '--json', pool=path)
    assert json.loads(done.stdout)['pool']['path'] == str(fabric.folder / shown_as)
    assert info(fabric, pool=path).returncode == 0


def test_garbage(fabric, corpse):
    """Whatever stands in the tables: an answer or an error, never a crash, always JSON."""
    seed = random.randrange(1 << 32)
    print(f'seed {seed}')
    rng = random.Random(seed)
    places = [(0, 200), (LAYOUT['leases'], 64), (LAYOUT['members'], 13000),
              (LAYOUT['home'], 200), (LAYOUT['near'], 5000),
              *((base, 64) for _, base in corpse.base.values())]
    for _ in range(150):
        before = []
        for _ in range(rng.randrange(1, 8)):
            base, size = rng.choice(places)
            off = base + rng.randrange(size)
            length = rng.choice((1, 2, 4, 8, 64))
            before.append((off, os.pread(corpse.file, length, off)))
            filler = rng.choice((b'\0' * length, b'\xff' * length, rng.randbytes(length)))
            os.pwrite(corpse.file, filler, off)
        done = info(fabric, '--json')
        assert done.returncode in (0, 1), done.stderr
        assert json.loads(done.stdout) if done.returncode == 0 else done.stderr
        assert info(fabric).returncode == done.returncode
        for off, old in reversed(before):
            os.pwrite(corpse.file, old, off)
    assert {**fabric.info(), 'pool': None} == {**corpse.seen, 'pool': None}
