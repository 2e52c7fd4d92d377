# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What `weft bench` runs: bench.py WEFT [OPTION…], WEFT being the path of `weft`. A round takes every measurement
once, those that are compared one after the other; what is told are medians over rounds, and medians of the
rounds' ratios. Exits 1 if Weft misses a bound or a program over Weft fails."""
import argparse
import json
import os
import re
import signal
import statistics
import sys
from pathlib import Path

import devices
import measure
import peers
import plot
import sleepers
import tables
import torus
import wired
from measure import LATENCY
from pairs import Fabric, Trouble
from tables import UNITS

LIMITS = 'limits'
SIZES = [8, 256, 4 << 10, 64 << 10, 1 << 20]
QUICK_SIZES = [8, 64 << 10]
MOVED = 1.5  # a cache line that takes so many times as long as before: the machine has moved the cores
TRIES = 3    # how often a comparison is made until the cores stay where they are


def usage_error(message):
    print(f'weft bench: {message}\nTry `weft bench --help`.', file=sys.stderr)
    raise SystemExit(2)


def size_of(word):
    found = re.fullmatch(r'(\d+)([KM]?)', word)
    size = int(found[1]) << {'': 0, 'K': 10, 'M': 20}[found[2]] if found else 0
    if not 8 <= size <= 64 << 20:
        usage_error(f"'{word}' is no size from 8 to 64M")
    return size


def options(argv):
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.error = usage_error
    parser.add_argument('--rounds', type=int)
    parser.add_argument('--sizes')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--events', action='store_true')
    parser.add_argument('--gpu', action='store_true')
    parser.add_argument('--torus', action='store_true')
    parser.add_argument('--wire', action='store_true')
    parser.add_argument('--only')
    parser.add_argument('--json', nargs='?', const='-')
    parser.add_argument('--svg', type=Path)
    args = parser.parse_args(argv)
    args.sizes_given, args.only_given = args.sizes, args.only
    args.only = args.only or ','.join([LIMITS, *peers.OPERATIONS])
    if args.gpu and (args.events or args.wire or args.torus or args.only_given or args.rounds is not None):
        usage_error('--gpu takes --sizes, --quick, --json and --svg only')
    if args.rounds is None:
        args.rounds = 1 if args.quick else 5
    if args.rounds < 1:
        usage_error('--rounds takes a number from 1 on')
    known, quick = (devices.SIZES, devices.QUICK_SIZES) if args.gpu else (SIZES, QUICK_SIZES)
    args.sizes = (sorted({size_of(word) for word in args.sizes.split(',')}) if args.sizes
                  else quick if args.quick else known)
    args.only = args.only.split(',')
    for name in args.only:
        if name != LIMITS and name not in peers.OPERATIONS:
            usage_error(f"--only takes {LIMITS}, {', '.join(peers.OPERATIONS)}, not '{name}'")
    alone = [name for name in ('events', 'wire', 'torus') if getattr(args, name)]
    if alone and (args.svg or args.sizes_given or args.only_given or len(alone) > 1):
        usage_error(f'--{alone[0]} takes --rounds, --quick and --json only')
    if args.svg and args.only == [LIMITS]:
        usage_error(f'--svg draws {", ".join(peers.OPERATIONS)}')
    for path in (path for path in (args.json, args.svg) if path and path != '-'):
        try:  # before minutes of measuring
            with open(path, 'a', encoding='utf-8'):
                pass
        except OSError as trouble:
            usage_error(f'{path}: {trouble.strerror}')
    return args


