# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""libFuzzer on the engine of RoCE v2, with the address and undefined-behaviour sanitizers: requests, packets,
delays and whims of the world, beginning with the corpus in this folder."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.aside

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / 'src'
FLAGS = ['-std=gnu17', '-g', '-O1', '-D_GNU_SOURCE', '-fno-strict-aliasing', '-Wno-unknown-warning-option']
SANITIZERS = ['-fsanitize=fuzzer,address,undefined', '-fno-sanitize-recover=undefined']
# Lines of src/wire that the corpus alone must reach, in percent: all but icrc.c, which has no part in it.
LINES = 90


def build(target, *flags):
    if not shutil.which('clang'):
        pytest.skip('clang is not installed')
    engine = sorted((SOURCE / 'wire/roce').glob('*.c'))
    subprocess.run(['clang', *FLAGS, *flags, f'-I{SOURCE}', f'-I{HERE}', HERE / 'fuzz_engine.c', HERE / 'rig.c',
                    HERE / 'memory.c', *engine, '-o', target], check=True)
    return target


@pytest.fixture(scope='module')
def engine(tmp_path_factory):
    return build(tmp_path_factory.mktemp('fuzz') / 'fuzz_engine', *SANITIZERS)


def fuzz(program, *limits):
    """How many executions there were; a finding is a failure that shows how to repeat it."""
    found = program.parent / 'found'
    found.mkdir(exist_ok=True)
    done = subprocess.run([program, '-max_len=400', '-timeout=60', '-print_final_stats=1', *limits,
                           f'-artifact_prefix={program.parent}/', found, HERE / 'corpus'],
                          capture_output=True, text=True, errors='replace', check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    return int(re.search(r'number_of_executed_units: (\d+)', done.stderr)[1])


def test_engine(engine):
    assert fuzz(engine, '-runs=50000') >= 50000


def test_corpus_reaches_most_lines(tmp_path):
    """By the corpus alone, without the fuzzer's inventions."""
    tools = {name: shutil.which(name) or shutil.which(f'{name}-14') for name in ('llvm-profdata', 'llvm-cov')}
    if not all(tools.values()):
        pytest.skip('llvm is not installed')
    program = build(tmp_path / 'fuzz_engine', '-fsanitize=fuzzer', '-fprofile-instr-generate', '-fcoverage-mapping')
    subprocess.run([program, '-runs=0', HERE / 'corpus'], check=True, capture_output=True,
                   env={'LLVM_PROFILE_FILE': str(tmp_path / 'raw')})
    subprocess.run([tools['llvm-profdata'], 'merge', tmp_path / 'raw', '-o', tmp_path / 'data'], check=True)
    files = [path for path in sorted((SOURCE / 'wire/roce').glob('*.c')) if path.name != 'icrc.c']
    told = subprocess.run([tools['llvm-cov'], 'report', program, f'-instr-profile={tmp_path / "data"}', *files],
                          check=True, capture_output=True, text=True).stdout
    total = [line for line in told.splitlines() if line.startswith('TOTAL')][0].split()
    assert float(total[9].rstrip('%')) >= LINES, told


@pytest.mark.slow
def test_fifty_million(engine):
    """2 hours and more on one core."""
    assert fuzz(engine, '-runs=50000000') >= 50000000
