# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The runner counts what programs say, and a failure is never lost."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import run

pytestmark = pytest.mark.aside


@pytest.mark.quick
@pytest.mark.parametrize('result,stdout,tally', [
    ('OK', 'ok 1 - a\nok 2 - b\n1..2\n', '2 passed, 0 failed, 0 skipped'),
    ('FAIL', 'ok 1 - a\nnot ok 2 - b\n', '1 passed, 1 failed, 0 skipped'),
    ('OK', 'ok 1 - a\nnot ok 2 # SKIP b\n', '1 passed, 0 failed, 1 skipped'),
    ('OK', 'no lines of TAP', '1 passed, 0 failed, 0 skipped'),
    ('FAIL', '', '0 passed, 1 failed, 0 skipped'),
    ('FAIL', 'ok 1 - a\n', '1 passed, 1 failed, 0 skipped'),  # and then it crashed
    ('TIMEOUT', None, '0 passed, 1 failed, 0 skipped'),
    ('SKIP', '', '0 passed, 0 failed, 1 skipped'),
])
def test_cases_of_a_program(result, stdout, tally):
    assert str(run.tap_cases({'name': 't', 'result': result, 'stdout': stdout})) == tally


@pytest.mark.quick
def test_names_what_was_skipped():
    stdout = 'ok 1 - a\nnot ok 2 # SKIP b\nok 3 - c # SKIP\n'
    tally = run.tap_cases({'name': 't', 'result': 'OK', 'stdout': stdout})
    assert tally.names == ('skipped: t::b', 'skipped: t::c')


@pytest.mark.quick
@pytest.mark.parametrize('name,part', [
    ('verbs-qp', 'house'), ('model-card', 'house'), ('model-gpu', 'gpu'), ('cli.test_info', 'house'), ('handed.test_programs', 'house'),
    ('ape-flows', 'torus'), ('nanet-stream', 'stream'), ('wire.test_rxe', 'wire'), ('cli.test_nic', 'wire'),
    ('t', 'house'), ('weft:waits / hosts-silent', 'hosts'), ('weft / verbs-qp', 'house'),
])
def test_part_of(name, part):
    assert run.part_of(name) == part


@pytest.mark.quick
@pytest.mark.parametrize('path,part', [
    ('src/nic/qp.c', 'house'), ('src/wire/roce/packet.c', 'wire'), ('src/wire/ape/router.c', 'torus'), ('src/card/loop.c', 'wire'),
    ('src/card/torus/run.c', 'torus'), ('tests/verbs/test_qp.c', 'house'), ('tests/softgpu/gpu.c', 'gpu'), ('bench/events.c', 'house'),
])
def test_part_of_a_source(path, part):
    assert run.part_of_source(path) == part


@pytest.mark.quick
def test_time_of_a_stage_is_shared():
    assert run.shared(10, collections.Counter(house=30, wire=10)) == {'house': 7.5, 'wire': 2.5}
    assert run.shared(10, collections.Counter()) == {'house': 10}
    both = run.Tally(seconds=run.shared(4, collections.Counter(wire=1))) + run.Tally(seconds=run.shared(2, collections.Counter()))
    assert both.seconds == {'wire': 4, 'house': 2}


def runner(tree, *argv):
    """All parts of the tree, even where this is a test of the only part that is run."""
    return subprocess.run([sys.executable, tree / 'tests/run.py', *argv], check=False, text=True,
                          capture_output=True, env={name: word for name, word in os.environ.items() if name != 'WEFT_PART'})


