#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks that src/nic, the transports and the engines of src/wire need nothing but what they are given: each
file compiles with the compiler's own headers, in frames of 2,048 bytes at most, as a kernel's stack is small;
together they ask for nothing but the four memory functions that a freestanding compiler may call anyway, since
machine, pool and api are tables (nic/machine.h, pool/pool.h); and they have no variable at file scope. Exits 77
while there is nothing to check."""
import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FRAME_BYTES = 2048
ALLOWED = {'memcpy', 'memset', 'memmove', 'memcmp'}


def compile_all(root, sources, folder):
    """The object files, or None if one does not compile."""
    headers = subprocess.run(['gcc', '-print-file-name=include'], check=True, text=True,
                             capture_output=True).stdout.strip()
    flags = ['-std=gnu17', '-O2', '-ffreestanding', '-nostdinc', '-isystem', headers,
             '-fno-stack-protector', '-fno-pie', '-fno-strict-aliasing', '-fvisibility=hidden', f'-I{root}/src',
             '-Wall', '-Wextra', '-Werror', '-Wno-unused-parameter',
             '-Wno-missing-field-initializers', f'-Wframe-larger-than={FRAME_BYTES}']
    objects = [folder / f'{source.parent.name}-{source.stem}.o' for source in sources]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = sum(pool.map(lambda source, target: subprocess.run(
            ['gcc', *flags, '-c', source, '-o', target], check=False).returncode, sources, objects))
    return None if failed else objects


def offences(objects, folder):
    """What the objects together use and do not define, and which of their variables are at file scope."""
    whole = folder / 'nic.whole'
    subprocess.run(['ld', '-r', '-o', whole, *objects], check=True)
    names = subprocess.run(['nm', '--format=posix', whole], check=True, text=True, capture_output=True).stdout
    for line in names.splitlines():
        name, kind = line.split()[:2]
        if kind in 'UwvWV' and name not in ALLOWED:
            yield f'asks for {name}, which is in none of their tables and not freestanding'
        if kind in 'bBdDCsSgG':
            yield f'has {name}, which is a variable at file scope'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    sources = sorted([*(root / 'src/nic').glob('*.c'), *(root / 'src/wire').glob('*/*.c'),
                      *(root / 'src/transport').rglob('*.c')])
    if not sources:
        return 77
    with tempfile.TemporaryDirectory() as name:
        objects = compile_all(root, sources, Path(name))
        if objects is None:
            return 1
        found = sorted(set(offences(objects, Path(name))))
    for offence in found:
        print(f'src/nic, src/transport or src/wire {offence}')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
