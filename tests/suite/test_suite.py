# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""rdma-core's own tests over Weft: what passes on Linux's Soft-RoCE, which is the floor, passes here, or stands
in below-rxe.tsv with the reason. rxe.tsv is what play.py said in a guest (`make rxe`).

Beyond the floor, each test is as expected.tsv says: pass, skip, fail, or machine, which is pass or skip; all
but the first have a reason there. Doing better than the table fails, too, so that the table stays true.
Debian 13's suite has expected-56.tsv, and runs in `make check-dist`."""
import csv
import shutil
from pathlib import Path

import pytest

from fabric import Fabric
from suite import play

HERE = Path(__file__).parent


def table(text):
    """{test: (result, reason)} of play.py's lines."""
    rows = (line.split('\t') for line in text.splitlines() if not line.startswith('#'))
    return {test: (result, reason) for test, result, reason in rows}


def reasons():
    lines = (HERE / 'below-rxe.tsv').read_text().splitlines()
    return dict(line.split('\t') for line in lines if not line.startswith('#'))


def failures(here, rxe, excused):
    """What is wrong with the results here: below the floor without a reason, or with one too many."""
    passes = {test for test, (result, _) in here.items() if result == 'pass'}
    floor = {test for test, (result, _) in rxe.items() if result == 'pass'}
    missing = ('not run', '')
    return ([f'{test}: {" ".join(here.get(test, missing))}; passes on rxe'
             for test in sorted(floor - passes - excused)]
            + [f'{test}: is no test below rxe; take it out of below-rxe.tsv'
               for test in sorted(excused - (floor - passes))])


def expected(name='expected.tsv'):
    with open(HERE / name, newline='') as file:
        return list(csv.DictReader(file, delimiter='\t'))


@pytest.fixture(scope='module')
def here():
    """The table that play.py prints over Weft."""
    if not (play.SUITE / 'base.py.gz').exists():
        pytest.skip('rdma-core is not installed')
    with Fabric() as fabric:
        copy = shutil.copy2(play.__file__, fabric.folder)  # which an ordinary user may read
        done = fabric.start('/usr/bin/python3', copy, '--dev', 'weft0').wait(600)
        assert done.status == 0 and done.stdout, done.stderr
        return table(done.stdout)


def test_passes_what_passes_on_rxe(here):
    assert not failures(here, table((HERE / 'rxe.tsv').read_text()), set(reasons()))


def differences(here, rows):
    """What is not as expected."""
    states = {row['test']: row['state'] for row in rows}
    allowed = {'machine': ('pass', 'skip')}
    return [f'{test}: {" ".join(here.get(test, ("not run",)))}; expected {states.get(test)}'
            for test in sorted(states.keys() | here.keys())
            if test not in here
            or here[test][0] not in allowed.get(states.get(test), (states.get(test),))]


def test_is_as_expected(here):
    assert not differences(here, expected())


@pytest.mark.parametrize('name', ['expected.tsv', 'expected-56.tsv'])
def test_each_exception_has_a_reason(name):
    assert [row for row in expected(name) if (row['state'] == 'pass') != (not row['reason'])] == []


@pytest.mark.quick
def test_notices_what_is_not_as_expected():
    rows = [{'test': 'a', 'state': 'pass'}, {'test': 'b', 'state': 'skip'},
            {'test': 'c', 'state': 'machine'}, {'test': 'd', 'state': 'pass'}]
    here = {'a': ('pass', ''), 'b': ('skip', ''), 'c': ('pass', ''), 'd': ('pass', '')}
    assert differences(here, rows) == []
    assert differences({**here, 'b': ('pass', '')}, rows) == ['b: pass ; expected skip']
    assert differences({**here, 'c': ('fail', 'x')}, rows) == ['c: fail x; expected machine']
    assert differences({**here, 'e': ('pass', '')}, rows) == ['e: pass ; expected None']
    del here['a']
    assert differences(here, rows) == ['a: not run; expected pass']


@pytest.mark.quick
def test_notices_what_is_below():
    rxe = {'a': ('pass', ''), 'b': ('pass', ''), 'c': ('skip', 'no'), 'd': ('pass', '')}
    here = {'a': ('pass', ''), 'b': ('fail', 'why'), 'c': ('skip', 'no')}
    assert failures(here, rxe, {'b', 'd'}) == []
    assert failures(here, rxe, {'b'}) == ['d: not run ; passes on rxe']
    assert failures(here, rxe, {'a', 'b', 'd'}) == [
        'a: is no test below rxe; take it out of below-rxe.tsv']
    assert len(failures(here, rxe, {'c'})) == 3