def progress(text):
    """Progress on one line, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f'\r\033[K{text}', end='', file=sys.stderr, flush=True)


def moved(lines):
    return max(lines) > MOVED * min(lines)


class Run:
    """All measurements, each a list with a value for each round."""

    def __init__(self, args):
        self.args = args
        self.missing = {peer.name: peer.missing() for peer in peers.PEERS}
        self.lines, self.bars, self.unsteady = [], [], 0
        self.figures = {f: [] for f in measure.FIGURES
                        if LIMITS in args.only and not self.missing['verbs']}
        self.curves = {(operation, unit, peer): {size: [] for size in args.sizes}
                       for operation in peers.OPERATIONS if operation in args.only
                       for unit in UNITS
                       for peer in peers.PEERS if (operation, unit) in peer.programs}

    def take(self, fabric):
        if not self.figures and all(self.missing[peer.name] for _, _, peer in self.curves):
            raise Trouble('; '.join(sorted({why for why in self.missing.values() if why})))
        for number in range(self.args.rounds):
            self.round(fabric, f'round {number + 1} of {self.args.rounds}')
        self.lines.append(measure.line()['line_ns'])
        progress('')

    def round(self, fabric, which):
        bar = measure.limits()
        self.bars.append(bar)
        self.lines.append(bar['line'])
        for wanted, values in self.figures.items():
            progress(f'{which}: {wanted.name}')
            values.append(measure.figure(fabric, wanted, bar['cycles_per_us']))
        for operation, unit in dict.fromkeys((o, u) for o, u, _ in self.curves):
            what = f'{which}: {operation}, {UNITS[unit]}'
            for peer, taken in self.steadily(fabric, operation, unit, bar['cycles_per_us'], what).items():
                for size, value in taken.items():
                    self.curves[operation, unit, peer][size].append(value)

    def steadily(self, fabric, operation, unit, cycles_per_us, what):
        """{peer: {size: value}}, taken again where the cache line took another time afterwards."""
        for _ in range(TRIES):
            before = measure.line()['line_ns']
            taken = {}
            for peer in (p for o, u, p in self.curves if (o, u) == (operation, unit)):
                progress(f'{what}: {peer.title}')
                taken[peer] = self.one(fabric, operation, unit, peer, cycles_per_us)
            self.lines += [before, measure.line()['line_ns']]
            if not moved(self.lines[-2:]):
                return taken
        self.unsteady += 1
        return taken

    def one(self, fabric, operation, unit, peer, cycles_per_us):
        """What the peer measures; a failure over Weft ends all, one beside Weft is only told."""
        if self.missing[peer.name]:
            return {}
        try:
            return peer.run(fabric, operation, unit, self.args.sizes, cycles_per_us)
        except Trouble as trouble:
            if peer.on_weft:
                raise
            self.missing[peer.name] = 'failed: ' + str(trouble).splitlines()[0]
            return {}

    def values(self, operation, unit, peer, size):
        """None where it was not measured in each round."""
        values = self.curves.get((operation, unit, peer), {}).get(size, [])
        return values if len(values) == self.args.rounds else None

    def ratios(self):
        """UCX over Weft beside UCX over its own shared memory: a row with the ratio for each size."""
        for operation, unit in dict.fromkeys((o, u) for o, u, _ in self.curves):
            for size in self.args.sizes:
                ours, own = (self.values(operation, unit, p, size) for p in (peers.WEFT_UCX, peers.OWN_UCX))
                if not ours or not own:
                    continue
                pairs = zip(ours, own) if unit == LATENCY else zip(own, ours)
                ratio = statistics.median(a / b for a, b in pairs)
                at_most = peers.AT_MOST[operation] if unit == LATENCY else None
                yield {'operation': operation, 'unit': unit, 'size': size, 'ratio': ratio,
                       'bound': f'≤ {at_most:g} ×' if at_most else '',
                       'ok': ratio <= at_most if at_most and not self.args.quick else None}

    def result(self):
        rows = [measure.judge(f, values, [bar[f.limit] for bar in self.bars] if f.limit else [])
                for f, values in self.figures.items()]
        for row in rows if self.args.quick else []:
            row['ok'] = None
        line = {'median': statistics.median(self.lines), 'values': self.lines,
                'moved': moved(self.lines), 'unsteady': self.unsteady}
        return {'machine': machine(), 'rounds': self.args.rounds, 'quick': self.args.quick,
                'sizes': self.args.sizes, 'line_ns': line,
                'peers': [{'name': p.name, 'title': p.title, 'on_weft': p.on_weft,
                           'missing': self.missing[p.name]} for p in peers.PEERS],
                'limits': rows,
                'curves': [{'operation': operation, 'unit': unit, 'peer': peer.name,
                            'program': peer.programs[operation, unit],
                            'points': [{'size': size, 'value': statistics.median(taken), 'values': taken}
                                       for size, taken in values.items() if len(taken) == self.args.rounds]}
                           for (operation, unit, peer), values in self.curves.items()],
                'bounds': list(self.ratios())}


def machine():
    model = re.search(r'^model name\s*: (.*)', Path('/proc/cpuinfo').read_text(), re.M)
    server, client = measure.cores()
    return {'processor': model[1] if model else os.uname().machine, 'cores': os.cpu_count(),
            'linux': '.'.join(os.uname().release.split('.')[:2]), 'server_core': server,
            'client_core': client}


def draw(result, path):
    titles = {peer['name']: peer['title'] for peer in result['peers']}
    rows = []
    for unit in UNITS:
        row = []
        for operation, name in peers.OPERATIONS.items():
            curves = {titles[c['peer']]: {p['size']: p['value'] for p in c['points']}
                      for c in result['curves']
                      if (c['operation'], c['unit']) == (operation, unit) and c['points']}
            if curves:
                row.append(plot.Panel(f'{name}: {UNITS[unit]}', curves, measure.show_size,
                                      lambda value, unit=unit: measure.show(value, unit)))
        rows.append(row)
    path.write_text(plot.svg(rows))


def asleep(fabric, args):
    """The table of programs that sleep."""
    result = {'machine': machine(), 'rounds': args.rounds, 'quick': args.quick,
              'events': sleepers.take(fabric, args.rounds, args.quick, progress)}
    return result, [tables.where(result), '', 'Programs that sleep', '',
                    *tables.plain(list(sleepers.table(result['events'])))]


def on_gpus(fabric, args):
    """The tables of memory of GPUs."""
    result = devices.take(fabric, args.sizes, devices.QUICK_MS if args.quick else devices.MS)
    if args.svg:
        args.svg.write_text(plot.svg(devices.panels(result, plot)))
    return result, devices.told(result, tables.plain)


def on_torus(fabric, args):
    """The table of a live torus."""
    result = {'machine': machine(), 'rounds': args.rounds, 'quick': args.quick,
              'payload': torus.take_shares(fabric, args.quick, progress),
              'torus': torus.take(fabric, args.rounds, args.quick, progress)}
    return result, [tables.where(result), '', 'A torus of 2×2×2 nodes', '', *tables.plain(list(torus.table(result['torus']))),
                    '', 'What of a cable is payload: one word of 128 bits to 256 in a packet, all beats counted at the far end', '',
                    *tables.plain(list(torus.share_table(result['payload'])))]


def wire(fabric, args):
    """The table of programs between two hosts."""
    result = {'machine': machine(), 'rounds': args.rounds, 'quick': args.quick,
              'wire': wired.take(fabric.command, fabric.home, args.rounds, args.quick, len(os.sched_getaffinity(0)),
                                 progress)}
    return result, [tables.where(result), '', 'Programs between two hosts', '',
                    *tables.plain(list(wired.table(result['wire'])))]


def awake(fabric, args):
    run = Run(args)
    run.take(fabric)
    result = run.result()
    if args.svg:
        draw(result, args.svg)
    return result, tables.everything(result)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing is left behind
    args = options(sys.argv[2:])
    try:
        with Fabric(Path(sys.argv[1]), measure.HERE.parent) as fabric:
            how = (asleep if args.events else wire if args.wire else on_torus if args.torus else on_gpus if args.gpu
                   else awake)
            result, told = how(fabric, args)
        text = json.dumps(result, indent=1, ensure_ascii=False)
        if args.json == '-':
            print(text)
        elif args.json:
            Path(args.json).write_text(text + '\n')
        if args.json != '-':
            print(*told, sep='\n')
    except KeyboardInterrupt:
        return 130
    except (Trouble, OSError) as trouble:
        print(f'weft bench: {trouble}', file=sys.stderr)
        return 1
    judged = [row['ok'] for name in ('limits', 'bounds', 'events', 'torus', 'payload', 'wire') for row in result.get(name, [])]
    return 1 if False in judged else 0


if __name__ == '__main__':
    sys.exit(main())
