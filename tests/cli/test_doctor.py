# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft doctor`: each check meets the condition that it is for, made real by a namespace, a limit
or a file. Without root and without user namespaces those tests are skipped."""
import fcntl
import functools
import json
import os
import shlex
import shutil
import signal
import struct
import subprocess

import pytest

from fabric import BUILD, installed, user_prefix, wait_for

pytestmark = pytest.mark.quick

MIB = 1 << 20
ENV = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'LANG': 'C.UTF-8'}


def home():
    return installed() if user_prefix() else BUILD


def weft():
    return next(home().glob('**/bin/weft'), home() / 'weft')


class Diagnosis:
    def __init__(self, done):
        assert not done.stderr, done.stderr
        found = json.loads(done.stdout)
        self.status = done.returncode
        self.checks = found['checks']
        self.summary = found['summary']
        states = [check['state'] for check in self.checks]
        assert self.summary == {'problems': states.count('problem'), 'notes': states.count('note'),
                                'fixed': states.count('fixed')}
        assert self.status == bool(self.summary['problems'])
        assert all(check['remedy'] for check in self.checks if check['state'] in ('problem', 'note'))

    def says(self, name, state, *words):
        """The check of that name has this state, and all words."""
        [check] = (c for c in self.checks if c['check'] == name and c['state'] == state)
        for word in words:
            assert word in check['finding'] + '\n' + check['remedy']
        return True


def doctor(*words, prefix=(), env=None, user=False):
    argv = [*(user_prefix() if user else []), *prefix, weft(), 'doctor', '--json', *words]
    return Diagnosis(subprocess.run([str(a) for a in argv], env={**ENV, **(env or {})}, text=True,
                                    capture_output=True, check=False, timeout=60))


@functools.cache
def unshare():
    words = ['unshare', *(['-r'] if os.geteuid() else []), '-m', '-p', '-f', '--mount-proc']
    if subprocess.run([*words, 'true'], check=False, capture_output=True).returncode:
        pytest.skip('neither root nor user namespaces')
    return words


def apart(script='', *words, shm='size=1g', run='exec', **options):
    """Runs the doctor as on a machine of its own: no other processes, an empty /dev/shm, and what script does.
    run: the words before weft; `exec`: the shell becomes weft."""
    script = f'mount -t tmpfs -o mode=1777,{shm} tmpfs /dev/shm || exit 9; {script}\n{run} "$@"'
    return doctor(*words, prefix=[*unshare(), 'sh', '-ec', script, 'sh'], **options)


def bind(text, path):
    """Words for a script: the file of /proc or /sys has this text instead of its own."""
    return (f'f=$(mktemp -p /dev/shm); chmod 644 $f; printf %s {shlex.quote(text)} >$f; '
            f'mount --bind $f {path}; ')


def test_fine():
    found = apart('', 'ibv_devinfo')
    assert found.status == 0 and found.summary['fixed'] == 0
    assert found.says('pool', 'ok', '/dev/shm/weft-0', 'will be made')
    assert found.says('room', 'ok', '1024 MiB')
    assert found.says('removed_pool', 'ok') and found.says('private_pools', 'ok')
    assert found.says('libraries', 'ok', str(home()))
    assert found.says('program', 'ok', '/usr/bin/ibv_devinfo', str(home()))
    assert found.says('kernel', 'ok', os.uname().release)


def test_table():
    done = subprocess.run([weft(), 'doctor', '--pool', '/nonexistent/pool'], env=ENV, text=True,
                          capture_output=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and not done.stderr
    assert lines[0] == 'checks' and lines[1].split() == ['STATE', 'CHECK', 'FINDING']
    [at] = (n for n, line in enumerate(lines) if line.startswith('PROBLEM pool '))
    assert 'cannot be made: No such file' in lines[at]
    assert lines[at + 1].startswith(' ') and 'name a pool elsewhere' in lines[at + 1]


@pytest.mark.parametrize('words', [['--what'], ['--pool'], ['a', 'b'], ['--pool='], ['--pool', '--json']])
def test_usage(words):
    done = subprocess.run([weft(), 'doctor', *words], text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, '') and '--help' in done.stderr


# ---- GPUs, on the stand-in ----

def test_gpus():
    """The stand-in says its seed, which is not the doctor's."""
    found = apart(run='2>/dev/null exec', env={**ENV, 'LD_LIBRARY_PATH': f'{BUILD}/tests/softgpu'})
    assert found.says('gpu', 'ok', 'memory of 2 can be registered')


