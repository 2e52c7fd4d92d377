#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks the messages of the commits since the rule is checked: `area: what` in at most 72 characters,
an empty line, and a body that says why. Prints each offence as commit: what; exits 1 if any. Skipped in
a tree that is no git repository, or has not the commit from which on they are looked at."""
import argparse
import re
import subprocess
import sys
from pathlib import Path

SINCE = '69d60df00a37cb5f1d0fef2043f1571f58c65f6d'
TITLE_CHARS = 72
# A commit that others had built on before its fault was found. Only that is a reason to be in this list.
STANDING = {'14bee9d7fae332aad34cc284847e3363f92fb5d6'}  # two characters too long
TITLE = re.compile(r'[a-z][\w./-]*(?:(?:, | and | )[a-z][\w./-]*)*: \S')


def offences(message):
    title, *rest = message.rstrip('\n').split('\n')
    if len(title) > TITLE_CHARS:
        yield f'its first line has {len(title)} characters, {TITLE_CHARS} allowed'
    if not TITLE.match(title):
        yield 'its first line is not `area: what`'
    if rest and rest[0]:
        yield 'its second line is not empty'
    if not any(line.strip() for line in rest[1:]):
        yield 'no body says why'


def git(root, *argv):
    return subprocess.run(['git', '-C', root, *argv], capture_output=True, text=True, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument('--since', default=SINCE)
    args = parser.parse_args()
    # The tree's own repository, not another one in which the tree was unpacked.
    try:
        top = git(args.root, 'rev-parse', '--show-toplevel')
    except FileNotFoundError:
        print('check-commits: git is not installed')
        return 77
    if top.returncode or Path(top.stdout.strip()) != args.root.resolve():
        print('check-commits: no git repository')
        return 77
    if git(args.root, 'merge-base', '--is-ancestor', args.since, 'HEAD').returncode:
        print(f'check-commits: the history does not reach back to {args.since[:12]}')
        return 77
    log = git(args.root, 'log', '--no-merges', '--format=%H%n%B%x00', f'{args.since}..HEAD')
    found = 0
    for entry in filter(str.strip, log.stdout.split('\0')):
        commit, message = entry.lstrip('\n').split('\n', 1)
        for what in offences(message) if commit not in STANDING else ():
            print(f'{commit[:12]}: {what}: {message.splitlines()[0]}')
            found = 1
    return found


if __name__ == '__main__':
    sys.exit(main())
