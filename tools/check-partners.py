#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks the functions that comments of src name: where one says `in NAME (FILE)`, FILE defines NAME; and
where it names the partner of an acquire, release, fence or barrier, that function has one: by `in NAME
(FILE)`, or `in NAME` of the same file, or of any if it begins with weft_. Prints each offence as
file:line: what; exits 1 if any."""
import argparse
import re
import sys
from pathlib import Path

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.S)
MARGIN = re.compile(r'\s*\n\s*(?:\*(?!/))?\s*')
NAMED = re.compile(r'(?:\b(acquire|release|fence|barrier)s? )?'
                   r'\bin (\w+)(?:\(\))?(?: \(([\w/]+\.[ch])\))?')
# What a function may have in place of an acquire or a release, as it is both.
STRONGER = r'|memory_order_(?:acq_rel|seq_cst)|weft_pool_barrier\('
ORDER = {'acquire': 'memory_order_acquire', 'release': 'memory_order_release',
         'fence': r'atomic_\w+_fence\(', 'barrier': r'atomic_thread_fence\('}


def bodies(text, name):
    """The definitions of the function: several where #if chooses among them."""
    return [m[0] for m in re.finditer(
        rf'^[A-Za-z_][^\n;={{}}]*\b{name}\([^;{{]*\)\s*\n?\{{.*?^\}}', text, re.M | re.S)]


def look(path, texts):
    text = texts[path]
    for comment in COMMENT.finditer(text):
        line = text.count('\n', 0, comment.start()) + 1
        for kind, name, file in NAMED.findall(MARGIN.sub(' ', comment[0])):
            if not kind and not file:
                continue
            found = [body for other, code in texts.items() for body in bodies(code, name)
                     if (f'/{other}'.endswith(f'/{file}') if file else
                         other == path or name.startswith('weft_'))]
            if not found:
                yield line, f'{name} is in no such file'
            elif kind and not any(re.search(ORDER[kind] + STRONGER, body) for body in found):
                yield line, f'{name} has no {kind}'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    texts = {p.relative_to(root): p.read_text() for p in sorted(root.glob('src/**/*.[ch]'))}
    found = [(path, *offence) for path in texts for offence in look(path, texts)]
    for path, line, what in found:
        print(f'{path}:{line}: {what}')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
