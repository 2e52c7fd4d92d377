# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A pool of several hosts in a plain file. All of them are of this kernel, and each has a home of its own."""
import subprocess

from fabric import Fabric
from pairs import TIMEOUT_S, Trouble, free_port, listening, wait_for


def own_address():
    """One of this machine's addresses that is not the loopback's."""
    found = subprocess.run(['hostname', '-I'], capture_output=True, text=True, check=False).stdout
    return next((word for word in found.split() if ':' not in word), None)


ADDRESS = own_address()


class Hosts(Fabric):
    """Programs run on the host that `host` names; of a pair the server is on host 0 and the client on host 1."""

    def __init__(self, hosts=2, silence_ms=3000, atomics=True):
        super().__init__()
        self.pool = f'shm:{self.pool}'
        done = self.command_line('pool', 'create', self.pool, '--hosts', hosts,
                                 '--silence', silence_ms, *(['--atomics'] if atomics else []))
        assert (done.returncode, done.stdout, done.stderr) == (0, '', '')

    def __exit__(self, *args):
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
        done = self.command_line('pool', 'rm', '--pool', self.pool)
        super().__exit__(*args)
        # when a test has failed already, its failure counts, and not this one
        assert args[0] or not done.returncode, done.stderr

    def command_line(self, *words, **env):
        return subprocess.run([*self.prefix, self.command, *map(str, words)], check=False,
                              capture_output=True, text=True, timeout=TIMEOUT_S,
                              env={**self.env, **env})

    def start(self, *argv, host=0, **options):
        return super().start(*argv, WEFT_HOST=str(host), **options)

    def pair(self, *argv, seconds=TIMEOUT_S, ports=('-p', '-p'), address='127.0.0.1', **env):
        port = free_port()
        server = self.start(*argv, ports[0], port, host=0, core=0, **env)
        wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
        if server.process.poll() is not None:
            server.done()
        client = self.start(*argv, ports[1], port, address, host=1, core=1, **env)
        try:
            return tuple(reversed((client.done(seconds), server.done(seconds))))
        except Trouble as trouble:
            server.kill()
            raise Trouble(f'{trouble}\n-- server\n{server.output()}') from None


