#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks that src/nic, the transports and the engines of src/wire need no C library: each file compiles
with nothing but the compiler's own headers, and together they ask for nothing but Weft's own functions and the
four memory functions that a freestanding compiler may call anyway. Exits 77 while there is nothing
to check."""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ALLOWED = {'memcpy', 'memset', 'memmove', 'memcmp', '_GLOBAL_OFFSET_TABLE_'}


def compile_all(root, sources, folder):
    """The object files, or None if one does not compile."""
    headers = subprocess.run(['gcc', '-print-file-name=include'], check=True, text=True,
                             capture_output=True).stdout.strip()
    flags = ['-std=gnu17', '-O2', '-ffreestanding', '-nostdinc', '-isystem', headers,
             '-fno-stack-protector', '-fno-strict-aliasing', '-fvisibility=hidden', f'-I{root}/src',
             '-Wall', '-Wextra', '-Werror', '-Wno-unused-parameter',
             '-Wno-missing-field-initializers']
    objects = [folder / f'{source.parent.name}-{source.stem}.o' for source in sources]
    for source, target in zip(sources, objects):
        if subprocess.run(['gcc', *flags, '-c', source, '-o', target], check=False).returncode:
            return None
    return objects


def undefined(objects, folder):
    """The names that the objects together do not define."""
    whole = folder / 'nic.whole'
    subprocess.run(['ld', '-r', '-o', whole, *objects], check=True)
    names = subprocess.run(['nm', '-u', '--format=just-symbols', whole], check=True, text=True,
                           capture_output=True).stdout
    return set(names.split())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    sources = sorted([*(root / 'src/nic').glob('*.c'), *(root / 'src/wire').glob('*/*.c'),
                      *(root / 'src/transport').glob('*/*.c')])
    if not sources:
        return 77
    with tempfile.TemporaryDirectory() as name:
        objects = compile_all(root, sources, Path(name))
        if objects is None:
            return 1
        foreign = {n for n in undefined(objects, Path(name))
                   if n not in ALLOWED and not n.startswith('weft_')}
    for name in sorted(foreign):
        print(f'src/nic, src/transport or src/wire asks for {name}, which is neither Weft\'s nor freestanding')
    return 1 if foreign else 0


if __name__ == '__main__':
    sys.exit(main())