def test_a_driver_of_gpus_that_is_too_old(tmp_path):
    (tmp_path / 'libcuda.so.1').symlink_to(f'{BUILD}/tests/gpu/hollow.so')
    tmp_path.chmod(0o755)
    found = apart(env={**ENV, 'LD_LIBRARY_PATH': str(tmp_path)})
    assert found.status == 0 and found.says('gpu', 'note', 'libcuda.so has no cu', 'CUDA 11.7')


# ---- The kernel and the limits ----

@pytest.mark.parametrize('call,check,state', [
    ('membarrier', 'membarrier', 'problem'),
    ('userfaultfd', 'userfaultfd', 'note'),
    ('process_vm_readv', 'process_vm', 'note'),
    ('process_vm_writev', 'process_vm', 'note'),
])
def test_seccomp(call, check, state):
    found = apart(run=f'exec {BUILD}/tests/cli/deny {call}')
    assert found.says(check, state, 'Operation not permitted', 'seccomp')


def test_yama():
    for scope, state in ((0, 'ok'), (2, 'note')):
        script = (f'mkdir -p /dev/shm/kernel/yama; echo {scope} >/dev/shm/kernel/yama/ptrace_scope;'
                  'mount --bind /dev/shm/kernel /proc/sys/kernel')
        assert apart(script).says('process_vm', state, 'ptrace_scope' if scope else 'allowed')


def test_old_kernel():
    assert apart(run='setarch --uname-2.6').says('kernel', 'note', 'Linux 2.6')


def test_cpus():
    cpu = min(os.sched_getaffinity(0))
    assert apart(run=f'taskset -c {cpu}').says('cpus', 'note', '1:')


@pytest.mark.parametrize('room,state', [(212992, 'note'), (4194304, 'ok')])
def test_socket_buffer(room, state):
    assert apart(bind(f'{room}\n', '/proc/sys/net/core/rmem_max')).says('socket_buffer', state, f'rmem_max is {room}')


@pytest.mark.parametrize('limit,check', [('as', 'address_space'), ('fsize', 'file_size')])
def test_rlimit(limit, check):
    found = apart(run=f'prlimit --{limit}={2048 * MIB}')
    assert found.says(check, 'problem', 'limited to 2048 MiB', 'ulimit')
    found = apart(run=f'prlimit --{limit}={1 << 50}')
    assert found.says(check, 'ok', 'limited to')


def test_file_size_limit_prevents_the_pool():
    assert apart(run='prlimit --fsize=8192').says('pool', 'problem', 'File too large')


def test_mappings():
    found = apart(bind('1000', '/proc/sys/vm/max_map_count'))
    assert found.says('mappings', 'note', '1000 a process', 'vm.max_map_count')


@pytest.mark.parametrize('left,state', [(1024, 'ok'), (100, 'note'), (5, 'problem')])
@pytest.mark.parametrize('v2', [True, False])
def test_cgroup(v2, left, state):
    """Two levels of control groups, of which the upper one has the tighter limit."""
    names = ('memory.max', 'memory.current') if v2 else ('memory.limit_in_bytes',
                                                         'memory.usage_in_bytes')
    top = '/sys/fs/cgroup' if v2 else '/sys/fs/cgroup/memory'
    script = f'mount -t tmpfs tmpfs /sys/fs/cgroup; mkdir -p {top}/a/b; '
    for folder, limit in ((f'{top}/a', (2000 + left) * MIB), (f'{top}/a/b', 1 << 62)):
        script += f'echo {limit} >{folder}/{names[0]}; echo {2000 * MIB} >{folder}/{names[1]}; '
    script += bind('0::/a/b\n' if v2 else '3:cpu:/\n2:memory:/a/b\n', '/proc/$$/cgroup')
    assert apart(script).says('cgroup', state, f'{left} MiB')


# ---- The pool and its folder ----

@pytest.mark.parametrize('size,state', [('3m', 'problem'), ('100m', 'note'), ('300m', 'ok')])
def test_room(size, state):
    assert apart(shm=f'size={size}').says('room', state, 'MiB left in /dev/shm')


def test_full():
    found = apart('head -c 1m /dev/zero >/dev/shm/full || true', shm='size=1m')
    assert found.says('pool', 'problem', 'No space left')


def test_disk(tmp_path):
    fs = subprocess.run(['stat', '-f', '-c', '%T', tmp_path], capture_output=True, text=True,
                        check=True).stdout.strip()
    if fs == 'tmpfs':
        pytest.skip('temporary files are in a tmpfs')
    found = doctor('--pool', tmp_path / 'pool')
    assert found.says('room', 'note', 'no tmpfs')


