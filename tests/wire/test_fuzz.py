# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""libFuzzer on the engine of RoCE v2, and on a card's queue pair 1 with what parses its datagrams, with the address and
undefined-behaviour sanitizers: requests, packets, deaths, delays and whims of the world, beginning with the corpora in this
folder."""
import os
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
# Lines that each corpus alone must reach, in percent: all of the engine but icrc.c, which has no part in it, and all of the manager.
LINES = 90
ENGINE, MANAGER = 'engine', 'manager'


def sources(name):
    """What the fuzzer is to find something in."""
    if name == MANAGER:
        return [SOURCE / 'card/manager.c', SOURCE / 'wire/cm/mad.c']
    return sorted((SOURCE / 'wire/roce').glob('*.c'))


def build(name, folder, *flags):
    if not shutil.which('clang'):
        pytest.skip('clang is not installed')
    target = folder / f'fuzz_{name}'
    rest = [SOURCE / 'wire/cm/conn.c'] if name == MANAGER else [HERE / 'rig.c', HERE / 'memory.c']
    subprocess.run(['clang', *FLAGS, *flags, f'-I{SOURCE}', f'-I{HERE}', HERE / f'fuzz_{name}.c', *rest, *sources(name), '-o', target],
                   check=True)
    return target


def corpus(name):
    return HERE / 'corpus' if name == ENGINE else HERE / f'corpus_{name}'


@pytest.fixture(scope='module', params=[ENGINE, MANAGER])
def fuzzer(request, tmp_path_factory):
    """What is fuzzed, and the program that does."""
    return request.param, build(request.param, tmp_path_factory.mktemp('fuzz'), *SANITIZERS)


def fuzz(name, program, *limits):
    """How many executions there were; a finding is a failure that shows how to repeat it."""
    found = program.parent / 'found'
    found.mkdir(exist_ok=True)
    done = subprocess.run([program, '-max_len=400', '-timeout=600', '-print_final_stats=1', *limits,
                           f'-artifact_prefix={program.parent}/', found, corpus(name)],
                          capture_output=True, text=True, errors='replace', check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    return int(re.search(r'number_of_executed_units: (\d+)', done.stderr)[1])


def test_some(fuzzer):
    assert fuzz(*fuzzer, '-runs=50000') >= 50000


@pytest.mark.parametrize('name', [ENGINE, MANAGER])
def test_corpus_reaches_most_lines(name, tmp_path):
    """By the corpus alone, without the fuzzer's inventions."""
    tools = {name: shutil.which(name) or shutil.which(f'{name}-14') for name in ('llvm-profdata', 'llvm-cov')}
    if not all(tools.values()):
        pytest.skip('llvm is not installed')
    program = build(name, tmp_path, '-fsanitize=fuzzer', '-fprofile-instr-generate', '-fcoverage-mapping')
    subprocess.run([program, '-runs=0', corpus(name)], check=True, capture_output=True,
                   env={'LLVM_PROFILE_FILE': str(tmp_path / 'raw')})
    subprocess.run([tools['llvm-profdata'], 'merge', tmp_path / 'raw', '-o', tmp_path / 'data'], check=True)
    files = [path for path in sources(name) if path.name != 'icrc.c']
    told = subprocess.run([tools['llvm-cov'], 'report', program, f'-instr-profile={tmp_path / "data"}', *files],
                          check=True, capture_output=True, text=True).stdout
    total = [line for line in told.splitlines() if line.startswith('TOTAL')][0].split()
    assert float(total[9].rstrip('%')) >= LINES, told


@pytest.mark.slow
def test_fifty_million(fuzzer):
    """Each, 2 hours and more on one core; $RUNS bounds it."""
    runs = int(os.environ.get('RUNS', 50_000_000))
    assert fuzz(*fuzzer, f'-runs={runs}') >= runs
