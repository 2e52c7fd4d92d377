# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Real programs on a fresh pool: what `weft bench` and the tests of whole programs share.

A Fabric owns a pool file of its own. Programs run under `weft run --pool FILE --`, or beside Weft,
pinned, with a time-out. Program.done() raises Trouble unless the program ended with status 0, wrote no
error, and had Weft's libraries loaded and no others; beside Weft, none of them.
"""
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

TIMEOUT_S = 60
ERROR_TEXT = re.compile(r'\berror|\bfail|could ?n.t|unable|cannot|segmentation|abort|^weft',
                        re.I | re.M)
VERBS_LIBRARY = re.compile(r'calling init: (\S*/lib(?:ibverbs|rdmacm)\.so\S*)')


class Trouble(AssertionError):
    """A program did not do what a working fabric lets it do; carries its output."""


def pinned(core):
    """The words that pin a program to the core-th core that this process may use."""
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

    def __init__(self, fabric, argv, core, env, on_weft):
        self.argv = [str(a) for a in argv]
        self.fabric = fabric
        self.on_weft = on_weft
        self.logs = Path(tempfile.mkdtemp(dir=fabric.folder, prefix='program-'))
        self.logs.chmod(0o777)
        loader = ['env', 'LD_DEBUG=libs', f'LD_DEBUG_OUTPUT={self.logs / "loader"}']
        run = fabric.run_words() if on_weft else []
        words = [*fabric.prefix, *pinned(core), *loader, *run, *self.argv]
        with open(self.logs / 'stdout', 'w') as out, open(self.logs / 'stderr', 'w') as err:
            # A process group of its own in this session, as a shell's job: cards and programs share a session.
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            cwd=fabric.folder, process_group=0,
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
        """Returns when the program has ended, whatever its status."""
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
        wrong = {lib for lib in libraries if self.fabric.owns(lib) != self.on_weft}
        if wrong:
            raise self.trouble(f'loaded {", ".join(sorted(wrong))}')
        if self.on_weft and not libraries:
            raise self.trouble('loaded no libibverbs at all')
        return done


class Fabric:
    """A pool of its own and the programs on it; a context manager that leaves nothing behind. command is
    the program `weft`, home the folder below which its libraries lie; prefix starts each program."""

    def __init__(self, command, home, prefix=()):
        self.command, self.home, self.prefix = command, home, prefix
        self.folder = Path(tempfile.mkdtemp(dir='/dev/shm', prefix='weft-test-'))
        self.folder.chmod(0o777)
        self.pool = self.folder / 'pool'
        self.programs = []
        self.env = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
                    'HOME': str(self.folder), 'LANG': 'C.UTF-8', 'WEFT_NIC': 'off'}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def owns(self, library):
        return Path(library).resolve().is_relative_to(self.home.resolve())

    def weft(self):
        return self.command

    def run_words(self):
        return [self.command, 'run', '--pool', self.pool, '--']

    def start(self, *argv, core=0, on_weft=True, **env):
        program = Program(self, argv, core, env, on_weft)
        self.programs.append(program)
        return program

    def run(self, *argv, core=0, seconds=TIMEOUT_S, **env):
        return self.start(*argv, core=core, **env).done(seconds)

    def pair(self, *argv, seconds=TIMEOUT_S, ports=('-p', '-p'), on_weft=True, **env):
        """Runs a client-server program with perftest's habits: the client gets the server's address.
        ports are the options for the port, of the server and of the client. The outputs of both."""
        port = free_port()
        server = self.start(*argv, ports[0], port, core=0, on_weft=on_weft, **env)
        wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
        if server.process.poll() is not None:
            server.done()
        client = self.start(*argv, ports[1], port, '127.0.0.1', core=1, on_weft=on_weft, **env)
        try:
            return tuple(reversed((client.done(seconds), server.done(seconds))))
        except Trouble as trouble:
            server.kill()
            raise Trouble(f'{trouble}\n-- server\n{server.output()}') from None

    def info(self):
        """`weft info --json` of this pool."""
        words = [*self.prefix, self.command, 'info', '--pool', self.pool, '--json']
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S)
        if done.returncode:
            raise Trouble(f'weft info: {done.returncode}\n{done.stdout}\n{done.stderr}')
        return json.loads(done.stdout)

    def totals(self):
        """What this pool has carried since it was made: the one place that knows the names."""
        return self.info()['totals']
