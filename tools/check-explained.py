#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks that each verb that fails says why: in src/verbs an errno is given back only by weft_broken or
weft_explain_errno, or right behind a question that explains itself (weft_explain_stale and its like).
Also that each rule of verbs/rules.h and each cause of nic/cause.h is used, and has a clause. Prints each offence as file:line: what; exits 1 if any."""
import argparse
import os
import re
import sys
from pathlib import Path

VERBS = Path('src/verbs')
# Lines that are no verb's, or no failure, with the reason: a whole file, or one line of it.
NOT_VERBS = {
    'gid.c': 'below the verbs',
    'handle.c': 'below the verbs',
    'process.c': 'says on its own what is wrong with the pool',
    'reach.c': 'below the verbs',
    'helper.c': 'below the verbs',
}
NO_FAILURE = {
    ('cq_ex.c', 'return ENOENT;'): 'there is no completion',
    ('channel.c', 'errno = EAGAIN;'): 'there is no event',
    ('address.c', 'err = ENODATA;'): 'some verbs take that for an empty GID',
    ('address.c', 'int err = host ? -EHOSTUNREACH : -ENOMEM;'): 'its caller says so',
    ('import.c', 'return pwrite(fd, &e, sizeof(e), 0) == sizeof(e) ? 0 : -ENOSPC;'):
        'its caller says so',
    ('receiver.c', 'return -ENOMEM;'): 'a helper answers: its caller says so',
    ('receiver.c', 'return -EAGAIN;'): 'a helper answers: its caller says so',
    ('receiver.c', 'int err = -EINVAL;'): 'a helper answers: its caller says so',
}
ERRNO = re.compile(r'(?<![\w.])-?E(?!T_)[A-Z]{3,}\b')
EXPLAINS = re.compile(r'weft_(?:broken|explain_\w+|verbs_(?:good|known)_access|verbs_refuse_send)\(|bad_port\(')
HEADER = re.compile(r'^\tX\((\w+), (\w+), "([^"]*)",((?:.|\n)*?)(?=\n\tX\(|\n\t/\*|\n\n)', re.M)


def without_comments(text):
    return re.sub(r'/\*.*?\*/', lambda m: re.sub(r'[^\n]', ' ', m[0]), text, flags=re.S)


def check_verbs(path):
    lines = without_comments(path.read_text()).splitlines()
    for number, line in enumerate(lines, 1):
        if not re.search(r'\breturn\b|\berrno = |\berr = |\? |: ', line) or not ERRNO.search(line):
            continue
        if re.search(r'[!=]= -?E[A-Z]+|case E', line) or 'err = ENOMEM;' in line:
            continue  # a comparison; or an error that a label further down explains
        if (path.name, line.strip()) in NO_FAILURE:
            continue
        if not EXPLAINS.search('\n'.join(lines[max(0, number - 4):number])):
            yield number, f'fails without a word: {line.strip()}'


def check_table(path, used):
    for match in HEADER.finditer(without_comments(path.read_text())):
        name, _, clause, words = match.groups()
        if name == 'NONE':
            continue
        number = path.read_text()[:match.start()].count('\n') + 1
        if not clause:
            yield number, f'{name} has no clause'
        if not re.search(rf'\b(?:WEFT_CAUSE_|WEFT_RULE_)?{name}\b', used):
            yield number, f'{name} is used nowhere'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parents[1])
    os.chdir(parser.parse_args().root)
    tables = [t for t in (VERBS / 'rules.h', Path('src/nic/cause.h')) if t.exists()]
    used = '\n'.join(p.read_text() for p in Path('src').rglob('*.[ch]') if p not in tables)
    bad = [(p, *o) for p in sorted(VERBS.glob('*.c')) if p.name not in NOT_VERBS
           for o in check_verbs(p)]
    bad += [(p, *o) for p in tables for o in check_table(p, used)]
    for path, number, what in bad:
        print(f'{path}:{number}: {what}')
    sys.exit(bool(bad))


main()
