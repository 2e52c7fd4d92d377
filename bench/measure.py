# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's perftest over Weft, and the limits of this machine that it is held against.

A latency is the mean of the middle half of perftest's own samples, in cycles: its microseconds have two
decimals only, and where the counter moves in steps of 10 ns, its median does, too. perftest's MB/sec are
MiB/s. A figure counts only if Weft's own counters moved by what was measured.
"""
import contextlib
import json
import os
import re
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pairs import Trouble

HERE = Path(__file__).resolve().parent  # with the programs of this folder beside it, as built or installed

LATENCY, BANDWIDTH, RATE = 'ns', 'MiB/s', 'M/s'
COLUMN = {BANDWIDTH: 3, RATE: 4}


@dataclass(frozen=True)
class Figure:
    """One run of perftest, and what it is held against: a share of a limit, or a number."""
    program: str
    size: int
    unit: str
    options: tuple
    count: int
    limit: str = ''        # 'line' or 'copy'
    at_most: float = None  # of figure / limit
    at_least: float = None  # of figure / limit; without a limit, of the figure

    @property
    def name(self):
        return f'{self.program} {show_size(self.size)}'


def show_size(size):
    for unit, bytes_of in (('MiB', 1 << 20), ('KiB', 1 << 10)):
        if size >= bytes_of and size % bytes_of == 0:
            return f'{size // bytes_of} {unit}'
    return f'{size} B'


LAT, BW = ('-C', '-U'), ('-N',)
WRITE_BW = Figure('ib_write_bw', 65536, BANDWIDTH, BW, 500_000, 'copy', at_least=0.85)
FIGURES = [Figure('ib_write_lat', 8, LATENCY, LAT, 20_000, 'line', at_most=1.3),
           Figure('ib_send_lat', 8, LATENCY, LAT, 20_000, 'line', at_most=1.8),
           Figure('ib_read_lat', 8, LATENCY, LAT, 20_000, 'line', at_most=0.5),
           Figure('ib_atomic_lat', 8, LATENCY, LAT, 20_000, 'line', at_most=0.5),
           WRITE_BW,
           Figure('ib_write_bw', 8, RATE, BW, 5_000_000, at_least=25),
           Figure('ib_send_bw', 8, RATE, BW, 1_000_000, at_least=4)]
LIMIT_NAMES = {'line': 'cache line, one way', 'copy': 'memcpy'}


def cores():
    """Two cores that this process may use: the server's and the client's."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise SystemExit('two cores are needed: each side spins on its own')
    return usable[:2]


def reference(*argv):
    done = subprocess.run([HERE / argv[0], *map(str, argv[1:])], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def line():
    """{line_ns, cycles_per_us}: a cache line passed one way between the two cores."""
    return reference('line', *cores())


def limits():
    now = line()
    copy = reference('copy', cores()[1], WRITE_BW.size)
    return {'line': now['line_ns'], 'copy': copy['shared_mib_s'], 'cycles_per_us': now['cycles_per_us']}


def carried(fabric):
    """How many requests, and bytes, the pool has carried since it was made."""
    totals = fabric.totals() if fabric.pool.exists() else {}
    return tuple(sum(n for name, n in totals.items() if name.startswith(kind))
                 for kind in ('ops_', 'bytes_'))


@contextlib.contextmanager
def carrying(fabric, what, requests, volume):
    """A context: what is done in it has to go through Weft, at least so much by its own counters."""
    before = carried(fabric)
    yield
    grown = [now - then for now, then in zip(carried(fabric), before)]
    if grown[0] < requests or grown[1] < volume:
        raise Trouble(f'{what}: Weft carried {grown[0]} requests and {grown[1]} bytes, not the {requests} '
                      f'and {volume} that were measured')


def middle_half(values):
    values = sorted(values)
    quarter = len(values) // 4
    return statistics.mean(values[quarter:len(values) - quarter])


def figure(fabric, wanted, cycles_per_us):
    """Runs the program once; the figure in its unit."""
    atomic = 'atomic' in wanted.program
    size = () if atomic else ('-s', wanted.size)
    with carrying(fabric, wanted.name, wanted.count, 0 if atomic else wanted.count * wanted.size):
        _, client = fabric.pair(wanted.program, '-F', *size, *wanted.options, '-n', wanted.count)
    row = re.search(rf'^\s*{wanted.size}\s+\d.*$', client.stdout, re.M)
    if not row:
        raise Trouble(f'{wanted.name}: no figure in\n{client.stdout}')
    if wanted.unit != LATENCY:
        return float(row[0].split()[COLUMN[wanted.unit]])
    samples = [float(x) for x in re.findall(r'^\d+, (\d[\d.]*)', client.stdout, re.M)]
    if len(samples) < wanted.count // 2:
        raise Trouble(f'{wanted.name}: {len(samples)} samples')
    return middle_half(samples) * 1000 / cycles_per_us


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
        return f'{value / 1024:.1f} GiB/s' if value >= 1024 else f'{value:.0f} MiB/s'
    if unit == LATENCY and value >= 9999.5:
        return f'{value / 1000:.1f} µs'
    return f'{value:.0f} {unit}' if unit == LATENCY and value >= 99.95 else f'{value:.1f} {unit}'
