# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Each mistake of mutations.tsv is noticed by the test that stands beside it, which passes without it. A plugin
that is not there is said; and neither it nor the base needs a driver."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / 'src/cuda'
BUILD = Path(os.environ.get('WEFT_BUILD', HERE.parents[1] / 'build')).resolve()
GPU = BUILD / 'tests/gpu'
LEAST = 15
SECONDS, MUTATED_SECONDS = 60, 12
PLAYS = {'test-nanet-gpu': [{'SEED': str(seed)} for seed in range(1, 11)]}  # at random: a mistake shows in most of them
ROWS = [line.split('\t') for line in (HERE / 'mutations.tsv').read_text().splitlines() if not line.startswith('#')]

ARGUMENTS = {'test-gpu-life': [GPU / 'kernels.so'], 'test-gpu-verbs': ['60'], 'test-gpu-far': [], 'test-gpu-services': [], 'test-gpu-pinned': ['20'], 'test-gpu-order': [GPU / 'kernels.so', '20', '20', '5'],
             'test-nic-gpu': [], 'test-nanet-gpu': [GPU / 'kernels.so']}
FOLDERS = {'test-nic-gpu': BUILD / 'tests/nic', 'test-nanet-gpu': BUILD / 'tests/nanet'}

pytestmark = pytest.mark.quick


def run(program, test, libraries, seconds=SECONDS, **env):
    """Whether the test ended well, and its output; processes that it has begun end with it. The plugin lies beside libibverbs, or
    by its name beside a program that has none."""
    command = [f'{libraries}/{program}', *ARGUMENTS[program], test]
    env = {**os.environ, 'LD_LIBRARY_PATH': f'{libraries}:{BUILD / "tests/softgpu"}', **env}
    with subprocess.Popen(command, executable=FOLDERS.get(program, GPU) / program, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True) as process:
        try:
            said = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            said = 'it has not ended'
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return process.returncode == 0, said


@pytest.mark.parametrize('program,test', sorted({(row[1], row[2]) for row in ROWS}))
def test_passes_without(program, test):
    passed, said = run(program, test, GPU / 'mutated')
    assert passed, said
    assert re.search(rf'OK \] {test}\b', said), said


# is_polled notices a mistake only by not ending.
@pytest.mark.parametrize('mutation,program,test', [
    pytest.param(*row, marks=[pytest.mark.waits] if row[2] == 'is_polled' else []) for row in ROWS])
def test_is_noticed(mutation, program, test):
    for seed in PLAYS.get(program, [{}]):
        passed, said = run(program, test, GPU / 'mutated', MUTATED_SECONDS, WEFT_MUTATION=mutation, **seed)
        if not passed:
            return
    pytest.fail(said)


def test_list_is_whole():
    labels = {label for path in SOURCES.glob('*.c') for label in re.findall(r'WEFT_MUTATED\((\w+)\)', path.read_text())}
    assert {row[0] for row in ROWS} == labels
    assert len(ROWS) >= LEAST


def test_a_missing_plugin_is_said():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(BUILD / 'libibverbs.so.1', folder)
        passed, said = run('test-gpu-life', 'is_freed', folder, WEFT_EXPLAIN='1')
        assert not passed
        assert re.search(r'ibv_reg_mr.*reaches that of GPUs.*libweft-cuda\.so', said), said


def test_a_driver_that_is_too_old(tmp_path):
    """Memory of the host is registered as ever; that of GPUs is not, and why is said."""
    (tmp_path / 'libcuda.so.1').symlink_to(GPU / 'hollow.so')
    for program in 'test-verbs-mr', 'test-verbs-regions':
        done = subprocess.run([BUILD / 'tests/verbs' / program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False,
                              env={**os.environ, 'LD_PRELOAD': str(tmp_path / 'libcuda.so.1'), 'WEFT_EXPLAIN': '1', 'WEFT_NIC': 'off'})
        assert done.returncode == 0, done.stdout
        assert program == 'test-verbs-regions' or re.search(r'ibv_reg_mr.*libcuda\.so has no cu\w+: it takes a newer driver', done.stdout), done.stdout


@pytest.mark.parametrize('library', ['libibverbs.so.1', 'librdmacm.so.1', 'libweft-cuda.so'])
def test_needs_no_driver(library):
    """Neither the base nor the plugin is linked with one, or with NVIDIA's libraries: what is called is found in the process."""
    said = subprocess.run(['readelf', '-W', '-d', '--dyn-syms', BUILD / library], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r'\(NEEDED\).*\[(.*)\]', said))
    assert needed and all(re.match(r'(lib(c|m|dl|pthread|rt|gcc_s|ibverbs|asan|tsan|ubsan|gcov)\b|ld-linux)', name) for name in needed), needed
    assert not re.findall(r' UND +(cu[A-Z]\w*|cuda\w+|nv\w+)', said)
