#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Measures what reliable connections over the pool promise, and exits 1 if a bound is missed.
Prints a table in Markdown; --readme writes it into README.md, --json all values of all rounds."""
import argparse
import json
import os
import re
import sys
from pathlib import Path

import measure

sys.path.insert(0, str(measure.ROOT / 'tools'))
import readme  # noqa: E402

FIGURES = [measure.WRITE_LAT, measure.SEND_LAT, measure.READ_LAT, measure.ATOMIC_LAT,
           measure.WRITE_BW, measure.WRITE_RATE, measure.SEND_RATE]


def table(rows):
    yield '| program | over Weft | limit | ratio | bound | |'
    yield '|---|---:|---:|---:|---|---|'
    for r in rows:
        limit = f"{measure.show(r['limit'], r['unit'])} ({r['limit_name']})" if r['limit'] else ''
        ratio = f"{r['ratio']:.2f}" if r['ratio'] else ''
        yield (f"| {r['name']} | {measure.show(r['value'], r['unit'])} | {limit} | {ratio} "
               f"| {r['bound']} | {'ok' if r['ok'] else 'MISSED'} |")


def where(rounds):
    """What the figures were measured on."""
    model = re.search(r'^model name\s*: (.*)', Path('/proc/cpuinfo').read_text(), re.M)
    release = '.'.join(os.uname().release.split('.')[:2])
    server, client = measure.cores()
    return (f'{model[1] if model else os.uname().machine}, {os.cpu_count()} cores, Linux {release}; '
            f'server on core {server}, client on core {client}; medians of {rounds} interleaved rounds.')


def noted():
    """What tests/speed holds to."""
    count = json.loads((measure.ROOT / 'bench/instructions.json').read_text())
    return (f'Instructions, counted: {count["post_write_8_bytes"]} to post an 8-byte WRITE, '
            f'{count["poll_completion"]} to poll a completion; `make check` fails at a tenth more.')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--json', type=Path)
    parser.add_argument('--readme', action='store_true')
    args = parser.parse_args()
    rows = measure.or_exit(FIGURES, args.rounds)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + '\n')
    print(*table(rows), sep='\n')
    if args.readme:
        readme.write('figures', [where(args.rounds), '', *table(rows), '', noted()])
    return 0 if all(r['ok'] for r in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
