# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft run` behaves as the program that it runs: status, signals, streams and arguments. It refuses what cannot
work. --private leaves nothing behind."""
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fabric import namespaces, wait_for

pytestmark = pytest.mark.quick

STATUS_NOT_RUNNABLE, STATUS_NOT_FOUND = 126, 127


def test_exit_status(delivery):
    for status in (0, 1, 42, 255):
        assert delivery.run('--', 'sh', '-c', f'exit {status}').returncode == status


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP])
def test_signal_reaches_the_program_and_is_its_death(delivery, number):
    def no_longer_ignored():  # as nohup and a shell's background leave it
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)

    with delivery.start('sh', '-c', 'echo up; exec sleep 60', stdout=subprocess.PIPE,
                        preexec_fn=no_longer_ignored) as run:
        assert run.stdout.readline() == b'up\n'
        run.send_signal(number)
        assert run.wait(60) == -number


def test_stop_and_continue(delivery):
    with delivery.start('sh', '-c', 'echo up; read line', stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE) as run:
        assert run.stdout.readline() == b'up\n'
        run.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(run.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        run.send_signal(signal.SIGCONT)
        run.stdin.write(b'\n')
        run.stdin.close()
        assert run.wait(60) == 0


def test_streams(delivery):
    done = delivery.run('sh', '-c', 'cat; echo to stderr >&2', input='line\n' * 100000)
    assert (done.stdout, done.stderr) == ('line\n' * 100000, 'to stderr\n')


def test_arguments(delivery):
    odd = ['', 'a b', "it's", '"', '$HOME', '*', '\\', 'two\nlines', '--private', '-', 'ü']
    done = delivery.run('--', '/usr/bin/python3', '-c', 'import sys; print(sys.argv[1:])', *odd)
    assert done.stdout == f'{odd}\n'


def test_options_of_the_program_stay_its_own(delivery):
    assert delivery.run('echo', '--pool', 'x', '--').stdout == '--pool x --\n'


def test_script(delivery):
    script = delivery.folder / 'script'
    script.write_text('#!/bin/sh\necho "$0: $LD_PRELOAD" >&2\nexit 7\n')
    script.chmod(0o755)
    done = delivery.run(script)
    assert done.returncode == 7 and 'libweft-shim.so' in done.stderr


def test_script_without_interpreter_line(delivery):
    script = delivery.folder / 'bare'
    script.write_text('exit 9\n')
    script.chmod(0o755)
    assert delivery.run(script).returncode == 9


def test_loader_as_program(delivery):
    loader = next(p for p in ('/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1')
                  if os.path.exists(p))
    assert delivery.run(loader, shutil.which('true')).returncode == 0


def refused(done, status, text):
    assert done.returncode == status, done
    assert text in done.stderr, done
    assert not done.stdout
    return True


def test_not_found(delivery):
    assert refused(delivery.run('no-such-program'), STATUS_NOT_FOUND, 'is not there')
    assert refused(delivery.run('./no/such'), STATUS_NOT_FOUND, 'is not there')
    assert refused(delivery.run(''), STATUS_NOT_FOUND, 'is not there')


def test_folder_of_path_that_is_closed(delivery):
    closed = delivery.folder / 'closed'
    (closed / 'inside').mkdir(parents=True)
    closed.chmod(0o700 if os.geteuid() == 0 else 0)
    env = {**delivery.env, 'PATH': f'{closed}/inside:{delivery.env["PATH"]}'}
    assert refused(delivery.run('nosuch', env=env), STATUS_NOT_FOUND, 'nosuch is not there')
    assert delivery.run('true', env=env).returncode == 0
    assert refused(delivery.run(closed / 'inside/nosuch'), STATUS_NOT_RUNNABLE, 'not an executable')
    closed.chmod(0o700)


def test_not_executable(delivery):
    file = delivery.folder / 'file'
    file.write_text('')
    file.chmod(0o644)
    assert refused(delivery.run(file), STATUS_NOT_RUNNABLE, 'not an executable')
    assert refused(delivery.run(delivery.folder), STATUS_NOT_RUNNABLE, 'not an executable')


def test_static_program_refused(delivery):
    static = delivery.program('static')
    assert delivery.plain(static).returncode == 0
    assert refused(delivery.run(static), STATUS_NOT_RUNNABLE, 'statically linked')


def test_script_with_static_interpreter_refused(delivery):
    script = delivery.folder / 'by-static'
    script.write_text(f'#!{delivery.program("static")}\n')
    script.chmod(0o755)
    assert delivery.plain(script).returncode == 0
    assert refused(delivery.run(script), STATUS_NOT_RUNNABLE, 'statically linked')


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can make a setuid program of another user')
@pytest.mark.parametrize('mode', [0o4755, 0o2755])
def test_setuid_program_refused(delivery, mode):
    copy = delivery.folder / f'set-{mode:o}'
    shutil.copy(shutil.which('true'), copy)
    copy.chmod(mode)
    assert delivery.plain(copy).returncode == 0
    assert refused(delivery.run(copy), STATUS_NOT_RUNNABLE, 'LD_PRELOAD')
    # with its owner no privilege is gained, so the loader heeds LD_PRELOAD
    assert delivery.run(copy, user=False).returncode == 0


def setuid_of_root():
    found = (shutil.which(name) for name in ('su', 'passwd', 'mount'))
    return next((p for p in found if p and os.stat(p).st_uid == 0 and os.stat(p).st_mode & 0o4000),
                None)


@pytest.mark.skipif(not setuid_of_root(), reason='needs a setuid program')
def test_setuid_program_of_the_system_refused(delivery):
    assert refused(delivery.run(setuid_of_root(), '--help'), STATUS_NOT_RUNNABLE, 'LD_PRELOAD')


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which('setcap'), reason='needs root and setcap')
def test_program_with_capabilities_refused(delivery):
    copy = delivery.folder / 'capable'
    shutil.copy(shutil.which('true'), copy)
    subprocess.run(['setcap', 'cap_net_raw+ep', str(copy)], check=True)
    assert refused(delivery.run(copy), STATUS_NOT_RUNNABLE, 'LD_PRELOAD')


def patched(delivery, name, change):
    """A copy of `true` whose bytes the function `change` has changed."""
    copy = delivery.folder / name
    with open(shutil.which('true'), 'rb') as original:
        copy.write_bytes(change(bytearray(original.read())))
    copy.chmod(0o755)
    return copy


def test_program_of_another_machine_refused(delivery):
    def other_machine(elf):
        elf[18:20] = b'\x16\x00'  # e_machine: S/390
        return elf
    copy = patched(delivery, 's390', other_machine)
    assert refused(delivery.run(copy), STATUS_NOT_RUNNABLE, 'another machine')


def test_program_of_another_libc_refused(delivery):
    def musl(elf):
        start = elf.index(b'/lib', 64)
        end = elf.index(b'\0', start)
        elf[start:end] = b'/lib/ld-musl.so.1'.ljust(end - start, b'\0')
        return elf
    copy = patched(delivery, 'musl', musl)
    assert refused(delivery.run(copy), STATUS_NOT_RUNNABLE, 'libc')


@pytest.mark.parametrize('words', [(), ('--',), ('--pool',), ('--pool', '', 'true'), ('--pool', '--', 'true'),
                                   ('--pool=', 'x'), ('--no-such', 'true'),
                                   ('--private', '--pool', 'x', 'true')])
def test_wrong_usage(delivery, words):
    assert refused(delivery.run(*words), 2, 'weft run --help')


def test_help_and_version(delivery):
    lists = delivery.plain(delivery.weft, '--help')
    assert lists.returncode == 0 and not lists.stderr
    rows = lists.stdout.split('Commands:\n')[1].split('\n\n')[0]
    names = [row.split()[0] for row in rows.splitlines()]
    assert {'run', 'env'} <= set(names)
    for name in names:
        for words in ([name, '--help'], ['help', name]):
            done = delivery.plain(delivery.weft, *words)
            assert done.returncode == 0 and not done.stderr
            assert done.stdout.startswith('Usage: '), name
    assert delivery.plain(delivery.weft, '--version').stdout.startswith('weft ')
    assert refused(delivery.plain(delivery.weft, 'nonsense'), 2, "no command 'nonsense'")
    assert refused(delivery.plain(delivery.weft), 2, 'Usage: weft')
    full = delivery.plain('sh', '-c', f'{delivery.weft} --help > /dev/full')
    assert full.returncode == 1 and 'No space left' in full.stderr


def pool_of(delivery, *words, **options):
    return delivery.run(*words, 'sh', '-c', 'echo "$WEFT_POOL"', **options).stdout.strip()


def test_pool(delivery):
    assert pool_of(delivery, '--pool', '/some/where') == '/some/where'
    assert pool_of(delivery, '--pool=here') == f'{delivery.folder}/here'
    assert pool_of(delivery) == ''
    assert pool_of(delivery, env={**delivery.env, 'WEFT_POOL': '/kept'}) == '/kept'


def test_pool_that_is_none_is_named_once(delivery):
    none = delivery.folder / 'none'
    none.write_bytes(b'x' * 8192)
    none.chmod(0o666)
    run = delivery.run('--pool', none, '--', 'ibv_devinfo')
    assert f'{none}: the file is not a pool (weft doctor says more)' in run.stderr


def gone(folder):
    deadline = time.monotonic() + 60
    while os.path.exists(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_private_pool_is_private_and_goes_with_the_program(delivery):
    script = 'echo $WEFT_POOL; stat -c %a $(dirname $WEFT_POOL); echo x > $WEFT_POOL; exit 3'
    done = delivery.run('--private', 'sh', '-c', script)
    pool, mode = done.stdout.split()
    assert done.returncode == 3
    assert pool.startswith('/dev/shm/weft-private-') and mode == '700'
    assert gone(os.path.dirname(pool))
    assert pool != pool_of(delivery, '--private')


def test_private_pool_goes_with_a_killed_program(delivery):
    with delivery.start('--private', 'sh', '-c', 'echo $WEFT_POOL; exec sleep 60',
                        stdout=subprocess.PIPE) as run:
        pool = run.stdout.readline().decode().strip()
        assert os.path.isdir(os.path.dirname(pool))
        run.kill()
        assert run.wait(60) == -signal.SIGKILL
    assert gone(os.path.dirname(pool))


def test_private_pool_stays_for_its_last_member(delivery):
    # as a member does: it opens the file and locks its byte, by an open-file-description lock
    member = ('import fcntl, os, struct, sys, time\n'
              'fd = os.open(os.environ["WEFT_POOL"], os.O_RDWR | os.O_CREAT, 0o600)\n'
              'lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 1005, 1, 0)\n'
              'fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)\n'
              'print("joined", flush=True)\n'
              'sys.stdin.read()\n')
    script = 'echo $WEFT_POOL; exec 3<&0; /usr/bin/python3 -c "$0" <&3 & read go < go.fifo'
    fifo = delivery.folder / 'go.fifo'
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    with delivery.start('--private', 'sh', '-c', script, member, stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE) as run:
        pool = run.stdout.readline().decode().strip()
        assert run.stdout.readline() == b'joined\n'
        fifo.write_text('go\n')
        assert run.wait(60) == 0
        time.sleep(0.3)
        assert os.path.exists(pool)
        run.stdin.close()
        assert gone(os.path.dirname(pool))


def test_private_program_has_no_child_and_no_extra_descriptor(delivery):
    script = 'cat /proc/self/task/*/children; ls /proc/self/fd'
    with_pool = delivery.run('--private', 'sh', '-c', script)
    without = delivery.plain('sh', '-c', script)
    assert with_pool.stdout == without.stdout


def janitor_of(pid):
    """The janitor, which has a descriptor of the process pid, and that descriptor's number."""
    for info in Path('/proc').glob('[0-9]*/fdinfo/*'):
        try:
            if re.search(rf'^Pid:\t{pid}$', info.read_text(), re.M):
                return int(info.parts[2]), info.name
        except OSError:
            pass  # it has ended, or is another user's
    return None


