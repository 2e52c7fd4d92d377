# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""However a program loads libibverbs and librdmacm, it gets Weft's and no others."""
import re
import shutil
import subprocess
import sysconfig

import pytest

pytestmark = pytest.mark.quick

SYSTEM = f'/usr/lib/{sysconfig.get_config_var("MULTIARCH")}'


def libraries(done):
    assert done.returncode == 0, done
    return set(re.findall(r'^/\S+', done.stdout, re.M))


def only_ours(delivery, done, *names):
    found = libraries(done)
    assert found == {str((delivery.libs / name).resolve()) for name in names}, done
    return True


OURS = ['libibverbs.so.1', 'librdmacm.so.1']


def test_linked_program(delivery):
    assert only_ours(delivery, delivery.run(delivery.program('linked')), *OURS)


def test_dt_rpath_program(delivery):
    rpath = delivery.program('rpath')
    dynamic = subprocess.run(['readelf', '-d', rpath], capture_output=True, text=True, check=True)
    assert '(RPATH)' in dynamic.stdout
    # with the library path alone this program takes the system's libraries
    env = {**delivery.env, 'LD_LIBRARY_PATH': str(delivery.libs)}
    assert not any(str(delivery.libs) in lib for lib in libraries(delivery.plain(rpath, env=env)))
    assert only_ours(delivery, delivery.run(rpath), *OURS)


@pytest.mark.parametrize('program', ['opener', 'linked', 'rpath'])
@pytest.mark.parametrize('name', ['libibverbs.so', 'libibverbs.so.1', 'librdmacm.so',
                                  'librdmacm.so.1', f'{SYSTEM}/libibverbs.so.1',
                                  f'{SYSTEM}/librdmacm.so.1'])
@pytest.mark.parametrize('where', [[], ['--child']], ids=['here', 'child'])
def test_dlopen(delivery, program, name, where):
    done = delivery.run(delivery.program(program), *where, name)
    assert 'opened' in done.stdout.splitlines()
    assert only_ours(delivery, done, *OURS)


def test_dlopen_of_others_looks_where_the_caller_would(delivery):
    opener = delivery.program('opener')  # it has a RUNPATH, which libc looks up by the caller's return address
    for words in ([opener], [delivery.weft, 'run', opener]):
        done = delivery.plain(*words, 'libweft-plugin.so', 'libibverbs.so.9', 'librdma.so')
        lines = done.stdout.splitlines()
        assert lines[0] == 'opened', done
        assert lines[1].startswith('libibverbs.so.9: cannot open'), done
        assert lines[2].startswith('librdma.so: cannot open'), done


def test_children_inherit(delivery):
    linked = delivery.program('linked')
    done = delivery.run('sh', '-c', f'sh -c "env {linked}; true"')
    assert only_ours(delivery, done, *OURS)


def test_eval_env(delivery):
    line = f'eval "$({delivery.weft} env)"; {delivery.program("rpath")} libibverbs.so'
    assert only_ours(delivery, delivery.plain('bash', '-c', line), *OURS)


def test_python(delivery):
    code = ('import ctypes, ctypes.util\n'
            'ctypes.CDLL(ctypes.util.find_library("ibverbs")); ctypes.CDLL("librdmacm.so.1")\n'
            'paths = {line.split()[-1] for line in open("/proc/self/maps")}\n'
            'print(*(p for p in paths if "/libib" in p or "/librdmacm" in p), sep="\\n")')
    assert only_ours(delivery, delivery.run('/usr/bin/python3', '-c', code), *OURS)


@pytest.mark.skipif(not shutil.which('strace'), reason='needs strace')
def test_no_constructor_with_effects(delivery):
    """A program that does not use RDMA pays for loading the libraries and nothing more."""
    trace = delivery.folder / 'trace'
    filters = 'trace=%file,%network,%process,memfd_create,eventfd2,ioctl,futex,userfaultfd'
    strace = ['strace', '-f', '-e', filters, '-o', trace, '--']
    done = delivery.plain(*strace, delivery.weft, 'run', 'true')
    if done.returncode and 'ptrace' in done.stderr.lower():
        pytest.skip('strace is not allowed here')
    assert done.returncode == 0
    calls = trace.read_text().split(f'execve("{shutil.which("true")}"')[-1]
    kinds = set(re.findall(r'^\d+ +(\w+)\(', calls, re.M))
    assert kinds <= {'access', 'openat', 'newfstatat', 'arch_prctl', 'exit_group', 'futex'}, calls
    for path in re.findall(r'openat\(\S+ "([^"]*)"', calls):
        assert re.search(r'\.so(\.[\d.]+)?$|ld\.so\.cache$', path), calls


def test_no_descriptor_and_no_file_left(delivery):
    # Pools of tests that run beside this one come and go.
    script = 'ls /proc/self/fd; ls /dev/shm | grep -v ^weft-test-'
    assert delivery.run('sh', '-c', script).stdout == delivery.plain('sh', '-c', script).stdout


def test_preloads_of_others_go_along(delivery):
    for other in ('libjemalloc.so.2', 'libm.so.6'):
        env = {**delivery.env, 'LD_PRELOAD': other}
        done = delivery.run(delivery.program('linked'), 'libibverbs.so', env=env)
        assert only_ours(delivery, done, *OURS)
