# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Two hosts, each a network namespace and a pool of its own, joined by a veth; made as an ordinary user. What
`weft bench --wire` and the tests between hosts share."""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from pairs import Trouble, pinned, wait_for

PORT = 18515  # of pingpongs and perftest
HELD_S = 4 * 3600  # a namespace: for longer than the longest test
END_S = 5  # a card that has not ended by then is killed


def runs(pid):
    """Whether the process is there, and is more than what is left for its parent to see."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] not in 'ZX'
    except OSError:
        return False


class Host:
    def __init__(self, fabric, address, holder, enter, starts=lambda: None):
        self.fabric, self.address, self.holder, self.enter = fabric, address, holder, enter
        self.starts = starts  # called before each program

    def plain(self, *words):
        """The output of a program that runs on this host without Weft."""
        done = subprocess.run([*self.enter, *map(str, words)], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done
        return done.stdout

    def start(self, *argv, core=0, on_weft=True, **env):
        self.starts()
        return self.fabric.start(*self.enter[len(self.fabric.prefix):], *argv, core=core, on_weft=on_weft,
                                 **{'WEFT_NIC': 'on', **env})

    def nic(self, *words, core=None):
        """The status of `weft nic`, and what it says. A card that it starts stays on the core."""
        done = subprocess.run([*(pinned(core) if core is not None else []), *self.enter, self.fabric.weft(), 'nic', *words,
                               '--pool', self.fabric.pool], text=True, env=self.fabric.env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=60)
        return done.returncode, done.stdout

    def cards(self):
        status, said = self.nic('list', '--json')
        assert status == 0, said
        return [card for card in json.loads(said)['cards'] if card['alive']]

    def card(self):
        """The host's card; there must be one. Another that two programs have started at once ends when it finds the port taken."""
        if len(self.cards()) > 1:
            wait_for(lambda: len(self.cards()) == 1, 'the other card ends')
        [card] = self.cards()
        return card

    def listens(self, port=PORT):
        tables = [Path(f'/proc/{self.holder}/net/{name}').read_text() for name in ('tcp', 'tcp6')]
        return any(re.search(rf':{port:04X} \S+ 0A ', table) for table in tables)


class Hosts:
    def __init__(self, fabrics, mtu=9000):
        self.fabrics = fabrics
        self.told = [{}, {}]  # the last of each card, by process
        self.last = None  # what both have counted, if nothing was started since
        prefix = self.fabrics[0].prefix
        first = self.hold('unshare', '-rn')
        user = [*prefix, 'nsenter', '-t', str(first), '-U', '--preserve-credentials']
        second = self.hold(*user[len(prefix):], 'unshare', '-n')
        self.hosts = [Host(fabric, f'192.0.2.{i + 1}', holder,
                           [*user, '-n'] if i == 0 else [*user, 'nsenter', '-t', str(holder), '-n'], self.forget)
                      for i, (fabric, holder) in enumerate(zip(self.fabrics, (first, second)))]
        self.hosts[0].plain('ip', 'link', 'add', 'w0', 'mtu', mtu, 'type', 'veth', 'peer', 'name', 'w0', 'mtu', mtu,
                            'netns', second)
        for host in self.hosts:
            host.plain('ip', 'link', 'set', 'lo', 'up')
            host.plain('ip', 'address', 'add', f'{host.address}/24', 'dev', 'w0')
            host.plain('ip', 'link', 'set', 'w0', 'up')

    def hold(self, *words):
        """Begins a process that keeps the namespace that these words make; its number."""
        holder = self.fabrics[0].start(*words, 'sh', '-c', f'echo $$; exec sleep {HELD_S}', on_weft=False)
        wait_for(lambda: holder.output().stdout.strip() or holder.process.poll() is not None, 'a namespace')
        said = holder.output()
        if not said.stdout.strip():
            raise Trouble(f'no network namespace: {said.stderr}')
        return int(said.stdout)

    def forget(self):
        self.last = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        cards = [card['pid'] for host in self.hosts for card in host.cards()]
        for how in signal.SIGTERM, signal.SIGKILL:
            for card in filter(runs, cards):
                os.kill(card, how)
            deadline_s = time.monotonic() + END_S
            while any(map(runs, cards)) and time.monotonic() < deadline_s:
                time.sleep(0.002)
        for fabric in self.fabrics:
            fabric.__exit__()

    def pair(self, *argv, seconds=60, port=PORT, **env):
        """A server on the second host, its client on the first; the outputs of both, the client's first."""
        here, there = self.hosts
        server = there.start(*argv, core=0, **env)
        wait_for(lambda: there.listens(port) or server.process.poll() is not None, 'server listens')
        client = here.start(*argv, there.address, core=1, **env)
        try:
            return client.done(seconds), server.done(seconds)
        except Trouble as trouble:
            server.kill()
            raise Trouble(f'{trouble}\n-- server\n{server.output()}') from None

    def counts(self, host):
        """What the host's cards have counted, those included that have ended since the last look. Cards write their counts within
        a tenth of a second; where the machine has other work, later."""
        time.sleep(0.25)
        return self.look(host)

    def look(self, host):
        told = self.told[host]
        told.update((card['pid'], card) for card in self.hosts[host].cards())
        return {key: sum(card[key] for card in told.values()) for key in ('bytes_sent', 'bytes_received', 'wrong_icrc',
                                                                  'packets_sent', 'packets_received', 'unsent')}

    def counts_at_rest(self, host):
        """The same when no traffic is left: once two looks see the same."""
        seen = [self.counts(host), self.counts(host)]
        while seen[-1] != seen[-2]:
            seen.append(self.counts(host))
            assert len(seen) < 100, seen
        return seen[-1]

    def rest(self):
        """The same of both."""
        seen = []
        while not self.last:
            time.sleep(0.25)
            seen.append([self.look(0), self.look(1)])
            assert len(seen) < 100, seen
            if seen[-2:-1] == seen[-1:]:
                self.last = seen[-1]
        return self.last
