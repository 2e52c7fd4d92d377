#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""against.py COMMIT: the latencies of this tree beside those of another commit, which it builds in a folder of its own:
medians of the ratios of interleaved pairs of runs, each pinned, the order changing from pair to pair. Exits 1 if one is
more than 3 % slower."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import measure
import tables
from pairs import Fabric

ROOT = Path(__file__).resolve().parent.parent
AT_MOST = 1.03
PROGRAMS = ['ib_write_lat', 'ib_send_lat', 'ib_read_lat']


def build(tree, folder):
    """The folder with `weft` of that tree; without its tests."""
    if not (folder / 'build.ninja').exists():
        subprocess.run(['meson', 'setup', '-Dtests=false', folder, tree], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(['ninja', '-C', folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def measured(fabric, program, count):
    """ns one way."""
    wanted = measure.Figure(program, 8, measure.LATENCY, measure.LAT, count)
    return measure.figure(fabric, wanted, measure.reference('line', *measure.cores())['cycles_per_us'])


def compare(ours, theirs, pairs, count):
    """{program: [(ours, theirs)]}"""
    taken = {program: [] for program in PROGRAMS}
    with Fabric(ours / 'weft', ours) as a, Fabric(theirs / 'weft', theirs) as b:
        for number in range(pairs):
            for program in PROGRAMS:
                order = (a, b) if number % 2 else (b, a)
                values = {fabric: measured(fabric, program, count) for fabric in order}
                taken[program].append((values[a], values[b]))
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('commit')
    parser.add_argument('--pairs', type=int, default=24)
    parser.add_argument('--count', type=int, default=20_000, help='samples of a run')
    parser.add_argument('--builds', type=Path, help='where the two builds stay, for the next time')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        builds = args.builds or Path(name)
        tree = builds.resolve() / 'tree'
        subprocess.run(['git', '-C', ROOT, 'worktree', 'add', '--quiet', '--detach', tree, args.commit], check=True)
        try:
            theirs = build(tree, builds / 'theirs')
            ours = build(ROOT, builds / 'ours')
            measure.HERE = ours / 'bench'
            taken = compare(ours, theirs, args.pairs, args.count)
        finally:
            subprocess.run(['git', '-C', ROOT, 'worktree', 'remove', '--force', tree], check=True)
    table, slower = [('8 bytes, one way', 'this tree', args.commit, 'ratio', 'bound', '')], False
    for program, values in taken.items():
        ratio = statistics.median(a / b for a, b in values)
        slower |= ratio > AT_MOST
        table.append((program, *(measure.show(statistics.median(v), measure.LATENCY) for v in zip(*values)),
                      f'{ratio:.3f}', f'≤ {AT_MOST:g} ×', 'MISSED' if ratio > AT_MOST else 'held'))
    print(*tables.plain(table), sep='\n')
    print(f'Medians of {args.pairs} interleaved pairs of runs, {args.count} samples each.')
    return 1 if slower else 0


if __name__ == '__main__':
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit('two cores are needed')
    sys.exit(main())
