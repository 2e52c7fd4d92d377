# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's perftest over Weft, interleaved with the limits of this machine, on two pinned cores.

A round measures every limit and every figure once; what is reported are medians over rounds, and
ratios of medians. A latency is the mean of the middle half of perftest's own samples, in cycles: its
microseconds have two decimals only, and where the counter moves in steps of 10 ns, its median does,
too. perftest's MB/sec are MiB/s.
"""
import json
import os
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'tests'))
from fabric import BUILD, Fabric, Trouble  # noqa: E402  (the harness of the tests: it checks what it runs)

LATENCY, BANDWIDTH, RATE = 'ns', 'MiB/s', 'M/s'
COLUMN = {BANDWIDTH: 3, RATE: 4}


@dataclass(frozen=True)
class Figure:
    """One run of perftest, and what it is held against: a share of a limit, or a number."""
    program: str
    size: int
    unit: str
    options: tuple
    limit: str = ''        # 'line' or 'copy'
    at_most: float = None  # of figure / limit
    at_least: float = None  # of figure / limit; without a limit, of the figure

    @property
    def name(self):
        size = f'{self.size // 1024} KiB' if self.size >= 1024 else f'{self.size} B'
        return f'{self.program} {size}'


LAT = ('-C', '-U', '-n', '20000')
WRITE_LAT = Figure('ib_write_lat', 8, LATENCY, LAT, 'line', at_most=1.3)
SEND_LAT = Figure('ib_send_lat', 8, LATENCY, LAT, 'line', at_most=1.8)
READ_LAT = Figure('ib_read_lat', 8, LATENCY, LAT, 'line', at_most=0.5)
ATOMIC_LAT = Figure('ib_atomic_lat', 8, LATENCY, LAT, 'line', at_most=0.5)
WRITE_BW = Figure('ib_write_bw', 65536, BANDWIDTH, ('-N', '-n', '500000'), 'copy', at_least=0.85)
WRITE_RATE = Figure('ib_write_bw', 8, RATE, ('-N', '-n', '5000000'), at_least=25)
SEND_RATE = Figure('ib_send_bw', 8, RATE, ('-N', '-n', '1000000'), at_least=4)
LIMIT_NAMES = {'line': 'cache line, one way', 'copy': 'memcpy'}


def cores():
    """Two cores that we may use: the server's and the client's."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise SystemExit('two cores are needed: each side spins on its own')
    return usable[:2]


def reference(*argv):
    done = subprocess.run([BUILD / 'bench' / argv[0], *map(str, argv[1:])], check=True,
                          capture_output=True, text=True)
    return json.loads(done.stdout)


def limits():
    server, client = cores()
    line = reference('line', server, client)
    copy = reference('copy', client, WRITE_BW.size)
    return {'line': line['line_ns'], 'copy': copy['shared_mib_s'],
            'copy_private': copy['private_mib_s'], 'cycles_per_us': line['cycles_per_us']}


def middle_half(values):
    values = sorted(values)
    quarter = len(values) // 4
    return statistics.mean(values[quarter:len(values) - quarter])


def figure(fabric, wanted, cycles_per_us):
    """Runs the program once; the figure in its unit."""
    size = () if 'atomic' in wanted.program else ('-s', wanted.size)
    _, client = fabric.pair(wanted.program, '-F', *size, *wanted.options)
    row = re.search(rf'^\s*{wanted.size}\s+\d.*$', client.stdout, re.M)
    if not row:
        raise Trouble(f'{wanted.name}: no figure in\n{client.stdout}')
    if wanted.unit != LATENCY:
        return float(row[0].split()[COLUMN[wanted.unit]])
    samples = [float(x) for x in re.findall(r'^\d+, (\d[\d.]*)', client.stdout, re.M)]
    if len(samples) < 1000:
        raise Trouble(f'{wanted.name}: {len(samples)} samples')
    return middle_half(samples) * 1000 / cycles_per_us


def measure(figures, rounds):
    """A list of rows {name, unit, value, limit, ratio, bound, ok, values, limits}."""
    values = {f: [] for f in figures}
    bars = []
    with Fabric() as fabric:
        for number in range(rounds):
            bars.append(limits())
            for wanted in figures:
                progress(f'round {number + 1} of {rounds}: {wanted.name}')
                values[wanted].append(figure(fabric, wanted, bars[-1]['cycles_per_us']))
    progress('')
    return [judge(f, values[f], [bar[f.limit] for bar in bars] if f.limit else []) for f in figures]


def judge(wanted, values, bars):
    value = statistics.median(values)
    limit = statistics.median(bars) if bars else None
    judged = value / limit if limit else value
    ok = ((wanted.at_most is None or judged <= wanted.at_most)
          and (wanted.at_least is None or judged >= wanted.at_least))
    sign, bound = ('≤', wanted.at_most) if wanted.at_most else ('≥', wanted.at_least)
    return {'name': wanted.name, 'unit': wanted.unit, 'value': value,
            'limit': limit, 'limit_name': LIMIT_NAMES.get(wanted.limit),
            'ratio': judged if limit else None,
            'bound': f'{sign} {bound:g}{" ×" if limit else " " + wanted.unit}', 'ok': ok,
            'values': values, 'limits': bars}


def show(value, unit):
    if value is None:
        return ''
    if unit == BANDWIDTH:
        return f'{value / 1024:.1f} GiB/s'
    return f'{value:.0f} {unit}' if unit == LATENCY and value >= 100 else f'{value:.1f} {unit}'


def progress(text):
    """Progress on one line, where somebody watches."""
    if sys.stderr.isatty():
        print(f'\r\033[K{text}', end='', file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def or_exit(figures, rounds):
    """As measure(), but a program that does not run is told, not traced."""
    try:
        return measure(figures, rounds)
    except Trouble as trouble:
        raise SystemExit(f'\n{trouble}') from None
