# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""libFuzzer on datagrams that others send, with the address sanitizer: each target is built here, by clang, and
starts from its corpus in this folder."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fabric import BUILD

pytestmark = pytest.mark.aside

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / 'src'
FLAGS = ['-std=gnu17', '-g', '-O2', '-D_GNU_SOURCE', '-fno-strict-aliasing',
         '-fsanitize=fuzzer,address,undefined', '-fno-sanitize-recover=undefined']


@pytest.fixture(scope='module')
def datagrams(tmp_path_factory):
    """librdmacm without its device; the fuzzer is the rest of the world."""
    if not shutil.which('clang'):
        pytest.skip('clang is not installed')
    sources = sorted(path for folder in ('cm', 'wire/cm') for path in (SOURCE / folder).glob('*.c')
                     if path.name != 'device.c')
    world = HERE.parent / 'cm'
    program = tmp_path_factory.mktemp('fuzz') / 'fuzz_datagrams'
    subprocess.run(['clang', *FLAGS, f'-I{SOURCE}', f'-I{world}', HERE / 'fuzz_datagrams.c',
                    world / 'world.c', *sources, BUILD / 'libibverbs.so.1',
                    f'-Wl,-rpath,{BUILD}', '-lpthread', '-o', program], check=True)
    return program


@pytest.fixture(scope='module')
def nanet(tmp_path_factory):
    """The engine of streams, which needs no other part."""
    if not shutil.which('clang'):
        pytest.skip('clang is not installed')
    sources = [*sorted((SOURCE / 'wire/nanet').glob('*.c')), SOURCE / 'wire/ape/packet.c', SOURCE / 'wire/ape/secded.c']
    program = tmp_path_factory.mktemp('fuzz') / 'fuzz_nanet'
    subprocess.run(['clang', *FLAGS, f'-I{SOURCE}', HERE / 'fuzz_nanet.c', *sources, '-o', program],
                   check=True)
    return program


def fuzz(program, corpus, *limits):
    """Returns how many executions there were. A finding is a failure that shows how to repeat it."""
    found = program.parent / 'found'
    found.mkdir(exist_ok=True)
    done = subprocess.run([program, '-max_len=400', '-timeout=600', '-print_final_stats=1', *limits,
                           f'-artifact_prefix={program.parent}/', found, HERE / corpus],
                          capture_output=True, text=True, errors='replace', check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    return int(re.search(r'number_of_executed_units: (\d+)', done.stderr)[1])


def test_datagrams(datagrams):
    assert fuzz(datagrams, 'datagrams', '-runs=50000') >= 50000


@pytest.mark.slow
def test_ten_million_datagrams(datagrams):
    """40 minutes at 4,100 a second, on a core that others used, too; nothing was found."""
    assert fuzz(datagrams, 'datagrams', '-runs=10000000') >= 10000000


def test_nanet(nanet):
    """15 s of a core."""
    assert fuzz(nanet, 'nanet', '-max_len=128', '-runs=1000000') >= 1000000


@pytest.mark.slow
def test_fifty_million_nanet(nanet):
    """74 million found nothing, in ten minutes of three cores."""
    assert fuzz(nanet, 'nanet', '-max_len=128', '-runs=50000000') >= 50000000
