#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks that clang-format would leave each C file of the tree as it is (.clang-format), and names each
that it would not; exits 1 if any. `--mend` formats them instead. Other versions of it differ in small
things: where the one that the tree is formatted by is not installed, the check is skipped."""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = 14
BATCH = 40
FOLDERS = ('bench', 'examples', 'sim', 'src', 'tests')


def sources(root):
    for folder in FOLDERS:
        yield from sorted((root / folder).rglob('*.[ch]'))


def first_difference(path):
    """The line from which on clang-format would have it otherwise; 0: nowhere."""
    done = subprocess.run(['clang-format', path], capture_output=True, text=True, check=True)
    is_, ought = path.read_text().splitlines(), done.stdout.splitlines()
    if is_ == ought:
        return 0
    return next((i for i, (a, b) in enumerate(zip(is_, ought), 1) if a != b),
                min(len(is_), len(ought)) + 1)


def suspects(paths):
    """Those that clang-format would change: it takes longer to start than to read many files."""
    done = subprocess.run(['clang-format', '--dry-run', '--ferror-limit=1', *paths], capture_output=True, text=True,
                          check=True)
    named = set(re.findall(r'^(.*?):\d+:\d+: warning: ', done.stderr, re.M))
    return [path for path in paths if str(path) in named]


def installed():
    if not shutil.which('clang-format'):
        return 0
    said = subprocess.run(['clang-format', '--version'], capture_output=True, text=True, check=True)
    return int(re.search(r'version (\d+)', said.stdout)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument('--mend', action='store_true')
    args = parser.parse_args()
    if installed() != VERSION:
        print(f'check-format: clang-format {VERSION} is not installed')
        return 77
    found = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        files = list(sources(args.root.resolve()))
        batches = [files[i:i + BATCH] for i in range(0, len(files), BATCH)]
        files = [path for batch in pool.map(suspects, batches) for path in batch]
        for path, line in zip(files, pool.map(first_difference, files)):
            if line and args.mend:
                subprocess.run(['clang-format', '-i', path], check=True)
            elif line:
                print(f'{path.relative_to(args.root.resolve())}:{line}: out of format: '
                      'tools/check-format.py --mend')
                found = 1
    return found


if __name__ == '__main__':
    sys.exit(main())