def test_read_only_folder():
    found = apart('mount -t tmpfs -o ro tmpfs /dev/shm')
    assert found.says('pool', 'problem', 'cannot be made: Read-only file system')


@pytest.mark.skipif(not user_prefix(), reason='needs a second user')
def test_rights(fabric):
    shut = fabric.folder / 'shut'
    shut.mkdir(0o755)
    found = doctor('--pool', shut / 'pool', user=True)
    assert found.says('pool', 'problem', 'cannot be made: Permission denied')
    with Alive(fabric):
        os.chown(fabric.pool, 0, 0)
        fabric.pool.chmod(0o644)
        found = doctor('--pool', fabric.pool, user=True)
        assert found.says('pool', 'problem', 'no program of yours can join', 'rights')
        fabric.pool.chmod(0o600)
        found = doctor('--pool', fabric.pool, user=True)
        assert found.says('pool', 'problem', 'cannot be opened')


def test_open_to_others():
    found = apart('umask 0; echo x >/dev/shm/weft-0')
    assert found.says('pool', 'problem', 'open to others', 'chmod 600')


class Alive:
    """A member of the fabric's pool, until the end of the block or kill()."""

    def __init__(self, fabric):
        self.program = fabric.start(fabric.program('shown'))
        wait_for(lambda: 'ready' in self.program.output().stdout, 'a member')
        self.fabric = fabric

    def kill(self):
        os.killpg(self.program.process.pid, signal.SIGKILL)
        self.program.process.wait()
        wait_for(lambda: not any(m['alive'] for m in self.fabric.info()['members']), 'the end')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.kill()


def test_members_and_leftovers(fabric):
    member = Alive(fabric)
    found = doctor('--pool', fabric.pool, user=True)
    assert found.says('pool', 'ok', '2 members') and found.says('leftovers', 'ok')
    member.kill()
    found = doctor('--pool', fabric.pool, user=True)
    assert found.says('leftovers', 'note', '2 programs died', 'weft doctor --fix')
    assert len(fabric.info()['members']) == 2  # only looked
    found = doctor('--fix', '--pool', fabric.pool, user=True)
    assert found.says('leftovers', 'fixed', '2 programs')
    assert fabric.info()['members'] == []
    assert doctor('--pool', fabric.pool, user=True).says('leftovers', 'ok')


def patch(path, off, form, value):
    with open(path, 'r+b') as file:
        file.seek(off)
        file.write(struct.pack(form, value))


def test_other_version(fabric):
    with Alive(fabric) as member:
        patch(fabric.pool, 8, '<I', 99)
        found = doctor('--pool', fabric.pool, user=True)
        assert found.says('pool', 'problem', 'another version', 'weft doctor --fix')
        found = doctor('--fix', '--pool', fabric.pool, user=True)
        assert found.says('pool', 'problem', 'programs use the pool', 'end the programs')
        assert fabric.pool.exists()
        member.program.kill()
        wait_for(lambda: doctor('--fix', '--pool', fabric.pool, user=True).checks
                 and not fabric.pool.exists(), 'the pool is removed')
    assert doctor('--pool', fabric.pool, user=True).says('pool', 'ok', 'will be made')


def test_fix_keeps_what_is_no_pool(fabric):
    fabric.pool.write_bytes(b'my thesis')
    fabric.pool.chmod(0o666)
    found = doctor('--fix', '--pool', fabric.pool, user=True)
    assert found.says('pool', 'problem', 'the file is not a pool')
    assert fabric.pool.read_bytes() == b'my thesis'


def test_half_made_own_pool():
    found = apart('umask 077; head -c 9999 /dev/zero >/dev/shm/weft-0', '--fix')
    assert found.says('pool', 'fixed', 'removed') and found.status == 0


def test_damaged(fabric):
    with Alive(fabric):
        key = fabric.info()['regions'][0]['key']
        layout = dict(line.split() for line in subprocess.check_output(
            [BUILD / 'tests/cli/layout'], text=True).splitlines())
        off = int(layout['mrs']) + (key >> int(layout['key_bits'])) * int(layout['mr_bytes'])
        patch(fabric.pool, off + int(layout['mr.len_bytes']), '<Q', 0)
        found = doctor('--pool', fabric.pool, user=True)
        assert found.says('pool', 'problem', '1 entries make no sense', 'weft pool rm')


def test_held_lock(fabric):
    with Alive(fabric), open(fabric.pool, 'r+b') as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 1, 0))
        found = doctor('--pool', fabric.pool, user=True)
        assert found.says('pool', 'problem', 'nobody can join', 'continue it')


