# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs between two hosts: perftest over Weft and its cards beside iperf3 and qperf over TCP, in turn, through one veth
between two network namespaces. Each side, its program and its card, has a core of its own; with six cores programs and
cards have one each."""
import contextlib
import json
import re
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path

from pairs import Fabric, Trouble, wait_for
from veth import Hosts

MTUS = 9000, 1500
MANY = 6     # cores from which on the harder bounds hold
MESSAGE = 64 << 10
MESSAGES, QUICK_MESSAGES = 6000, 1000
PINGPONGS, QUICK_PINGPONGS = 5000, 500
SMALL, QUICK_SMALL = 400_000, 40_000
DEPTH = '-t', 256, '-Q', 16  # requests under way; completions asked for each 16th
IPERF_PORT, QPERF_PORT = 5201, 19765
FOUR = 3     # index of the GID of the IPv4 address


@dataclass(frozen=True)
class Figure:
    """What is measured, and its bounds: with few cores, and with many."""
    key: str
    name: str
    theirs: str
    unit: str
    at_least: tuple = ()
    at_most: tuple = ()
    absolute: bool = False  # the bounds are of the figure, not of its ratio


FIGURES = [Figure('bandwidth 9000', 'ib_write_bw 64 KiB, MTU 9000', 'iperf3', 'MB/s', at_least=(0.4, 0.75)),
           Figure('bandwidth 1500', 'ib_write_bw 64 KiB, MTU 1500', 'iperf3', 'MB/s', at_least=(0.3, 0.6)),
           Figure('processor 9000', 'both cards, ib_send_bw -e, MTU 9000', "iperf3's two", 's/GB', at_most=(2.5, 2)),
           Figure('processor 1500', 'both cards, ib_send_bw -e, MTU 1500', "iperf3's two", 's/GB', at_most=(2.5, 2)),
           Figure('latency', 'ib_write_lat 8 B, one way', "qperf's tcp_lat", 'µs', at_most=(2, 0.8)),
           Figure('rate', 'ib_write_bw 8 B -t 256 -Q 16', '', 'M/s', at_least=(0.7, 1.5), absolute=True)]


class Wire:
    """Two hosts with their cards."""

    def __init__(self, hosts, spread):
        self.hosts, self.spread = hosts, spread
        self.client, self.server = hosts.hosts
        for host, core in ((self.server, 0), (self.client, 1)):
            status, said = host.nic('up', host.address, core=core + 2 if spread else core)
            if status:
                raise Trouble(f'weft nic up {host.address}: {said}')
        self.pids = [host.card()['pid'] for host in hosts.hosts]

    def processor_s(self):
        """What both cards have taken of it, in seconds."""
        return sum(int(task.read_text().split()[0]) for pid in self.pids
                   for task in Path(f'/proc/{pid}/task').glob('*/schedstat')) / 1e9

    @contextlib.contextmanager
    def carrying(self, what, volume):
        """A context: so many bytes have to go through the cards in it."""
        before = self.hosts.rest()
        yield
        moved = [{key: value - was[key] for key, value in now.items()}
                 for was, now in zip(before, self.hosts.rest())]
        if moved[0]['bytes_sent'] < volume or moved[1]['bytes_received'] < volume or moved[1]['wrong_icrc']:
            raise Trouble(f'{what}: the cards counted {moved}, not {volume} bytes')

    def perftest(self, program, size, count, *more):
        """The words of the row that the client prints."""
        volume = size * count
        with self.carrying(program, volume):
            client, _ = self.hosts.pair(program, '-F', '-x', FOUR, '-s', size, '-n', count, *more)
        row = re.search(rf'^\s*{size}\s+{count}\s.*$', client.stdout, re.M)
        if not row:
            raise Trouble(f'{program}: no figure in\n{client.stdout}')
        return row[0].split()

    def bandwidth(self, count):
        """MB/s; perftest's MB are MiB."""
        return float(self.perftest('ib_write_bw', MESSAGE, count)[3]) * (1 << 20) / 1e6

    def processor(self, count):
        """Seconds of both cards for a GB, of programs that sleep."""
        before = self.processor_s()
        self.perftest('ib_send_bw', MESSAGE, count, '-e')
        return (self.processor_s() - before) / (MESSAGE * count) * 1e9

    def latency(self, count):
        """µs one way: the mean."""
        return float(self.perftest('ib_write_lat', 8, count)[5])

    def rate(self, count):
        """Million messages a second."""
        return float(self.perftest('ib_write_bw', 8, count, *DEPTH)[4])

    @contextlib.contextmanager
    def serving(self, port, *argv):
        program = self.server.start(*argv, core=0, on_weft=False)
        wait_for(lambda: self.server.listens(port) or program.process.poll() is not None, f'{argv[0]} listens')
        try:
            yield
        finally:
            program.kill()

    def iperf(self, seconds):
        """MB/s of one stream, and the seconds of both processes for a GB."""
        with self.serving(IPERF_PORT, 'iperf3', '-s', '-1'):
            done = self.client.start('iperf3', '-c', self.server.address, '-t', seconds, '-J', core=1, on_weft=False).wait()
        if done.status:
            raise Trouble(f'iperf3: {done.stdout}{done.stderr}')
        end = json.loads(done.stdout)['end']
        moved, used = end['sum_received'], end['cpu_utilization_percent']
        share = (used['host_total'] + used['remote_total']) / 100
        return moved['bytes'] / moved['seconds'] / 1e6, share * moved['seconds'] / moved['bytes'] * 1e9

    def tcp_lat(self):
        """µs one way."""
        with self.serving(QPERF_PORT, 'qperf'):
            out = self.client.start('qperf', self.server.address, '-t', 1, '-m', 8, 'tcp_lat', core=1,
                                    on_weft=False).done().stdout
        found = re.search(r'latency\s*=\s*([\d.]+) (us|ms)', out)
        if not found:
            raise Trouble(f'qperf: no latency in\n{out}')
        return float(found[1]) * (1000 if found[2] == 'ms' else 1)