def test_janitor_holds_nothing_of_the_callers(delivery):
    with delivery.start('--private', 'sh', '-c', 'echo up; read line', stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE) as run:
        assert run.stdout.readline() == b'up\n'
        folder = '4'  # the private folder, which the janitor has locked, as a sign that it will be removed
        until = time.monotonic() + 60  # it closes the caller's descriptors while the program runs
        while True:
            janitor, descriptor = janitor_of(run.pid)
            held = sorted(os.listdir(f'/proc/{janitor}/fd'))
            if held == sorted([descriptor, folder]) or time.monotonic() > until:
                break
        assert held == sorted([descriptor, folder])
        assert os.readlink(f'/proc/{janitor}/fd/{folder}').startswith('/dev/shm/weft-private-')
        assert os.readlink(f'/proc/{janitor}/cwd') == '/'
        assert os.getsid(janitor) == janitor
        run.stdin.close()
        assert run.wait(60) == 1


# As in a container: the program is process 1, or a child of that.
APART = ['unshare', '-r', '-p', '-f', '--kill-child']
needs_namespaces = pytest.mark.skipif(not namespaces(), reason='no namespaces for ordinary users')


@needs_namespaces
def test_private_pool_goes_with_process_1(delivery):
    """When process 1 ends, all processes of its namespace are killed."""
    script = 'echo $WEFT_POOL; echo x > $WEFT_POOL; sleep 60 & exit 3'
    done = delivery.plain(*APART, delivery.weft, 'run', '--private', '--', 'sh', '-c', script)
    assert (done.returncode, done.stderr) == (3, '')
    assert gone(os.path.dirname(done.stdout.strip()))
    died = delivery.plain(*APART, delivery.weft, 'run', '--private', '--', 'sh', '-c', 'kill -9 $$')
    assert died.returncode == 128 + signal.SIGKILL


