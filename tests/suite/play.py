#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs rdma-core's own tests (Debian's python3-pyverbs and rdma-core) on a device, and prints a table:
test, result (pass, skip, fail), reason. Tests of one vendor's cards and of CUDA are left out. Lines
that begin with # say what they ran on."""
import argparse
import gzip
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SUITE = Path('/usr/share/doc/rdma-core/tests')
FOREIGN = re.compile(r'test_(mlx5|efa|cuda)')
SECONDS = 60  # a limit for each test, so that one that waits for ever does not end the table


class TooLong(Exception):
    pass


def too_long(*_):
    raise TooLong(f'still running after {SECONDS} s')


def last_line(text):
    return (text.strip().splitlines() or [''])[-1].replace('\t', ' ')


class Table(unittest.TestResult):
    """Prints one line for each test."""

    def __init__(self):
        super().__init__()
        self.stream = os.fdopen(os.dup(1), 'w')
        os.dup2(2, 1)  # the suite prints, too

    def print(self, *cells):
        print(*cells, sep='\t', file=self.stream, flush=True)

    def startTest(self, test):
        super().startTest(test)
        random.seed(test.id())  # the suite chooses among the addresses of the device
        print(test.id(), file=sys.stderr, flush=True)
        self.outcome = ('pass', '')
        signal.alarm(SECONDS)

    def stopTest(self, test):
        signal.alarm(0)
        self.print(test.id().removeprefix('tests.'), *self.outcome)

    def addSkip(self, test, reason):
        self.outcome = ('skip', last_line(reason))

    def addFailure(self, test, err):
        self.outcome = ('fail', last_line(f'{err[0].__name__}: {err[1]}'))

    addError = addFailure


def unpack(folder):
    """A copy of the suite as a package that can be imported."""
    shutil.copytree(SUITE, folder)
    for packed in folder.glob('*.gz'):
        packed.with_suffix('').write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()


def version(package):
    return subprocess.run(['dpkg-query', '-W', '-f', '${Version}', package], check=True,
                          capture_output=True, text=True).stdout


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument('--dev', required=True)
    options.add_argument('--only', default='', help='tests whose name has this pattern')
    args = options.parse_args()
    table = Table()
    table.print(f'# device {args.dev}, Linux {os.uname().release}, rdma-core {version("rdma-core")}')
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, 'tests')
        unpack(folder)
        sys.path[:0] = [work, str(folder)]
        sys.dont_write_bytecode = True
        from args_parser import parser
        sys.argv[1:] = ['--dev', args.dev]
        parser.parse_args()
        names = sorted(p.stem for p in folder.glob('test_*.py') if not FOREIGN.match(p.stem))
        signal.signal(signal.SIGALRM, too_long)
        for name in names:
            try:
                cases = unittest.defaultTestLoader.loadTestsFromName(f'tests.{name}')
            except ImportError as failure:
                table.print(name, 'fail', last_line(str(failure)))
                continue
            for case in (case for group in cases for case in group):
                if re.search(args.only, case.id()):
                    unittest.TestSuite([case]).run(table)


if __name__ == '__main__':
    main()
