#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks that README.md and the pages in docs/ name what is there: links lead to files, each .c, .h and
.py that is named exists, with its folder or alone, each `weft_function`, `struct` or `WEFT_CONSTANT` is defined in src/. In
docs/tour.md every `name` is defined in a file that is named in the same row or paragraph, and `_read`
after `execute_write` stands for `execute_read`. Verbs, which programs call, are not looked for. Rows of a
table stand together, below its heading. The pages and the manual name roles, and no persons (PERSON)."""
import argparse
import re
import sys
from pathlib import Path

# But for the rule itself, which quotes them, and for people: users.
PERSON = re.compile(r'(?<![\w"])(?<![Pp]eople )(?:[Ww]ho|[Ww]hoever|[Ww]hom|[Hh]e|[Hh]is|[Hh]im)(?![\w"])')
ROW_OF_DASHES = re.compile(r'\|(?: *:?-+:? *\|)+\s*$')
TOUR = Path('docs/tour.md')
FILE = re.compile(r'[\w-]+/[\w/-]+\.(?:[ch]|py)\b')
ALONE = re.compile(r'(?<![\w/.*-])([a-z][a-z0-9_-]*\.(?:[ch]|py))\b')
FOREIGN = {'foo.c', 'fcntl.h', 'stdio.h', 'unistd.h'}  # an example, and headers of the system
FOLDERS = ('abi', 'bench', 'examples', 'lab', 'sim', 'src', 'tests', 'tools')
NAMED = re.compile(r'`(struct \w+|[A-Za-z_][\w*]*)(?:\(\))?`')
PUBLIC = re.compile(r'(?:ibv|rdma)_')
OURS = re.compile(r'struct weft_|weft_(?!NAME|foo)|WEFT_')
WHOLE_LINK = re.compile(r'\[[^]]*\]\([^)]*\)')
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


def check_names(root, page):
    tour = page == TOUR
    sources = [] if tour else sorted(root.glob('src/**/*.[ch]'))
    everything = [without_comments(p.read_text()) for p in sources]
    alone = FOREIGN.union(p.name for folder in FOLDERS for p in (root / folder).rglob('*.*'))
    for number, block in blocks((root / page).read_text()):
        code = list(everything)
        for name in FILE.findall(WHOLE_LINK.sub('', block)):
            path = next((p for p in (root / 'src' / name, root / name) if p.is_file()), None)
            if not path:
                yield number, f'there is no {name}'
            elif tour:
                code.append(without_comments(path.read_text()))
        for name in ALONE.findall(WHOLE_LINK.sub('', block)):
            if name not in alone:
                yield number, f'there is no {name}'
        for name in spelled_out(NAMED.findall(block)):
            if PUBLIC.match(name) if tour else not OURS.match(name):
                continue
            if not any(defines(c, name) for c in code):
                where = 'none of the files named beside it' if tour else 'no file of src'
                yield number, f'{name} is in {where}'


def check_links(root, path):
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        for target in LINK.findall(line):
            if not (root / path.parent / target).exists():
                yield number, f'there is no {target}'


def check_tables(root, path):
    lines, fenced = (root / path).read_text().splitlines(), False
    for number, line in enumerate(lines, 1):
        fenced ^= line.startswith('```')
        begins = line.startswith('|') and (number == 1 or not lines[number - 2].startswith('|'))
        if begins and not fenced and not ROW_OF_DASHES.match((*lines, '')[number]):
            yield number, 'the row is in no table'


def check_persons(root, path):
    for number, line in enumerate((root / path).read_text().split('\n'), 1):
        for match in PERSON.finditer(line):
            yield number, f'says "{match[0]}": name the role'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    pages = [p.relative_to(root) for p in (root / 'README.md', *sorted(root.glob('docs/**/*.md')))]
    found = [(page, *offence) for page in pages
             for check in (check_links, check_names, check_tables) for offence in check(root, page)]
    manual = sorted(p.relative_to(root) for p in root.glob('man/weft*'))
    found += [(page, *offence) for page in (*pages, *manual) for offence in check_persons(root, page)]
    for page, number, what in found:
        print(f'{page}:{number}: {what}')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
