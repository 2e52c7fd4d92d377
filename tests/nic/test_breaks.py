# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The contract of transports can fail: each rule of breaks.py is broken in a copy of its file, and some case finds it."""
import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from nic.breaks import BREAKS

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get('WEFT_BUILD', ROOT / 'build'))
PROGRAM = 'tests/nic/test-nic-contract'


def commands(program):
    """Returns the command that compiles each source, by its path from the root, and the one that links the program."""
    compiled = {}
    for entry in json.loads((BUILD / 'compile_commands.json').read_text()):
        path = os.path.relpath((BUILD / entry['file']).resolve(), ROOT)
        compiled.setdefault(path, entry)
    said = subprocess.run(['ninja', '-C', str(BUILD), '-t', 'commands', program], capture_output=True, text=True, check=True)
    return compiled, said.stdout.strip().splitlines()[-1]


def run(arguments):
    return subprocess.run(arguments, cwd=BUILD, capture_output=True, text=True)


def test_list():
    """Each text stands in its file exactly once, so that the list fits this tree."""
    for path, old, new, _ in BREAKS:
        assert old != new
        assert (ROOT / path).read_text().count(old) == 1, (path, old)


@pytest.mark.slow
def test_each_is_found(tmp_path):
    compiled, link = commands(PROGRAM)
    missed = []
    whole = run([PROGRAM])
    assert whole.returncode == 0, whole.stdout + whole.stderr
    for number, (path, old, new, rule) in enumerate(BREAKS):
        broken, product, program = (tmp_path / f'{number}{end}' for end in ('.c', '.o', ''))
        broken.write_text((ROOT / path).read_text().replace(old, new))
        entry = compiled[path]
        command = [word for word in shlex.split(entry['command']) if word != '-Werror']
        command[command.index('-o') + 1] = str(product)
        command[command.index(entry['file'])] = str(broken)
        made = run([*command, '-w', '-I', str((ROOT / path).parent)])
        assert made.returncode == 0, (rule, made.stderr)
        # an object on the command line is preferred to those of the libraries behind it
        words = shlex.split(link)
        words[words.index('-o') + 1] = str(program)
        words.insert(words.index(str(program)) + 1, str(product))
        made = run(words)
        assert made.returncode == 0, (rule, made.stderr)
        try:
            ended = subprocess.run([program], capture_output=True, text=True, timeout=20)
        except subprocess.TimeoutExpired:
            print(f'{rule}: never ends')
            continue
        found = [line for line in (ended.stdout + ended.stderr).splitlines() if 'ERROR' in line]
        print(f'{rule}: {found[0] if found else ended.returncode}')
        if ended.returncode == 0:
            missed.append(rule)
    assert not missed
