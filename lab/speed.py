# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""How fast requests are from guest to guest, each figure beside what it is held against, in interleaved rounds of one run: the same
program between two processes of one guest, a line that bounces between the guests, a copy within the window, the same program over a
pool without atomics, and Soft-RoCE over the guests' network. The guests are emulated where there is no KVM: instructions are most of what a latency is there."""
import collections
import math
import re
import shutil
import statistics

import pooled
import vm

ROUNDS = 3
LATENCY = ['-n', 20000]
BANDWIDTH = ['-n', 20000, '-s', 65536]  # the first hundreds are those of an emulator that learns
ASKED = ['-n', 10]  # of the owner's engine, where the pool has no atomics
PLAIN = '_plain'
SOFT_LATENCY, SOFT_BANDWIDTH = ['-n', 30, '-s', 64], ['-n', 10, '-s', 65536]
FILE = '/dev/shm/weft-one-guest'  # a pool of one host
PORT, GID_OF_IPV4 = 18521, 1

# `found` and `beside` name figures; the ratio is bounded from above, or from below where `least`. None: it is only told.
Bound = collections.namedtuple('Bound', 'what found beside bound least', defaults=(False,))
BOUNDS = [
    Bound('ib_write_lat, 8 B: between two processes of one guest', 'write_lat', 'write_lat_near', 1.5),
    Bound('ib_send_lat, 8 B: between two processes of one guest', 'send_lat', 'send_lat_near', 1.6),
    Bound('ib_write_lat, 8 B: a line of the window, one way', 'write_lat', 'line', 15),
    Bound('ib_write_bw, 64 KiB: a copy within the window', 'write_bw', 'copy', 0.8, True),
    Bound('ib_write_lat, 8 B, without atomics: with', 'write_lat_plain', 'write_lat', 1.05),
    Bound('ib_send_lat, 8 B, without atomics: with', 'send_lat_plain', 'send_lat', 1.05),
    Bound('ib_write_bw, 64 KiB, without atomics: with', 'write_bw_plain', 'write_bw', 0.95, True),
    Bound('ib_atomic_lat, without atomics: with', 'atomic_lat_plain', 'atomic_lat', None),
    Bound('ib_send_lat --use-srq, 8 B, without atomics: with', 'srq_lat_plain', 'srq_lat', None),
    Bound('ib_send_lat -c UD, 8 B, without atomics: with', 'ud_lat_plain', 'ud_lat', None),
    Bound('ib_write_lat, 64 B: Soft-RoCE between the guests', 'write_lat_64', 'soft_lat', 1 / 30),
    Bound('ib_write_bw, 64 KiB: Soft-RoCE between the guests', 'write_bw', 'soft_bw', 20, True),
]
UNITS = {'lat': 'us', 'bw': 'MB/s', 'line': 'us', 'copy': 'MB/s'}


def figure(said):
    """Of perftest's last line: a latency's t_typical, a bandwidth's average. Now and then perftest finds a clock of 0 MHz, and so no end."""
    columns = re.findall(r'^ +\d+ +\d+ .*$', said, re.M)[-1].split()
    return float(columns[4] if 't_typical' in said else columns[3])


def number(said):
    return float(re.search(r'\t([\d.]+) ', said)[1])