@needs_namespaces
def test_process_1_passes_signals_on(delivery):
    script = 'trap "echo heard; exit 5" TERM; kill -TERM 1; sleep 10 & wait'
    done = delivery.plain(*APART, delivery.weft, 'run', '--private', '--', 'sh', '-c', script)
    assert (done.stdout, done.returncode) == ('heard\n', 5)


@needs_namespaces
def test_private_pool_that_was_left_goes_with_the_next(delivery):
    """Here a janitor was killed with its namespace, whose process ids mean nothing outside."""
    script = ('"$0" run --private -- sh -c "echo \\$WEFT_POOL; exec sleep 60" & '
              'until [ -n "$(ls /proc/[0-9]*/comm -d | xargs grep -l weft-janitor 2>/dev/null)" ]; do :; done; '
              'sleep 0.2; kill -9 $$; exit')
    done = delivery.plain(*APART, '--mount-proc', 'sh', '-c', script, delivery.weft)
    folder = os.path.dirname(done.stdout.strip())
    assert folder.startswith('/dev/shm/weft-private-') and os.path.exists(folder)
    with delivery.start('--private', 'sh', '-c', 'echo $WEFT_POOL; read line', stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE) as run:
        alive = os.path.dirname(run.stdout.readline().decode().strip())
        # a new folder may belong to another run that is just starting
        wait_for(lambda: delivery.run('--private', 'true').returncode or not os.path.exists(folder), 'it is gone')
        assert os.path.exists(alive)
        run.stdin.close()


