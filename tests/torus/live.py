# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A live torus of its own for a test, by an ordinary user, in a folder that is looked at afterwards."""
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from fabric import NOBODY, Fabric, user_prefix

TIMEOUT_S = 60


class Live:
    def __init__(self):
        self.fabric = Fabric()
        self.home = Path(tempfile.mkdtemp(prefix='weft-test-torus-', dir='/dev/shm'))
        if user_prefix():
            os.chown(self.home, NOBODY, NOBODY)
        self.env = {**self.fabric.env, 'WEFT_TORUS_HOME': str(self.home)}
        self.started = []

    def words(self, *words):
        return [*self.fabric.prefix, str(self.fabric.command), 'torus', *map(str, words)]

    def weft(self, *words, status=0):
        done = subprocess.run(self.words(*words), capture_output=True, text=True, check=False, env=self.env,
                              timeout=TIMEOUT_S, cwd='/')
        assert done.returncode == status, done
        return done.stdout + done.stderr

    def status(self):
        return json.loads(self.weft('status', '--json'))

    def pids(self):
        """The process number of each node's card."""
        return {node['node']: node['pid'] for node in self.status()['nodes']}

    def each(self, program, *words):
        return self.weft('run', '--each', '--', self.fabric.program(program), *words)

    def start(self, node, program, *words):
        process = subprocess.Popen(self.words('run', '--node', node, '--', self.fabric.program(program), *words),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.env, cwd='/')
        self.started.append(process)
        return process

    def end(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        for folder in self.home.iterdir():
            subprocess.run(self.words('down', '--name', folder.name.split('-')[-1]), env=self.env, check=False,
                           capture_output=True, timeout=TIMEOUT_S)
        self.home.rmdir()
        self.fabric.__exit__(None, None, None)


def is_running(pid):
    """Whether a thread of the process runs, and keeps its files open and locked: zombies do not, though the parent has not asked
    for their status."""
    for stat in Path('/proc').glob(f'{pid}/task/*/stat'):
        try:
            if stat.read_text().rsplit(')', 1)[1].split()[0] not in 'ZX':
                return True
        except (FileNotFoundError, ProcessLookupError):
            pass
    return False


def wait_until(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def kill(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)), 'killed cards are still there')