def missing():
    """Programs that are not installed."""
    return [name for name in ('ib_write_bw', 'ib_write_lat', 'iperf3', 'qperf', 'nsenter', 'ip') if not shutil.which(name)]


def round_of(wires, quick, progress):
    """{key: (ours, theirs)}"""
    taken = {}
    count, seconds = (QUICK_MESSAGES, 1) if quick else (MESSAGES, 2)
    for mtu, wire in wires.items():
        progress(f'bandwidth, MTU {mtu}')
        ours = wire.bandwidth(count)
        theirs, theirs_s = wire.iperf(seconds)
        taken[f'bandwidth {mtu}'] = ours, theirs
        progress(f'processor time, MTU {mtu}')
        taken[f'processor {mtu}'] = wire.processor(count), theirs_s
    wire = wires[MTUS[0]]
    progress('latency')
    taken['latency'] = wire.latency(QUICK_PINGPONGS if quick else PINGPONGS), wire.tcp_lat()
    progress('rate')
    taken['rate'] = wire.rate(QUICK_SMALL if quick else SMALL), None
    return taken


def judge(figure, pairs, many, quick):
    ours, theirs = map(list, zip(*pairs))
    ratio = statistics.median(ours if figure.absolute else [a / b for a, b in pairs])
    least, most = (bounds and bounds[many] for bounds in (figure.at_least, figure.at_most))
    ok = ratio >= least if least else ratio <= most
    return {'key': figure.key, 'name': figure.name, 'theirs': figure.theirs, 'unit': figure.unit,
            'value': statistics.median(ours), 'limit': None if figure.absolute else statistics.median(theirs),
            'ratio': None if figure.absolute else ratio,
            'bound': f'{"≥" if least else "≤"} {least or most:g} {figure.unit if figure.absolute else "×"}',
            'ok': None if quick else ok, 'values': ours, 'limits': [] if figure.absolute else theirs}


def show(value, unit):
    return '' if value is None else f'{value:,.0f} {unit}' if value >= 99.95 else f'{value:.2f} {unit}'


def table(results):
    yield ('between two hosts', 'over Weft', 'TCP', '', 'ratio', 'bound', '')
    for r in results:
        yield (r['name'], show(r['value'], r['unit']), show(r['limit'], r['unit']), r['theirs'],
               f'{r["ratio"]:.2f}' if r['ratio'] else '', r['bound'], {True: 'held', False: 'MISSED', None: ''}[r['ok']])


def take(command, home, count, quick, cores, progress):
    """The rows of so many rounds."""
    if missing():
        raise Trouble(f'not installed: {", ".join(missing())}')
    many = cores >= MANY
    rounds = []
    with contextlib.ExitStack() as stack:
        wires = {mtu: Wire(stack.enter_context(Hosts([Fabric(command, home), Fabric(command, home)], mtu)), many)
                 for mtu in MTUS}
        for number in range(count):
            rounds.append(round_of(wires, quick, lambda text, n=number: progress(f'round {n + 1} of {count}: {text}')))
    progress('')
    return [judge(figure, [r[figure.key] for r in rounds], many, quick) for figure in FIGURES]
