# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Weft in guests that share a memory: the build as installed, a pool in that memory, and programs over it. The guest of
number N is host N of the pool."""
import os
import subprocess
import time
from pathlib import Path

import vm

BUILD = Path(os.environ.get('WEFT_BUILD') or os.environ.get('BUILD') or vm.LAB.parent / 'build').resolve()
BEGINS_S, ENDS_S = 300, 600
UNTIMED = "Can't produce a report"  # perftest, where what it has measured of its processor's clock scatters, as on a busy machine
HEADER = 4096  # bytes
SILENCE_MS = 30000  # an emulated guest stands still for seconds where the machine has much to do


def timed(run):
    """Runs perftest; again, where it could not measure its clock."""
    def until_timed(*words, **options):
        end = time.monotonic() + BEGINS_S
        while True:
            try:
                return run(*words, **options)
            except vm.Trouble as trouble:
                if UNTIMED not in str(trouble) or time.monotonic() > end:
                    raise
    return until_timed


class Pooled(vm.Machines):
    silence_ms = SILENCE_MS
    ends_s = ENDS_S  # what a program may take

    def __init__(self, *args, bare=False, **options):
        super().__init__(*args, bare=bare, **options)
        self.bare = bare
        self.stay = []  # the programs by which the guests are hosts

    def __enter__(self):
        super().__enter__()
        try:
            print(f'-- {len(self.guests)} guests boot; their files: {self.folder}', flush=True)
            self.install()
            self.boot()
            if not self.bare:
                self.make(self.backing.options)
        except BaseException:
            self.close()
            raise
        return self

    def install(self):
        """Into the folder that each guest shares with us: other folders may be closed to its ordinary users."""
        for guest in self.guests:
            with vm.unbroken():  # one that is not waited for would write into a folder that is removed
                subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir',
                                guest.job / 'installed'], check=True)
        at = next((self.guests[0].job / 'installed').glob('**/bin/weft'))
        self.weft = Path('/run/job') / at.relative_to(self.guests[0].job)

    def make(self, options):
        """A pool that all guests are hosts of."""
        hosts = 1 << (len(self.guests) - 1).bit_length()
        self.guests[0].run(self.weft, 'pool', 'create', self.pool, '--hosts', hosts, '--silence', self.silence_ms, *options, root=True)
        for guest in self.guests:
            self.come(guest)
        self.await_hosts()

    def leave(self):
        """No program of theirs runs: the pool is a memory that nobody uses."""
        for host in self.stay:
            host.end()
        self.stay.clear()

    def unmake(self):
        self.leave()
        self.guests[0].run(self.weft, 'pool', 'rm', '--pool', self.pool, root=True)

    def make_anew(self, options):
        """Without its header that memory is of no pool at once; `weft pool rm` would listen first whether hosts of other kernels are silent."""
        self.leave()
        with open(self.memory, 'r+b') as memory:
            memory.write(bytes(HEADER))
        self.make(options)

    def come(self, guest):
        """A host of which no program runs does not answer: what the dead of the others have left would wait for it."""
        self.stay.append(guest.start(self.weft, 'host', 'up', '--host', guest.number, '--stay', WEFT_POOL=self.pool))

    def await_hosts(self):
        end = time.monotonic() + BEGINS_S
        while (said := self.guests[0].run(self.weft, 'host', '--json', WEFT_POOL=self.pool)).count('"up"') < len(self.guests):
            if time.monotonic() > end:
                raise vm.Trouble(f'not all hosts are up: {said}')

    def start(self, host, *words, **env):
        """Begins a program over Weft there. A client that comes before its server would look for it on the wire, too, and leave a
        card for a minute."""
        return self.guests[host].start(self.weft, 'run', '--', *words, **{'WEFT_POOL': self.pool, 'WEFT_NIC': 'off', **env})

    def await_listener(self, server, port, guest=None):
        end = time.monotonic() + BEGINS_S
        while not (guest or self.guests[0]).call('listens', port):
            if server.is_over() or time.monotonic() > end:
                raise vm.Trouble(f'no server listens: {server.line}\n{server.output()}')

    def meet(self, server, client, **env):
        """Ports of librdmacm are in no table of the kernel: the client tries until a program listens. What both have said."""
        listener, end, status = self.start(0, *server, **env), time.monotonic() + min(BEGINS_S, self.ends_s), 1
        try:
            while status:
                begun = self.start(1, *client, **env)
                try:
                    status, said = begun.wait(self.ends_s)
                finally:
                    begun.kill()
                if status and (listener.is_over() or time.monotonic() > end):
                    raise vm.Trouble(f'status {status}: {begun.line}\n{said}\n-- server\n{listener.output()}')
            return listener.done(self.ends_s), said
        finally:
            listener.kill()

    def serve(self, server, client, port, ends_s=None, **env):
        """The client in the second guest, when the server in the first one listens at a port of TCP; what both have said."""
        begun = [self.start(0, *server, **env)]
        try:
            self.await_listener(begun[0], port)
            begun.append(self.start(1, *client, **env))
            said = begun[1].done(ends_s or self.ends_s)
            return begun[0].done(self.ends_s), said
        except vm.Trouble as trouble:
            raise vm.Trouble(f'{trouble}\n-- server\n{begun[0].output()}') from None
        finally:
            for command in begun:
                command.kill()

    @timed
    def pair(self, *words, port=18515, **options):
        """The same program as both, of which the client is told the server's address."""
        words = [*words, '-p', port]
        return self.serve(words, [*words, self.guests[0].address], port, **options)
