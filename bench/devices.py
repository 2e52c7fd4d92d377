# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Verbs from and to memory of GPUs between two processes (gpu.c), in perftest's columns, each beside CUDA's own copy of the
same size, made just before it. On the tests' stand-in for a GPU the figures are told, too, but mean nothing."""
import json
import os

import measure
from measure import show_size
from pairs import Trouble

SIZES = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20]
QUICK_SIZES = [8, 64 << 10]
MS, QUICK_MS = 30, 2
SECONDS = 540
STANDIN = 'This is the stand-in for a GPU, which only tests use: its speeds mean nothing.'
COLUMNS = [('#bytes', None), ('#iterations', 'iterations'), ('t_min[usec]', 't_min'), ('t_max[usec]', 't_max'),
           ('t_typical[usec]', 't_typical'), ('t_avg[usec]', 't_avg'), ('t_stdev[usec]', 't_stdev'), ('99%[usec]', 't_99'),
           ('99.9%[usec]', 't_999'), ('BW average[MiB/sec]', 'mib_s'), ('MsgRate[Mpps]', 'mpps')]
NAMES = {'host': 'host', 'gpu': 'GPU', 'other gpu': 'other GPU'}


def take(fabric, sizes, milliseconds):
    """{gpu, gpus, cuda, standin, rows}: what gpu.c prints, of which Weft's own counters must tell, too."""
    env = {name: os.environ[name] for name in ('LD_LIBRARY_PATH', 'CUDA_VISIBLE_DEVICES') if name in os.environ}
    before = measure.carried(fabric)
    done = fabric.run(measure.HERE / 'gpu', ','.join(map(str, sizes)), milliseconds, seconds=SECONDS, **env)
    machine, *rows = map(json.loads, done.stdout.splitlines())
    grown = [now - then for now, then in zip(measure.carried(fabric), before)]
    wanted = [sum(row['iterations'] for row in rows),
              sum(row['iterations'] * row['size'] for row in rows if row['verb'] != 'atomic')]
    if not rows or grown[0] < wanted[0] or grown[1] < wanted[1]:
        raise Trouble(f'Weft carried {grown[0]} requests and {grown[1]} bytes, not the {wanted[0]} and {wanted[1]} '
                      'that were measured')
    for row in rows:
        row['ratio'] = row['mib_s'] / row['limit_mib_s'] if row.get('limit_mib_s') else None
    return {**machine, 'rows': rows}


def title(row):
    word = {'read': 'from'}.get(row['verb'], 'to')
    return f'{row["verb"].upper()}, {NAMES[row["from"]]} {word} {NAMES[row["to"]]}'


def groups(rows):
    """{(verb, from, to): its rows}, in order."""
    found = {}
    for row in rows:
        found.setdefault((row['verb'], row['from'], row['to']), []).append(row)
    return found


def number(value):
    return f'{value:,.0f}' if value >= 10000 else f'{value:.2f}' if value >= 0.1 or not value else f'{value:.4f}'


def table(rows):
    limit = rows[0].get('limit')
    beside = (f"{limit}'s copy[usec]", f'{limit}[MiB/sec]', 'ratio') if limit else ()
    yield (*(name for name, _ in COLUMNS), *beside)
    for row in rows:
        cells = (number(row[key]) if key != 'iterations' else str(row[key]) for _, key in COLUMNS[1:])
        figures = (number(row['limit_us']), number(row['limit_mib_s']), f'{row["ratio"]:.2f}') if limit else ()
        yield (show_size(row['size']), *cells, *figures)


def told(result, plain):
    """The lines of all tables."""
    yield f'{result["gpus"]} × {result["gpu"]}, CUDA {result["cuda"] // 1000}.{result["cuda"] % 1000 // 10}; two processes.'
    if result['standin']:
        yield STANDIN
    yield ('Times are from posting to completion of a request that is alone, bandwidths of 16 at a time; memory of the host lies in the '
           'pool.')
    if result['gpus'] < 2:
        yield 'The other GPU: there is none.'
    for rows in groups(result['rows']).values():
        yield from ('', title(rows[0]), '')
        yield from plain(list(table(rows)))


def panels(result, plot):
    """Rows of panels for plot.svg: one a verb, of bandwidth, and CUDA's copies in the same."""
    drawn = []
    for verb in ('write', 'read', 'send'):
        curves = {}
        for (which, one, two), rows in groups(result['rows']).items():
            if which != verb:
                continue
            curves[f'{NAMES[one]}, {NAMES[two]}'] = {row['size']: row['mib_s'] for row in rows}
            if one != 'host' and two != 'host' or (one, two) == ('host', 'gpu'):
                curves[f'{rows[0]["limit"]}: {NAMES[one]}, {NAMES[two]}'] = {r['size']: r['limit_mib_s'] for r in rows}
        drawn.append(plot.Panel(verb.upper() + (' (stand-in)' if result['standin'] else ''), curves, show_size,
                                lambda value: measure.show(value, measure.BANDWIDTH)))
    return [drawn]
