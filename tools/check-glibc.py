#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks that Weft needs no function that glibc 2.31 lacks.

Without arguments it looks in the build folder for functions that are newer than 2.31; a list (MOVED) names those that
only moved into libc, or lost their inline form, since then. With --no-newer FOLDER it refuses any symbol version above
2.31 in the programs of that folder, a release, as the loader would."""
import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

FLOOR = (2, 31)
IMPORTED = re.compile(r'\*UND\*.*?\(?GLIBC_(2(?:\.\d+)+)\)?\s+(\S+)$')
# 2.32 to 2.34 gave these to libc, from libpthread and libdl, or from headers.
MOVED = re.compile(r'pthread_\w+|sem_\w+|dl(open|sym|vsym|addr|close|error|iterate_phdr)'
                   r'|[fl]?stat(64)?|fstatat(64)?|mknod(at)?|__libc_start_main')


def is_elf(path):
    with path.open('rb') as file:
        return file.read(4) == b'\x7fELF'


def newer(path):
    """The symbols above the floor that a binary imports: (version, name)."""
    table = subprocess.run(['objdump', '-T', path], check=True, capture_output=True, text=True).stdout
    found = [match.groups() for line in table.splitlines() if (match := IMPORTED.search(line))]
    if not found:
        raise SystemExit(f'{path} imports nothing of glibc: is it a program of ours?')
    return [(version, name) for version, name in found
            if tuple(map(int, version.split('.'))) > FLOOR]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--no-newer', type=Path, metavar='FOLDER')
    release = parser.parse_args().no_newer
    if release:
        binaries = [p for p in sorted(release.rglob('*')) if p.is_file() and not p.is_symlink() and is_elf(p)]
    else:
        build = Path(os.environ.get('WEFT_BUILD', Path(__file__).resolve().parent.parent / 'build'))
        binaries = [build / name for name in ('weft', 'libibverbs.so.1', 'librdmacm.so.1',
                                              'libweft-shim.so', 'src/cli/rdma')]
    if not binaries:
        raise SystemExit(f'no programs in {release}')
    bad = 0
    for path in binaries:
        for version, name in newer(path):
            if release or not MOVED.fullmatch(name):
                print(f'{path}: {name} needs glibc {version}')
                bad += 1
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