class Measured:
    """Guests whose pool is left when all of Weft was measured: what comes then writes into the window."""

    def __init__(self, machines):
        self.machines, self.figures = machines, collections.defaultdict(list)
        for guest in machines.guests[:2]:
            shutil.copy(pooled.BUILD / 'lab/facts', guest.job)

    def near(self, *words):
        """Between two processes of the first guest; the other one stands still."""
        guest, argv = self.machines.guests[0], [self.machines.weft, 'run', '--pool', FILE, '--', *words, '-p', PORT]
        with self.machines.guests[1].paused():
            return self.between([(guest, argv), (guest, [*argv, '127.0.0.1'])], WEFT_NIC='off')

    def soft(self, *words):
        """Over rdma_rxe, by the guests' own libibverbs."""
        server, client = self.machines.guests[:2]
        argv = [*words, '-x', GID_OF_IPV4, '-p', PORT]
        return self.between([(server, argv), (client, [*argv, server.address])], root=True)

    @pooled.timed
    def between(self, sides, **options):
        (server, words), (client, argv) = sides
        listener = server.start(*words, **options)
        try:
            self.machines.await_listener(listener, PORT, server)
            said = client.start(*argv, **options).done(vm.COMMAND_S)
            listener.done(vm.COMMAND_S)
            return said
        finally:
            listener.kill()

    def add(self, name, run, *words):
        """Adds what the client says."""
        value = math.inf
        while not math.isfinite(value):
            said = run(*words)
            value = figure(said if isinstance(said, str) else said[1])
        self.figures[name].append(value)

    def reliable(self, pool=''):
        for verb in ('write', 'send'):
            self.add(f'{verb}_lat{pool}', self.machines.pair, f'ib_{verb}_lat', *LATENCY, '-s', 8)
        self.add(f'write_bw{pool}', self.machines.pair, 'ib_write_bw', *BANDWIDTH)

    def asking(self, pool=''):
        """What asks the owner's engine where the pool has no atomics."""
        self.add(f'atomic_lat{pool}', self.machines.pair, 'ib_atomic_lat', *ASKED)
        self.add(f'srq_lat{pool}', self.machines.pair, 'ib_send_lat', *ASKED, '-s', 8, '--use-srq')
        self.add(f'ud_lat{pool}', self.machines.pair, 'ib_send_lat', *ASKED, '-s', 8, '-c', 'UD')

    def within_a_guest(self):
        for verb in ('write', 'send'):
            self.add(f'{verb}_lat_near', self.near, f'ib_{verb}_lat', *LATENCY, '-s', 8)

    def plain(self):
        """On a pool without atomics, between rounds with."""
        self.machines.make_anew([])
        for _ in range(ROUNDS - 1):
            self.reliable(PLAIN)
        self.asking(PLAIN)
        self.machines.make_anew(self.machines.backing.options)

    def window(self):
        """Writes where the pool was."""
        (asking, answering), path = self.machines.guests[:2], self.machines.backing.path
        back = answering.start('/run/job/facts', 'back', path)
        self.figures['line'].append(number(asking.run('/run/job/facts', 'bounce', path)))
        back.done(vm.COMMAND_S)
        self.figures['copy'].append(number(asking.run('/run/job/facts', 'copy', path)))

    def soft_roce(self):
        self.add('soft_lat', self.soft, 'ib_write_lat', *SOFT_LATENCY)
        self.add('soft_bw', self.soft, 'ib_write_bw', *SOFT_BANDWIDTH)

    def all(self):
        for each in range(ROUNDS):
            self.reliable()
            if each:
                self.within_a_guest()
            else:
                self.add('write_lat_64', self.machines.pair, 'ib_write_lat', *LATENCY, '-s', 64)
                self.asking()
                self.plain()
        self.machines.leave()
        for guest in self.machines.guests[:2]:
            guest.run('sh', '-c', 'modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0', root=True)
        for _ in range(ROUNDS):
            self.window()
        self.soft_roce()  # once: it takes half a minute, and is slower by a thousand
        return {name: statistics.median(values) for name, values in self.figures.items()}


def holds(bound, ratio, by=1):
    """Whether the ratio misses its bound by less than so many times."""
    return bound.bound is None or (ratio * by >= bound.bound if bound.least else ratio <= bound.bound * by)


def judged(figures):
    """[(the bound, its ratio)]"""
    return [(bound, figures[bound.found] / figures[bound.beside]) for bound in BOUNDS]


def table(figures):
    unit = {name: next(text for end, text in UNITS.items() if end in name) for name in figures}
    lines = []
    for bound, ratio in judged(figures):
        pair = ' : '.join(f'{figures[name]:.2f} {unit[name]}' for name in (bound.found, bound.beside))
        asked = bound.bound and f' ({">=" if bound.least else "<="} {bound.bound:.3g}) {"held" if holds(bound, ratio) else "missed"}'
        lines.append(f'{bound.what:58} {pair:30} {ratio:8.3g}{asked or ""}')
    return '\n'.join(lines)
