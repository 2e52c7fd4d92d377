# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The table of what works says what the results say, and any difference is found."""
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools'))
import works  # noqa: E402

pytestmark = [pytest.mark.quick, pytest.mark.aside]
PAGE = 'above\n<!-- works: a note -->\nold\n<!-- end of works -->\nbelow\n'
TRAPS = '# a note\nabout\tfact\ttest\nprograms\tboth\tinterop/x::a\n'
GOOD = {'test_a[1]': '', 'test_a[2]': '', 'test_b': ''}


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Writes or checks a page by the given results; (status, page)."""
    monkeypatch.setattr(works, 'SECTIONS', {'Programs': [('first', r'interop/x::a'),
                                                         ('both', r'interop/x::b', r'verbs-y')]})
    path = tmp_path / 'page.md'
    path.write_text(PAGE)
    monkeypatch.setattr(works, 'TRAPS', tmp_path / 'traps.tsv')
    (tmp_path / 'traps.tsv').write_text(TRAPS)

    def call(python, c='ok 1 - a\n', check=False, result='OK'):
        cases = ''.join(f'<testcase classname="{where or "interop.test_x"}" name="{name}">{inner}</testcase>'
                        for (where, _, name), inner in ((key.rpartition('::'), inner) for key, inner in python.items()))
        (tmp_path / 'pytest.xml').write_text(f'<testsuites><testsuite>{cases}</testsuite>'
                                             '</testsuites>')
        test = {'name': 'weft:long / verbs-y', 'result': result, 'stdout': c,
                'command': [str(tmp_path / 'tests/verbs/test-verbs-y')]}
        (tmp_path / 'meson-logs').mkdir(exist_ok=True)
        (tmp_path / 'meson-logs/testlog.json').write_text(json.dumps(test) + '\n')
        monkeypatch.setattr(sys, 'argv', ['works.py', '--build', str(tmp_path), '--readme', str(path),
                                          *(['--check'] if check else [])])
        return works.main(), path.read_text()
    return call


def states(text):
    return [line.split(' | ')[1] for line in text.splitlines() if line.startswith('| ')][1:]


def test_all_pass(page):
    status, text = page(GOOD)
    assert status == 0 and states(text) == ['works', 'works']
    assert text.startswith('above\n') and text.endswith('\nbelow\n') and 'old' not in text
    assert '[interop/test_x.py](tests/interop/test_x.py), [verbs/test_y.c](tests/verbs/test_y.c)' in text
    assert page(GOOD, check=True)[0] == 0


@pytest.mark.quick
def test_rows_are_those_of_the_page():
    """In their order; what they say of tests is judged at the end of a whole run."""
    said = [line for line in works.readme.content('works', works.readme.README) if line.startswith('| ') and not line.startswith('|--')]
    rows = [title for section, rows in works.SECTIONS.items() for title in [section, *(what for what, *_ in rows)]]
    assert [line[2:].split(' | ')[0] for line in said] == rows


def test_programs_between_two_kernels(page, monkeypatch):
    """They are a column of one section; in another they show a row as all do."""
    monkeypatch.setattr(works, 'SECTIONS', {works.BESIDE: [('beside', r'interop/x::', r'lab/programs::')],
                                            'Others': [('alone', r'lab/programs::', r'verbs-y')]})
    text = page({**GOOD, 'lab.test_programs::test_p': ''})[1]
    assert '| beside | works | works |' in text
    assert '| alone | works | [lab/test_programs.py](tests/lab/test_programs.py), [verbs/test_y.c](tests/verbs/test_y.c) |' in text


def test_run_again(page, tmp_path):
    """Of a program that was run again by itself the first run does not count, even if it told no cases."""
    page(GOOD)
    log = tmp_path / 'meson-logs/testlog.json'
    shutil.copy(log, log.with_name('testlog-again-0.json'))
    assert page(GOOD, '', check=True, result='TIMEOUT')[0] == 0
    log.with_name('testlog-again-0.json').unlink()
    assert page(GOOD, '', check=True, result='TIMEOUT')[0] == 1


@pytest.mark.parametrize('python,c,found', [
    ({'test_a[2]': '<failure/>'}, 'ok 1 - a\n', ['fails', 'works']),
    ({'test_a[1]': '<error/>'}, 'ok 1 - a\n', ['fails', 'works']),
    ({'test_a[1]': '<skipped/>'}, 'ok 1 - a\n', ['skipped', 'works']),
    ({'test_a[1]': '<skipped/>', 'test_a[2]': '<failure/>'}, 'ok 1 - a\n', ['fails', 'works']),
    ({}, 'ok 1 - a\nnot ok 2 - b\n', ['works', 'fails']),
    ({}, 'ok 1 - a\nok 2 # SKIP b\n', ['works', 'skipped']),
])
def test_states(page, python, c, found):
    assert page(GOOD)[0] == 0
    status = page({**GOOD, **python}, c, check=True)[0]
    assert status == (1 if 'fails' in found else 77)
    assert states(page({**GOOD, **python}, c)[1]) == found
    assert page({**GOOD, **python}, c, check=True)[0] == 0


def test_skipped_on_the_page_but_not_here(page):
    page({**GOOD, 'test_b': '<skipped/>'})
    assert page(GOOD, check=True)[0] == 77


@pytest.mark.parametrize('result,c,state', [
    ('FAIL', 'ok 1 - a\n', 'fails'),     # and then it crashed
    ('TIMEOUT', '', 'fails'),
    ('OK', 'no lines of TAP', 'works'),
    ('SKIP', '', 'skipped'),
])
def test_whole_programs(page, result, c, state):
    assert states(page(GOOD, c, result=result)[1]) == ['works', state]


def test_other_words_on_the_page(page):
    assert page(GOOD, check=True)[0] == 1


@pytest.mark.parametrize('check', [False, True])
@pytest.mark.parametrize('python', [
    {'test_a[1]': ''},             # a pattern without results
    {**GOOD, 'test_new': ''},      # a program that no row shows
])
def test_rows_and_results_do_not_fit(page, python, check):
    page(GOOD)
    assert page(python, check=check)[0] == 1


@pytest.mark.parametrize('test', ['interop/x::gone', 'interop/x::a[1]', 'verbs-y::gone', 'verbs-y'])
def test_trap_that_nobody_ran(page, tmp_path, test, capsys):
    assert page(GOOD)[0] == 0
    (tmp_path / 'traps.tsv').write_text(f'{TRAPS}verbs\tanother\t{test}\n')
    assert page(GOOD)[0] == 1
    assert f'verbs: another: {test} was not run' in capsys.readouterr().out


def of_python(program, case):
    folder, stem = program.split('/')
    return f'def test_{case}(' in (ROOT / f'tests/{folder}/test_{stem}.py').read_text()


def of_c(program, case):
    """Whether a C test has that case; those of verbs-errors are the rows of a table."""
    folder, stem = program.split('-', 1)
    rows = (ROOT / 'tests/verbs/errors.tsv').read_text().splitlines()
    if program == 'verbs-errors':
        return case in {re.sub(r'\W', '_', '_'.join(row.split('\t')[:2])) for row in rows}
    return re.search(rf'\({case}[,)]', (ROOT / f'tests/{folder}/test_{stem}.c').read_text())


def test_each_trap_has_a_test():
    """Each trap names a test that exists; that it was run, the tool sees afterwards."""
    facts = [(about, fact) for about, fact, _ in works.traps()]
    assert len(facts) > 50 and len(set(facts)) == len(facts)
    for about, fact, test in works.traps():
        program, case = test.split('::')
        found = of_python(program, case) if '/' in program else of_c(program, case)
        assert found, f'{about}: {fact}: there is no {test}'


def test_no_results(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['works.py', '--build', str(tmp_path)])
    with pytest.raises(SystemExit, match='no results'):
        works.main()


def test_between_two_kernels(page, monkeypatch):
    """A column of its own: what the lab found of a row's programs, what it has none of, and what only `make slow` runs."""
    monkeypatch.setattr(works, 'BESIDE', 'Programs')
    monkeypatch.setattr(works, 'SECTIONS', {'Programs': [
        ('first', r'interop/x::a', r'lab/programs::program\[a'), ('both', r'interop/x::b', r'lab/programs::program\[b'),
        ('none', r'verbs-y')]})
    guests = 'lab.test_programs::test_program[a, plain]'
    for found, said in (('', 'works'), ('<failure/>', 'fails'), ('<skipped/>', 'skipped')):
        status, text = page({**GOOD, guests: found})
        columns = [line.split(' | ')[2] for line in text.splitlines() if line.startswith('| ')][1:]
        assert status == 0 and columns == [said, '`make slow`', '']
