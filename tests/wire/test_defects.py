# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The tests of the engine can fail: each defect of defects.tsv, put into a copy of it alone, is found by
the test, or the one game of the simulator, that is named beside it."""
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.aside

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENGINE = ROOT / 'src/wire/roce'
FLAGS = ['-std=gnu17', '-D_GNU_SOURCE', '-O1', '-w', '-fno-strict-aliasing']
# What each program is made of besides the engine.
PROGRAMS = {
    'requester': ['test_requester.c', 'rig.c', 'memory.c'],
    'responder': ['test_responder.c', 'rig.c', 'memory.c'],
    'unreliable': ['test_unreliable.c', 'rig.c', 'memory.c'],
    'sim': ['test_sim.c', 'host.c', 'plan.c', 'math.c', 'memory.c', '../../sim/clock.c', '../../sim/wire.c'],
}


@dataclass
class Defect:
    name: str
    file: str
    text: str
    becomes: str
    found_by: str


def unescape(text):
    return re.sub(r'\\([tn|])', lambda m: {'t': '\t', 'n': '\n', '|': '|'}[m[1]], text)


def defects():
    lines = [line for line in (HERE / 'defects.tsv').read_text().splitlines() if not line.startswith('#')]
    return [Defect(*map(unescape, line.split('\t'))) for line in lines[1:]]


def compile_one(source, target, folder):
    subprocess.run(['gcc', *FLAGS, f'-I{folder}', f'-I{ROOT}/src', f'-I{ROOT}/sim', f'-I{HERE}', '-c', source,
                    '-o', target], check=True)


class Bench:
    """The engine's objects, and those of the programs that test it."""

    def __init__(self, folder):
        self.folder = folder
        self.whole = self.compile_engine(ENGINE, folder / 'whole')
        self.others = {}
        for name, sources in PROGRAMS.items():
            self.others[name] = []
            for source in sources:
                target = folder / (Path(source).stem + '.o')
                if not target.exists():
                    compile_one(HERE / source, target, ROOT / 'src')
                self.others[name].append(target)

    def compile_engine(self, engine, target, only=None):
        """{source: object}; `only` that one, unless it is a header."""
        target.mkdir()
        objects = {}
        for source in sorted(engine.glob('*.c')):
            if only and only.endswith('.c') and source.name != only:
                objects[source.name] = self.whole[source.name]
                continue
            objects[source.name] = target / f'{source.stem}.o'
            compile_one(source, objects[source.name], engine.parent.parent)
        return objects

    def broken(self, defect):
        """The objects of an engine that has the defect."""
        top = self.folder / re.sub(r'\W', '_', defect.name)
        shutil.copytree(ENGINE, top / 'wire/roce')
        path = top / 'wire/roce' / defect.file
        before = path.read_text()
        assert before.count(defect.text) == 1, f'{defect.file} has {before.count(defect.text)} × {defect.text!r}'
        path.write_text(before.replace(defect.text, defect.becomes))
        return self.compile_engine(top / 'wire/roce', top / 'objects', defect.file)

    def run(self, objects, found_by):
        """What the test named says, and whether it passed."""
        words = found_by.split()
        name, options = ('sim', ['--' + words[0], words[1]]) if len(words) == 2 else (words[0], [])
        program = next(iter(objects.values())).parent / f'{name}.{len(list(self.folder.iterdir()))}'
        subprocess.run(['gcc', '-o', program, *objects.values(), *self.others[name], '-lcmocka'], check=True)
        try:
            done = subprocess.run([program, *options], capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            return False, 'it never ended'
        return done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope='module')
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp('defects'))


def test_without_defects(bench):
    """The tests that find the defects pass on the engine as it is."""
    for found_by in sorted({d.found_by for d in defects()}):
        passed, said = bench.run(bench.whole, found_by)
        assert passed, f'{found_by}: {said[-2000:]}'


def test_there_are_enough():
    assert len({d.name for d in defects()}) >= 24


@pytest.mark.parametrize('defect', defects(), ids=lambda d: d.name.replace(' ', '_'))
def test_found(bench, defect):
    passed, _ = bench.run(bench.broken(defect), defect.found_by)
    assert not passed, f'{defect.found_by} does not find: {defect.name}'


@pytest.mark.slow
@pytest.mark.parametrize('defect', [d for d in defects() if d.found_by.startswith('seed')],
                         ids=lambda d: d.name.replace(' ', '_'))
def test_found_anew(bench, defect):
    """The defect is found by games of other seeds, too: by one in 4,000 at least."""
    defect.name += ' anew'
    objects = bench.broken(defect)
    games = [bench.run(objects, f'first {first}') for first in (1_000_000, 1_002_000)]  # 2,000 each
    assert not all(passed for passed, _ in games), f'4,000 games do not find: {defect.name}'
