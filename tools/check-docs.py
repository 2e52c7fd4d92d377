#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks that the pages say what is so: each relative link in README.md and docs/ leads to a file,
each file named in docs/tour.md is there, and each `function`, `struct` or `CONSTANT` named in it is
defined in a file that is named in the same row or paragraph. `_read` after `execute_write` stands for
`execute_read`. Verbs, which programs call, are not looked for."""
import argparse
import re
import sys
from pathlib import Path

TOUR = Path('docs/tour.md')
FILE = re.compile(r'[\w-]+/[\w/-]+\.[ch]\b')
NAMED = re.compile(r'`(struct \w+|[A-Za-z_][\w*]*)(?:\(\))?`')
PUBLIC = re.compile(r'(?:ibv|rdma)_')
LINK = re.compile(r'\]\(([^)#:\s]+)(?:#[^)]*)?\)')


def without_comments(text):
    return re.sub(r'//[^\n]*|/\*.*?\*/', '', text, flags=re.S)


def defines(code, name):
    """Whether code defines or declares the name: functions and objects stand in the first column."""
    if name.startswith('struct '):
        return re.search(rf'^(?:typedef )?{name} {{', code, re.M)
    word = re.escape(name).replace(r'\*', r'\w+')
    if name.isupper():
        return re.search(rf'\b{word}\b', code)
    return re.search(rf'^[A-Za-z_][^\n;=]*\b{word}\s*(?:[(=;[]|$)', code, re.M)


def spelled_out(names):
    """The names, `_read` after `execute_write` being `execute_read`."""
    last = ''
    for name in names:
        last = last.rsplit('_', 1)[0] + name if name.startswith('_') and last else name
        yield last


def blocks(text):
    """(line, text) of each row of a table and each paragraph."""
    start, lines = 0, []
    for number, line in enumerate(text.splitlines() + [''], 1):
        if lines and (not line.strip() or line.startswith(('|', '#'))):
            yield start, ' '.join(lines)
            lines = []
        if line.strip():
            start = start if lines else number
            lines.append(line)


def check_tour(root):
    text = (root / TOUR).read_text()
    for number, block in blocks(text):
        files = [Path('src', name.removeprefix('src/')) for name in FILE.findall(block)]
        for path in files:
            if not (root / path).exists():
                yield number, f'there is no {path}'
        code = [without_comments((root / p).read_text()) for p in files if (root / p).exists()]
        for name in spelled_out(NAMED.findall(block)):
            if not PUBLIC.match(name) and not any(defines(c, name) for c in code):
                yield number, f'{name} is in none of the files named beside it'


def check_links(root, path):
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        for target in LINK.findall(line):
            if not (root / path.parent / target).exists():
                yield number, f'there is no {target}'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    pages = [p.relative_to(root) for p in (root / 'README.md', *sorted(root.glob('docs/**/*.md')))]
    found = [(page, *offence) for page in pages for offence in check_links(root, page)]
    if (root / TOUR).exists():
        found += [(TOUR, *offence) for offence in check_tour(root)]
    for page, number, what in found:
        print(f'{page}:{number}: {what}')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
