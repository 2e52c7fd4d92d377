# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The torus's engine on a machine whose numbers begin with their high bytes: its unit tests, compiled for s390x, by qemu-user."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GCC, QEMU = 's390x-linux-gnu-gcc', 'qemu-s390x'
OPTIONS = ['-O2', '-std=gnu17', '-static', '-D_GNU_SOURCE', '-Wall', '-Werror', '-Wno-unused-parameter',
           '-Isrc', '-Isim', '-Itests/ape/big_endian', f'-DVECTORS="{ROOT / "tests/ape/vectors.tsv"}"']

pytestmark = [pytest.mark.aside,
              pytest.mark.skipif(not shutil.which(GCC) or not shutil.which(QEMU), reason=f'no {GCC} or no {QEMU}')]


def run_there(tmp_path, name, helpers, **env):
    program = tmp_path / name
    sources = [f'tests/ape/test_{name}.c', *helpers, *sorted((ROOT / 'src/wire/ape').glob('*.c'))]
    subprocess.run([GCC, *OPTIONS, '-o', program, *sources], cwd=ROOT, check=True, timeout=300)
    done = subprocess.run([QEMU, program], capture_output=True, text=True, check=False, timeout=600, env=os.environ | env)
    assert done.returncode == 0 and 'ok test_' in done.stdout, done


@pytest.mark.parametrize('name', ['packet', 'secded', 'credits', 'runs'])
def test_unit(tmp_path, name):
    run_there(tmp_path, name, ['tests/ape/ends.c'])


def test_flows(tmp_path):
    run_there(tmp_path, 'flows', ['tests/ape/cards.c', 'tests/ape/torus.c', 'sim/clock.c', 'sim/cable.c'], SEEDS='40')