@pytest.mark.skipif(not shutil.which('strace'), reason='needs strace')
def test_private_pool_that_is_opened_while_it_is_removed(delivery):
    """A child that outlives the program opens the pool while it is removed: it is removed again."""
    script = ('echo $WEFT_POOL; touch $WEFT_POOL; '
              '{ while [ -e $WEFT_POOL ]; do :; done; touch $WEFT_POOL; } 2>/dev/null &')
    slow = ['strace', '-f', '-o', '/dev/null', '-e', 'trace=rmdir', '-e', 'inject=rmdir:delay_enter=300000']
    done = delivery.plain(*slow, delivery.weft, 'run', '--private', '--', 'sh', '-c', script)
    if not done.stdout and 'ptrace' in done.stderr.lower():
        pytest.skip('strace is not allowed here')
    folder = os.path.dirname(done.stdout.strip())
    assert folder.startswith('/dev/shm/weft-private-') and gone(folder)


def test_incomplete_installation_is_named(delivery, tmp_path):
    alone = tmp_path / 'weft'
    shutil.copy2(delivery.weft, alone)
    assert refused(delivery.plain(alone, 'run', 'true', user=False), 125, 'libweft-shim.so')
    home = tmp_path / 'with:colon'  # laid out as a build folder
    (home / 'src/cli').mkdir(parents=True)
    for file in (delivery.weft, *delivery.libs.glob('lib*.so*')):
        if file.is_file():
            shutil.copy2(file, home)
    shutil.copy2(delivery.rdma, home / 'src/cli')
    assert refused(delivery.plain(home / 'weft', 'run', 'true', user=False), 125, 'without colons')
    (home / 'libibverbs.so.1').unlink()
    assert refused(delivery.plain(home / 'weft', 'run', 'true', user=False), 125, 'libibverbs.so.1')
