#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Makes from the tables in abi/ what gives a library the exported names of rdma-core:

LIB.map         the version script: each name under its default version
LIB-stubs.c     a weak definition of each name; what is defined in an ordinary .c file replaces it
LIB-aliases.ld  all further versions of a name: the linker's assignments of versioned symbols

    abi-gen.py LIBRARY ABI_FOLDER OUTPUT_FOLDER
"""
import argparse
import csv
import fnmatch
import re
import sys
from pathlib import Path

RELEASES = ('bookworm', 'trixie', 'head')
PRIVATE = 'IBVERBS_PRIVATE_'
# rdma-core renames the private node when its names change. Of two such nodes the lists are here; the
# others get every name that is in either.
LISTED = ('34', '65')
UNLISTED = ('25', '33', '57', '59', '64')
REGISTER = 'verbs_register_driver_'  # followed by the number of its node
ERRORS = {'libibverbs': 'EOPNOTSUPP', 'librdmacm': 'ENOSYS'}

# How a function that is not there answers: the body of a function that returns long.
ANSWERS = {
    'null': 'errno = {error}; return 0;',
    'minus': 'errno = {error}; return -1;',
    'error': 'return {error};',
    'zero': 'return 0;',
    'void': 'return 0;',
}


def table(path, columns=None):
    with open(path, newline='', encoding='ascii') as file:
        return list(csv.DictReader(file, columns, delimiter='\t'))


class Abi:
    """default: name -> its default version. compat, again: (name, version): of another, older
    function, or of the default one once more. data: the names that are no functions."""

    def __init__(self, folder, library):
        self.error = ERRORS[library]
        self.answers = table(folder / 'answers.tsv')
        self.default, self.compat, self.again, self.data = {}, set(), set(), set()
        private = {}
        for release in RELEASES:
            for row in table(folder / f'{release}-{library}.exports.tsv',
                             ('name', 'node', 'binding', 'kind')):
                name, node = row['name'], row['node']
                if row['kind'] == 'OBJECT':
                    self.data.add(name)
                if node.startswith(PRIVATE):
                    private.setdefault(node, set()).add(name)
                elif row['binding'] == 'compat':
                    self.compat.add((name, node))
                elif self.default.setdefault(name, node) != node:
                    sys.exit(f'{name}: default in {self.default[name]} and in {node}')
        if private:
            self.add_private(private)

    def add_private(self, listed):
        union = {name for names in listed.values() for name in names}
        for number in LISTED + UNLISTED:
            node = PRIVATE + number
            for name in listed.get(node, union):
                if name.startswith(REGISTER):
                    name = REGISTER + number
                if self.default.setdefault(name, node) != node:
                    self.again.add((name, node))

    def answer(self, name):
        for row in self.answers:
            if fnmatch.fnmatchcase(name, row['symbol']):
                return row['answer']
        sys.exit(f'answers.tsv: no row for {name}')

    def nodes(self):
        def order(node):
            return node.startswith(PRIVATE), [int(n) for n in re.findall(r'\d+', node)]
        return sorted({*self.default.values(), *(n for _, n in self.compat | self.again)}, key=order)


def version_script(abi):
    parent = ''
    # A node's wildcard would also hide what aliases() adds to that node.
    aliased = {node for _, node in abi.compat | abi.again}
    hiding = next(node for node in abi.nodes() if node not in aliased)
    for node in abi.nodes():
        names = sorted(name for name, default in abi.default.items() if default == node)
        yield f'{node} {{'
        yield from ['\tglobal:'] * bool(names)
        yield from (f'\t\t{name};' for name in names)
        yield from ['\tlocal: *;'] * (node == hiding)
        yield f'}}{"" if node.startswith(PRIVATE) else parent};'
        parent = ' ' + node


def stubs(abi):
    functions = sorted(abi.default.keys() - abi.data)
    yield '#include <errno.h>'
    yield '#pragma GCC visibility push(default)'  # the version script decides
    for answer, body in ANSWERS.items():
        yield f'long weft_abi_{answer}(void);'
        yield f'long weft_abi_{answer}(void) {{ {body.format(error=abi.error)} }}'
    yield '#define STUB(name, answer) \\'
    yield '\tlong name(void) __attribute__((weak, alias("weft_abi_" #answer)))'
    yield from (f'STUB({name}, {abi.answer(name)});' for name in functions)
    for name in sorted(abi.data):
        yield f'extern char {name};'
        yield f'char {name};'


def aliases(abi):
    yield '/* An implicit linker script. */'
    yield from (f'"{n}@{node}" = weft_abi_{abi.answer(n)};' for n, node in sorted(abi.compat))
    yield from (f'"{n}@{node}" = {n};' for n, node in sorted(abi.again))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('library', choices=ERRORS)
    parser.add_argument('abi', type=Path)
    parser.add_argument('output', type=Path)
    args = parser.parse_args()
    abi = Abi(args.abi, args.library)
    for suffix, lines in (('.map', version_script(abi)), ('-stubs.c', stubs(abi)),
                          ('-aliases.ld', aliases(abi))):
        text = ''.join(line + '\n' for line in lines)
        (args.output / (args.library + suffix)).write_text(text, encoding='ascii')


if __name__ == '__main__':
    main()
