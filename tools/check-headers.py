#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks what headers and names may not become: a header of formats, or of objects (COUNTED), has at most 250 lines and
reaches at most 40 of the .c files of src, by itself or through others; the name of a function, or of a type of
ours, stands for one thing, and is not defined in several files. What is above that today stands in tools/debts.tsv with its
number, and no number may grow: `--settle` writes the smaller ones down. Prints each offence; `--figures`
prints what there is. Exits 1 if any."""
import argparse
import collections
import re
import sys
from pathlib import Path

LINES, FILES = 250, 40
COUNTED = re.compile(r'(?:^|/)(?:format\w*|packet)\.h$|^nic/(?:ah|cq|limits|mr|mw|nic|qp|queues|srq|wqe)\.h$|^verbs/\w+\.h$')
# A line each: lines, files or names; the header or name; how many there are.
DEBTS = Path(__file__).resolve().parent / 'debts.tsv'
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
DEFINED = re.compile(r'^[A-Za-z_](?:__attribute__\(\([^\n]*?\)\)|[^\n;=(])*?\b(\w+)\([^;{]*\)\s*\n\{', re.M)
TYPE = re.compile(r'^((?:struct|union|enum) weft_\w+) \{', re.M)


def reached(root):
    """{header: the .c files that include it, by themselves or through others}"""
    texts = {str(p.relative_to(root / 'src')): p.read_text() for p in (root / 'src').rglob('*.[ch]')}
    included = {path: {name for name in INCLUDE.findall(text) if name in texts}
                for path, text in texts.items()}
    found = collections.defaultdict(set)
    for path in texts:
        if path.endswith('.c'):
            todo, seen = [path], set()
            while todo:
                for name in included[todo.pop()] - seen:
                    seen.add(name)
                    todo.append(name)
            for name in seen:
                found[name].add(path)
    return texts, found


def names(texts):
    defined = collections.defaultdict(set)
    for path, text in texts.items():
        for name in (DEFINED.findall(text) if path.endswith('.c') else []) + TYPE.findall(text):
            defined[name].add(path)
    return {name: sorted(paths) for name, paths in defined.items() if len(paths) > 1 and name not in ('main', '__attribute__')}


def measured(root):
    """{(what, of what): (how many, how many there may be, where)}, of all that is above its bound."""
    texts, reach = reached(root)
    for header in sorted(h for h in texts if COUNTED.search(h)):
        yield ('lines', header), texts[header].count('\n'), LINES, f'src/{header}:1'
        yield ('files', header), len(reach[header]), FILES, f'src/{header}:1'
    for name, paths in sorted(names(texts).items()):
        yield ('names', name), len(paths), 1, f'src/{paths[0]}:1: with {", ".join(paths[1:])}'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument('--debts', type=Path, default=DEBTS)
    parser.add_argument('--figures', action='store_true')
    parser.add_argument('--settle', action='store_true')
    args = parser.parse_args()
    root = args.root.resolve()
    if args.figures:
        texts, reach = reached(root)
        for header in sorted(reach, key=lambda h: -len(reach[h])):
            print(f'{header}: {texts[header].count(chr(10))} lines, reaches {len(reach[header])} files')
        return 0
    lines = args.debts.read_text().splitlines() if args.debts.exists() else []
    debts = {tuple(line.split('\t')[:2]): int(line.split('\t')[2]) for line in lines if line[:1] not in '#'}
    found, left = 0, {}
    for what, count, bound, where in measured(root):
        allowed = debts.get(what, bound)
        if count > allowed:
            print(f'{where}: {what[1]} has {count} {what[0]}, {allowed} allowed')
            found = 1
        if count > bound:
            left[what] = min(count, allowed)
    if args.settle:
        head = [line for line in lines if line.startswith('#')]
        args.debts.write_text('\n'.join(head + ['\t'.join((*what, str(n))) for what, n in left.items()]) + '\n')
    return found


if __name__ == '__main__':
    sys.exit(main())