@pytest.fixture
def tree(tmp_path):
    """A small tree with one test in C and one lint script."""
    here = Path(run.__file__)
    (tmp_path / 'tests').mkdir()
    (tmp_path / 'tests/run.py').write_text(here.read_text())
    (tmp_path / 'tests/pytest.ini').write_text((here.parent / 'pytest.ini').read_text())
    (tmp_path / 'tests/test_x.py').write_text(
        'import pytest\n@pytest.mark.quick\ndef test_x():\n\tassert 1\n')
    (tmp_path / 'tools').mkdir()
    (tmp_path / 'tools/check-x').write_text('#!/bin/sh\nexit 0\n')
    (tmp_path / 'tools/check-x').chmod(0o755)
    (tmp_path / 'meson.build').write_text("project('x', 'c')\ntest('t', executable('t', 't.c'))\n")
    (tmp_path / 't.c').write_text('int main(void) { return 0; }\n')
    return tmp_path


def last_line(done):
    return done.stdout.splitlines()[-1]


def test_all_pass(tree):
    done = runner(tree, 'quick')
    assert (done.returncode, last_line(done)) == (0, '3 passed, 0 failed, 0 skipped')
    assert re.search(r'^\d+ s: house \d+$', done.stdout, re.M)


@pytest.mark.parametrize('path,text', [
    ('t.c', 'int main(void) { return 1; }\n'),
    ('t.c', 'int main(void) { __builtin_trap(); }\n'),
    ('tools/check-x', '#!/bin/sh\nexit 1\n'),
    ('tests/test_x.py', 'import pytest\n@pytest.mark.quick\ndef test_x():\n\tassert 0\n'),
    ('tests/test_x.py', 'import pytest\nimport nothing_of_this_name\n'),
])
def test_one_fails(tree, path, text):
    (tree / path).write_text(text)
    done = runner(tree, 'quick')
    assert done.returncode == 1
    assert ' 1 failed, ' in last_line(done)


def test_looks_again_after_an_installation(tree, monkeypatch):
    """`make demo` configures before `make check` has installed what its tests need."""
    (tree / 'meson.build').write_text(
        "project('x', 'c')\nfs = import('fs')\nif fs.exists('there')\n"
        "test('t', executable('t', 't.c'))\nendif\n")
    packages = tree / 'packages'
    packages.touch()
    monkeypatch.setenv('WEFT_PACKAGES', str(packages))
    assert last_line(runner(tree, 'quick')) == '2 passed, 0 failed, 0 skipped'
    (tree / 'there').touch()
    assert last_line(runner(tree, 'quick')) == '2 passed, 0 failed, 0 skipped'
    packages.touch()
    assert last_line(runner(tree, 'quick')) == '3 passed, 0 failed, 0 skipped'


def test_broken_build(tree):
    (tree / 't.c').write_text('no C\n')
    done = runner(tree, 'quick')
    assert (done.returncode, last_line(done)) == (1, '0 passed, 1 failed, 0 skipped')


def test_one_part(tree):
    """The test in C is of the house; a tree without the tests' own rules for pytest runs all of those."""
    assert last_line(runner(tree, '--part', 'house', 'quick')) == '3 passed, 0 failed, 0 skipped'
    assert last_line(runner(tree, '--part', 'torus', 'quick')) == '2 passed, 0 failed, 0 skipped'
    assert runner(tree, '--part', 'nothing', 'quick').returncode == 2


@pytest.mark.parametrize('part', ['wire', 'house'])
def test_programs_of_one_part(part):
    done = subprocess.run([sys.executable, '-m', 'pytest', '-p', 'no:cacheprovider', '-q', '--collect-only', 'tests/cli'],
                          check=True, text=True, capture_output=True, cwd=run.ROOT, env={**os.environ, 'WEFT_PART': part})
    assert ('test_nic.py' in done.stdout, 'test_info.py' in done.stdout) == (part == 'wire', part == 'house')


WHOLE = """import pytest
@pytest.mark.quick
def test_x():
	assert 1
@pytest.mark.aside
def test_aside():
	assert 1
@pytest.mark.waits
def test_waits():
	assert 1
@pytest.mark.alone
def test_alone():
	assert 1
"""