def test_removed_pool(fabric):
    with Alive(fabric) as member:
        fabric.pool.unlink()
        found = doctor('--pool', fabric.pool, user=True)
        lines = [c for c in found.checks if c['check'] == 'removed_pool']
        pids = {str(member.program.process.pid)} & {c['finding'].split()[1] for c in lines}
        assert pids and all(c['state'] == 'problem' for c in lines)


def test_private_pools():
    left = 'mkdir /dev/shm/weft-private-999999999-abcdef /dev/shm/weft-private-$$-abcdef; ' \
           'touch /dev/shm/weft-private-999999999-abcdef/pool; '
    assert apart(left).says('private_pools', 'problem', '1 private pools', '--fix')
    found = apart(left, '--fix')
    assert found.says('private_pools', 'fixed', 'removed 1 private pools')
    assert apart(left, '--fix', run='"$@" >/dev/null; exec').says('private_pools', 'ok')


def test_private_pool_in_use():
    script = (f'{weft()} run --private -- sleep 60 >&2 & '
              'until ls /dev/shm | grep -q weft-private; do sleep 0.01; done')
    assert apart(script, '--fix').says('private_pools', 'ok')


# ---- Programs ----

def compile_c(target, *words, code='int main(void) { return 0; }'):
    subprocess.run(['cc', '-x', 'c', '-', '-x', 'none', '-o', target, *words], input=code, text=True, check=True)
    return target


def test_static(tmp_path):
    found = doctor(compile_c(tmp_path / 'program', '-static'))
    assert found.says('program', 'problem', 'cannot run over Weft', 'statically linked')


@pytest.mark.skipif(not user_prefix(), reason='needs a second user')
def test_setuid(fabric):
    program = shutil.copy('/bin/true', fabric.folder / 'program')
    program.chmod(0o4755)
    assert doctor(program, user=True).says('program', 'problem', 'setuid')


def test_missing(tmp_path):
    assert doctor(tmp_path / 'program').says('program', 'problem', 'is not there')
    (tmp_path / 'program').write_text('text')
    assert doctor(tmp_path / 'program').says('program', 'problem', 'not an executable')


def test_foreign(tmp_path):
    program = tmp_path / 'program'
    head = bytearray(open('/bin/true', 'rb').read(4096))
    head[18:20] = struct.pack('<H', 22)  # EM_S390
    program.write_bytes(head)
    program.chmod(0o755)
    assert doctor(program).says('program', 'problem', 'another machine')


def test_script():
    """Of a script its interpreter is what counts."""
    assert doctor('ldd').says('program', 'ok', '/bin/')


def test_rpath(tmp_path):
    """A program with an RPATH to the system's libraries: Weft's come in all the same."""
    libs = subprocess.check_output(['pkg-config', '--variable=libdir', 'libibverbs'],
                                   text=True).strip()
    program = compile_c(tmp_path / 'program', '-Wl,--no-as-needed', '-libverbs',
                        f'-Wl,--disable-new-dtags,-rpath,{libs}')
    assert doctor(program).says('program', 'ok', str(home()))


def test_renamed_copy(tmp_path):
    """A copy of libibverbs under another name, as Python wheels carry their libraries."""
    library = compile_c(tmp_path / 'libibverbs-1a2b3c.so.1', '-shared', '-fPIC',
                        '-Wl,-soname,libibverbs-1a2b3c.so.1', code='int f;')
    program = compile_c(tmp_path / 'program', '-Wl,--no-as-needed', library,
                        f'-Wl,-rpath,{tmp_path}')
    found = doctor(program)
    assert found.says('program', 'problem', str(library), 'instead of a copy')
    library.unlink()
    assert doctor(program).says('program', 'problem', 'libibverbs-1a2b3c.so.1', 'install what')


def test_foreign_preload():
    """A library that the user preloads stays in front of Weft's, and wins."""
    libs = subprocess.check_output(['pkg-config', '--variable=libdir', 'libibverbs'],
                                   text=True).strip()
    found = doctor(env={'LD_PRELOAD': f'{libs}/libibverbs.so.1'})
    assert found.says('libraries', 'problem', f'{libs}/libibverbs.so.1', 'LD_PRELOAD')


def test_incomplete_installation(tmp_path):
    alone = shutil.copy(weft(), tmp_path / 'weft')
    done = subprocess.run([alone, 'doctor', '--json'], env=ENV, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and 'libweft-shim.so' in done.stderr
    [check] = (c for c in json.loads(done.stdout)['checks'] if c['check'] == 'libraries')
    assert check['state'] == 'problem' and 'install Weft again' in check['remedy']
