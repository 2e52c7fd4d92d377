# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs of two versions of the format refuse each other's pools, say so, and do them no harm."""
import os
import re
import subprocess
from pathlib import Path

import pytest

from fabric import BUILD

ROOT = Path(__file__).resolve().parents[2]
NAMES = ['before', 'now', 'after']
REFUSED = 'the pool was made by another version of Weft'


class Program:
    def __init__(self, name, pool):
        self.process = subprocess.Popen([BUILD / 'tests/life' / f'version-{name}', pool], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        version, self.said = self.process.stdout.readline().strip().split(' ', 1)
        self.version = int(version)

    def end(self):
        self.process.stdin.close()
        return self.process.wait(20)


def header(pool):
    with open(pool, 'rb') as file:
        return file.read(4096), os.fstat(file.fileno()).st_size


@pytest.fixture
def pool():
    path = Path(f'/dev/shm/weft-test-versions-{os.getpid()}')
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.quick
@pytest.mark.parametrize('opens', NAMES)
@pytest.mark.parametrize('made', NAMES)
def test_versions(pool, made, opens):
    """Both while the program that made the pool is there, and when it has gone."""
    maker = Program(made, pool)
    assert maker.said == 'taken'
    for program in range(2):
        before = header(pool)
        opener = Program(opens, pool)
        difference = NAMES.index(opens) - NAMES.index(made)
        assert opener.version - maker.version == difference
        assert opener.said == (REFUSED if difference else 'taken')
        assert opener.end() == bool(difference)
        if difference:
            assert header(pool) == before
        if not program:
            assert maker.end() == 0
    again = Program(made, pool)
    assert again.said == 'taken' and again.end() == 0


def git(*argv, **kept):
    return subprocess.run(['git', '-C', ROOT, *argv], capture_output=True, check=True, **kept).stdout


def version_in(header):
    return re.search(r'define WEFT_POOL_VERSION +(\d+)u', header)[1]


@pytest.fixture(scope='module')
def older(tmp_path_factory):
    """The build of the last commit whose format had another version."""
    try:
        changes = git('log', '--format=%H^', '-G', 'define WEFT_POOL_VERSION', '--', 'src/pool/format.h',
                      text=True).split()
        now = version_in((ROOT / 'src/pool/format.h').read_text())
        commit = next(commit for commit in changes if now != version_in(
            git('show', f'{commit}:src/pool/format.h', text=True)))
        tree = git('archive', commit)
    except (subprocess.CalledProcessError, StopIteration) as failure:
        pytest.skip(f'no history: {failure!r}')
    folder = tmp_path_factory.mktemp('older')
    subprocess.run(['tar', 'x', '-C', folder], input=tree, check=True)
    subprocess.run(['meson', 'setup', '-Dtests=false', '-Dwerror=false', 'build'], cwd=folder, check=True)
    subprocess.run(['ninja', '-C', 'build'], cwd=folder, check=True)
    return folder / 'build'


def devinfo(build, pool):
    return subprocess.run([build / 'weft', 'run', 'ibv_devinfo'], capture_output=True, text=True,
                          env={**os.environ, 'WEFT_POOL': str(pool)}, check=False)


@pytest.mark.slow
@pytest.mark.parametrize('newer_first', [False, True])
def test_program_of_the_version_before(pool, older, newer_first):
    makes, refuses = (BUILD, older) if newer_first else (older, BUILD)
    assert devinfo(makes, pool).returncode == 0
    before = header(pool)
    refused = devinfo(refuses, pool)
    assert refused.returncode and 'another version of Weft' in refused.stderr, refused
    assert header(pool) == before
    assert devinfo(makes, pool).returncode == 0
