#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks that the comments of src, tests, sim, bench and examples name what is there: each file
(pool/lock.c, or lock.c alone) exists, each weft_name, WEFT_NAME and function() is in the code of the tree
or of the system's headers, each struct weft_x.field is a field of that struct, each `name` in backquotes is
a word of the code. They, and those of scripts, name roles, and no persons (PERSON). Prints each offence as
file:line: what; exits 1 if any."""
import argparse
import io
import re
import sys
import tokenize
from pathlib import Path

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
FILE = re.compile(r'(?<![\w/.*-])((?:[\w-]+/)+[\w-]+\.(?:[ch]|py|sh|tsv|md))\b')
# Without a folder; CMD.c and the like stand for many.
ALONE = re.compile(r'(?<![\w/.*-])([a-z][a-z0-9_-]*\.(?:[ch]|py))\b(?![\w*])')
INCLUDED = re.compile(r'#\s*include\s*<(?:[\w.-]+/)*([\w.-]+)>')
WORD = re.compile(r'[A-Za-z_]\w*')
OURS = re.compile(r'(?<![\w.`-])(weft_[a-z0-9_]*[a-z0-9]|WEFT_[A-Z0-9_]*[A-Z0-9])(?![\w*]|_\*)')
CALL = re.compile(r'(?<![\w.])([a-z_]\w+)\(\)')
FIELD = re.compile(r'\b(?:struct )?(weft_\w+)\.([a-z]\w*)\b(?!\()')
QUOTED = re.compile(r'`([A-Za-z_]\w+)(?:\(\))?`')
PERSON = re.compile(r"\b(?:[Ww]ho|[Ww]hoever|[Ww]hom|[Hh]e|[Hh]is|[Hh]im)\b")
FOLDERS = ('src', 'tests', 'bench', 'sim', 'examples')
SYSTEM = re.compile(r'^(?:infiniband|rdma|sys|linux|asm|netinet|arpa|net|bits)/')
# Manual pages that comments name, of functions that nothing of ours calls.
FOREIGN = {'cuda.h'}  # which Weft does without
MANUAL = {'exec', 'vfork', 'sbrk', 'select', 'poll', 'exit', 'system', 'abort', 'clone'}


def without_comments(text):
    return COMMENT.sub(' ', text)


class Tree:
    def __init__(self, root):
        self.root = root
        there = [p for folder in (*FOLDERS, 'abi', 'docs', 'lab', 'tools')
                 for p in sorted((root / folder).rglob('*')) if p.is_file()]
        self.files = [p for p in there if p.suffix in ('.c', '.h', '.py', '.build', '.tsv', '.map')
                      and p.relative_to(root).parts[0] in (*FOLDERS, 'abi')]
        self.paths = [f'/{p.relative_to(root)}' for p in there]
        self.code = {p: without_comments(p.read_text()) for p in self.files if p.suffix in ('.c', '.h')}
        self.alone = FOREIGN.union(path.rsplit('/', 1)[1] for path in self.paths)
        self.alone.update(*(INCLUDED.findall(code) for code in self.code.values()))
        # strings too: what is looked up by name, and options of the environment
        self.words = set(MANUAL).union(*(WORD.findall(code) for code in self.code.values()))
        self.structs = {}
        for code in self.code.values():
            for m in re.finditer(r'^(?:struct|union) (weft_\w+) \{(.*?)^\}', code, re.M | re.S):
                self.structs.setdefault(m[1], set()).update(WORD.findall(m[2]))

    def has_file(self, name):
        return SYSTEM.match(name) or any(path.endswith(f'/{name}') for path in self.paths)

    def offences(self, comment):
        comment = re.sub(r'\s*\n\s*\*?\s*', ' ', comment)
        for name in FILE.findall(comment):
            if not self.has_file(name):
                yield f'there is no {name}'
        for name in ALONE.findall(comment):
            if name not in self.alone:
                yield f'there is no {name}'
        for name in {*OURS.findall(comment), *CALL.findall(comment), *QUOTED.findall(comment)}:
            if name not in self.words:
                yield f'nothing is called {name}'
        for struct, field in FIELD.findall(comment):
            if struct in self.structs and field not in self.structs[struct]:
                yield f'struct {struct} has no {field}'


def remarks(text):
    """(line, text) of the comments and descriptions of a script."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or token.type == tokenize.STRING and token.string.startswith('"""'):
            yield token.start[0], token.string


def people(line, words):
    return [(line + words.count('\n', 0, m.start()), m[0]) for m in PERSON.finditer(words)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    tree, found, said = Tree(root), 0, {}
    for path in tree.code:
        text, said[path] = path.read_text(), []
        for comment in COMMENT.finditer(STRING.sub(lambda m: '"' * len(m[0]), text)):
            words = text[comment.start():comment.end()]
            line = text.count('\n', 0, comment.start()) + 1
            for what in tree.offences(words):
                print(f'{path.relative_to(root)}:{line}: {what}')
                found = 1
            said[path] += people(line, words)
    for path in sorted(p for folder in (*FOLDERS, 'lab', 'tools') for p in (root / folder).rglob('*.py')):
        said[path] = [one for line, words in remarks(path.read_text()) for one in people(line, words)]
    for path, several in said.items():
        for line, word in several:
            print(f'{path.relative_to(root)}:{line}: says "{word}": name the role')
            found = 1
    return found


if __name__ == '__main__':
    sys.exit(main())