def test_what_runs_beside_is_counted_once(tree):
    """All of `make check`, in a tree with one test of each kind; it lacks only the sources whose coverage is asked for."""
    (tree / 'tests/test_x.py').write_text(WHOLE)
    for name in run.COUNTED:
        (tree / name).mkdir()
    (tree / run.COUNTED[0] / 'test_y.py').write_text('import pytest\n@pytest.mark.counted\ndef test_y():\n\tassert 1\n')
    shutil.copy(tree / 'tools/check-x', tree / 'tools/works.py')
    (tree / 'meson.build').write_text("project('x', 'c')\ne = executable('t', 't.c')\ntest('t', e)\n"
                                      "test('u', e, suite: 'aside')\ntest('v', e, suite: 'alone')\n"
                                      "test('w', e, suite: 'waits')\n")
    (tree / '.clang-tidy').write_text('Checks: bugprone-*\n')
    for name in ('coverage.h', 'tsan.supp'):
        (tree / 'tests' / name).write_text('')
    done = runner(tree, 'all')
    tools = shutil.which('gcovr') and shutil.which('clang-tidy')
    assert not tools or re.findall('^failed: .*', done.stdout, re.M) == [
        f'failed: coverage of {what}: 0.0 %' for what, *_ in sorted(run.COVERED, reverse=True)], done
    # check-x and works, t to w plain and sanitized twice and for coverage, the five of pytest, one of which
    # runs for coverage, too, and t.c under clang-tidy
    assert not tools or last_line(done) == f'25 passed, {len(run.COVERED)} failed, 0 skipped', done
    aside = (tree / 'build/aside.log').read_text()
    assert aside.splitlines()[-1] == (f'{6 if tools else 5} passed, {0 if tools else 1} failed, 0 skipped')
    assert done.stdout.count(aside) == 1
    asleep = (tree / 'build/asleep.log').read_text()
    assert asleep.splitlines()[-1] == '4 passed, 0 failed, 0 skipped'
    assert done.stdout.count(asleep) == 1


def test_a_failure_beside_is_one(tree):
    (tree / 'tests/test_x.py').write_text(WHOLE.replace('aside():\n\tassert 1', 'aside():\n\tassert 0'))
    assert runner(tree, 'quick').returncode == 0
    done = runner(tree, '--tally', tree / 'tally', 'aside')
    assert done.returncode == 1
    assert 'failed: test_x::test_aside' in json.loads((tree / 'tally').read_text())[3]


def test_skipped_script(tree):
    (tree / 'tools/check-x').write_text('#!/bin/sh\nexit 77\n')
    assert last_line(runner(tree, 'quick')) == '2 passed, 0 failed, 1 skipped'


def test_last_log_is_not_counted_again(tree):
    assert runner(tree, 'quick').returncode == 0
    (tree / 'tests/test_x.py').write_text('raise SystemExit(1)\n')
    done = runner(tree, 'quick')
    assert done.returncode == 1 and json.dumps(last_line(done)).count('2 passed')


def test_run_again(monkeypatch, tmp_path):
    """What passes by itself is counted as passed, and named; of many failures none is run again."""
    monkeypatch.setattr(run, 'unit', lambda folder, *words, **_: run.verdict('slow' in words, 'x'))
    monkeypatch.setattr(run, 'pytest', lambda folder, marks, name, where: run.verdict(where == ('tests/a.py::late',), 'x'))
    known = [('unit', 'slow'), ('unit', 'wrong'), ('pytest', 'tests/a.py::late'), ('pytest', 'tests/a.py::wrong')]
    failed = sum((run.Tally(failed=1, names=(f'failed: {what}',), again=((runner, str(tmp_path), what, (f'failed: {what}',)),))
                  for runner, what in known), run.Tally(passed=5))
    tally = run.run_again(failed)
    assert (tally.passed, tally.failed) == (7, 2)
    assert sorted(tally.names) == ['failed beside others, passed by itself: slow',
                                   'failed beside others, passed by itself: tests/a.py::late', 'failed: tests/a.py::wrong',
                                   'failed: wrong']
    many = sum([failed] * 6, run.Tally())
    assert run.run_again(many) == many
