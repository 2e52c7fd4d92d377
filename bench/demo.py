#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs Debian's own RDMA benchmarks between two processes over Weft and prints how near they come
to what this machine can do at all."""
import argparse

import measure

FIGURES = [measure.WRITE_LAT, measure.READ_LAT, measure.SEND_LAT, measure.WRITE_BW]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rounds', type=int, default=3)
    args = parser.parse_args()
    server, client = measure.cores()
    rows = measure.or_exit(FIGURES, args.rounds)
    print(f"\nDebian's perftest between two processes over Weft (cores {server} and {client}, "
          f'medians of {args.rounds} runs)\n')
    table = [('program', 'over Weft', "this machine's limit", '', 'ratio')]
    table += [(r['name'], measure.show(r['value'], r['unit']), measure.show(r['limit'], r['unit']),
               r['limit_name'], f"{r['ratio']:.2f}") for r in rows]
    widths = [max(len(row[i]) for row in table) for i in range(5)]
    for number, row in enumerate(table):
        cells = [row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2]),
                 row[3].ljust(widths[3]), row[4].rjust(widths[4])]
        print('  '.join(cells).rstrip())
        if number == 0:
            print('  '.join('-' * width for width in widths))


if __name__ == '__main__':
    main()
