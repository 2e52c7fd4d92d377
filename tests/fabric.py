# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Real programs on a fresh pool, as an ordinary user: what the tests of whole programs share.

A Fabric owns a pool file of its own. Programs run under `weft run --pool FILE --` as the user
nobody if the tests run as root, pinned, with a time-out. Program.done() raises Trouble unless the
program ended with status 0, wrote no error, and had Weft's libraries loaded and no others.
"""
import atexit
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(os.environ.get('WEFT_BUILD', Path(__file__).resolve().parent.parent / 'build'))
NOBODY = 65534
TIMEOUT_S = 60
ERROR_TEXT = re.compile(r'\berror|\bfail|could ?n.t|unable|cannot|segmentation|abort|^weft',
                        re.I | re.M)
VERBS_LIBRARY = re.compile(r'calling init: (\S*/lib(?:ibverbs|rdmacm)\.so\S*)')


class Trouble(AssertionError):
    """A program did not do what a working fabric lets it do; carries its output."""


def user_prefix():
    """The words that start a program as an ordinary user: root becomes nobody. WEFT_KEEP_USER is for
    runs that measure coverage."""
    if os.geteuid() != 0 or os.environ.get('WEFT_KEEP_USER'):
        return []
    return ['setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups',
            '--inh-caps=-all', '--']


def pinned(core):
    """The words that pin a program to the core-th core that we may use."""
    cores = sorted(os.sched_getaffinity(0))
    return ['taskset', '-c', str(cores[core % len(cores)])]


def free_port():
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]


def listening(port):
    """Whether a socket listens on the port, without connecting to it: servers accept once."""
    for table in ('/proc/net/tcp', '/proc/net/tcp6'):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == '0A' and int(fields[1].split(':')[1], 16) == port:
                return True
    return False


def wait_for(condition, what, seconds=TIMEOUT_S):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Trouble(f'{what}: not within {seconds} s')
        time.sleep(0.005)


@dataclass
class Done:
    status: int
    stdout: str
    stderr: str


class Program:
    """One running program. The loader's own log says which libraries it initialized, so that even
    a program of a millisecond is seen."""

    def __init__(self, fabric, argv, core, env):
        self.argv = [str(a) for a in argv]
        self.fabric = fabric
        self.logs = Path(tempfile.mkdtemp(dir=fabric.folder, prefix='program-'))
        self.logs.chmod(0o777)
        loader = ['env', 'LD_DEBUG=libs', f'LD_DEBUG_OUTPUT={self.logs / "loader"}']
        words = [*user_prefix(), *pinned(core), *loader, *fabric.run_words(), *self.argv]
        with open(self.logs / 'stdout', 'w') as out, open(self.logs / 'stderr', 'w') as err:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            cwd=fabric.folder, start_new_session=True,
                                            env={**fabric.env, **env})

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def output(self):
        out, err = ((self.logs / name).read_text(errors='replace') for name in ('stdout', 'stderr'))
        return Done(self.process.poll(), out, err)

    def libraries(self):
        """The verbs libraries that this program or its children loaded."""
        found = set()
        for log in self.logs.glob('loader.*'):
            found.update(VERBS_LIBRARY.findall(log.read_text(errors='replace')))
        return found

    def trouble(self, what):
        done = self.output()
        return Trouble(f'{" ".join(self.argv)}: {what}\n{done.stdout}\n{done.stderr}')

    def wait(self, seconds=TIMEOUT_S):
        """Ends with the program, whatever its status."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            trouble = self.trouble(f'still running after {seconds} s')
            self.kill()
            raise trouble from None
        return self.output()

    def done(self, seconds=TIMEOUT_S):
        """Waits, and holds the program to what a working fabric promises."""
        done = self.wait(seconds)
        if done.status != 0:
            raise self.trouble(f'status {done.status}')
        match = ERROR_TEXT.search(done.stdout + done.stderr)
        if match:
            raise self.trouble(f'wrote "{match[0]}"')
        libraries = self.libraries()
        foreign = {lib for lib in libraries if not self.fabric.owns(lib)}
        if foreign:
            raise self.trouble(f'loaded {", ".join(sorted(foreign))}')
        if not libraries:
            raise self.trouble('loaded no libibverbs at all')
        return done


@functools.cache
def installed():
    """An installation that an ordinary user may read, removed at exit: a build below somebody's home
    is closed to others. Not in /dev/shm, which is often mounted noexec."""
    folder = Path(tempfile.mkdtemp(prefix='weft-installed-'))
    atexit.register(shutil.rmtree, folder)
    folder.chmod(0o755)
    subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', folder],
                   check=True)
    return folder


class Fabric:
    """A pool of its own and the programs on it; a context manager that leaves nothing behind."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(dir='/dev/shm', prefix='weft-test-'))
        self.folder.chmod(0o777)
        self.pool = self.folder / 'pool'
        self.programs = []
        self.env = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
                    'HOME': str(self.folder), 'LANG': 'C.UTF-8'}
        self.home = installed() if user_prefix() else BUILD

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def program(self, name):
        """The path of a program of the tests or bench, where the user can run it."""
        folders = ('tests/programs', 'tests/cli', 'tests/differential', 'bench', 'examples')
        source = next(path for folder in folders
                      if (path := BUILD / folder / name).exists())
        copy = self.home / name
        return source if self.home == BUILD else copy if copy.exists() else shutil.copy2(source, copy)

    def owns(self, library):
        return Path(library).resolve().is_relative_to(self.home.resolve())

    def weft(self):
        return next(self.home.glob('**/bin/weft'), self.home / 'weft')

    def run_words(self):
        return [self.weft(), 'run', '--pool', self.pool, '--']

    def start(self, *argv, core=0, **env):
        program = Program(self, argv, core, env)
        self.programs.append(program)
        return program

    def run(self, *argv, core=0, seconds=TIMEOUT_S, **env):
        return self.start(*argv, core=core, **env).done(seconds)

    def pair(self, *argv, seconds=TIMEOUT_S):
        """Runs a client-server program with perftest's habits (-p PORT; the client gets the
        server's address). The outputs of server and client."""
        port = free_port()
        server = self.start(*argv, '-p', port, core=0)
        wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
        if server.process.poll() is not None:
            server.done()
        client = self.start(*argv, '-p', port, '127.0.0.1', core=1)
        try:
            return tuple(reversed((client.done(seconds), server.done(seconds))))
        except Trouble as trouble:
            server.kill()
            raise Trouble(f'{trouble}\n-- server\n{server.output()}') from None

    def info(self):
        """`weft info --json` of this pool."""
        words = [*user_prefix(), self.weft(), 'info', '--pool', self.pool, '--json']
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S)
        if done.returncode:
            raise Trouble(f'weft info: {done.returncode}\n{done.stdout}\n{done.stderr}')
        return json.loads(done.stdout)

    def totals(self):
        """What this pool has carried since it was made: the one place that knows the names."""
        return self.info()['totals']
