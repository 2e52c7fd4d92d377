#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Measures what reliable connections over the pool promise, and exits 1 if a bound is missed.
Prints a table in Markdown; --json writes all values of all rounds."""
import argparse
import json
import sys
from pathlib import Path

import measure

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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--json', type=Path)
    args = parser.parse_args()
    rows = measure.or_exit(FIGURES, args.rounds)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + '\n')
    print(*table(rows), sep='\n')
    return 0 if all(r['ok'] for r in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
