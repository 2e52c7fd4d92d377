#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The time to set up a connection by librdmacm, beside TCP's in the same run (tests/programs/connects.c):
from its identifier or socket until both programs have it. Exits 1 if the bound is missed."""
import argparse
import json
import os
import statistics
import sys
from pathlib import Path

import measure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'tests'))
from fabric import Fabric  # noqa: E402  (it runs a program of the tests)

AT_MOST = 3  # times TCP's connect and accept
COUNT = 2000


def rounds(count):
    """The results of so many runs, on all cores that this process may use."""
    cores = ','.join(map(str, sorted(os.sched_getaffinity(0))))
    with Fabric() as fabric:
        for _ in range(count):
            done = fabric.run('taskset', '-c', cores, fabric.program('connects'), COUNT, 1)
            yield json.loads(done.stdout)


def ratio(result):
    return result['opening_ns'] / result['tcp_opening_ns']


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rounds', type=int, default=7)
    args = parser.parse_args()
    results = list(rounds(args.rounds))
    ours, tcp = (statistics.median(r[name] for r in results)
                 for name in ('opening_ns', 'tcp_opening_ns'))
    now = statistics.median(map(ratio, results))
    print(f'| connection set up | {measure.show(ours, measure.LATENCY)} '
          f'| {measure.show(tcp, measure.LATENCY)} (TCP, until accepted) | {now:.2f} '
          f'| ≤ {AT_MOST} × | {"ok" if now <= AT_MOST else "MISSED"} |')
    return 0 if now <= AT_MOST else 1


if __name__ == '__main__':
    sys.exit(main())
