# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""rdma-core's own tests over Weft: what passes on Linux's Soft-RoCE, which is the floor, passes here, or stands
in below-rxe.tsv with the reason. rxe.tsv is what play.py said in a guest (`make rxe`)."""
import shutil
from pathlib import Path

import pytest

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


@pytest.mark.skipif(not (play.SUITE / 'base.py.gz').exists(), reason='rdma-core is not installed')
def test_passes_what_passes_on_rxe(fabric):
    copy = shutil.copy2(play.__file__, fabric.folder)  # which an ordinary user may read
    done = fabric.start('/usr/bin/python3', copy, '--dev', 'weft0').wait(600)
    assert done.status == 0 and done.stdout, done.stderr
    here = table(done.stdout)
    assert not failures(here, table((HERE / 'rxe.tsv').read_text()), set(reasons()))


@pytest.mark.quick
def test_notices_what_is_below():
    rxe = {'a': ('pass', ''), 'b': ('pass', ''), 'c': ('skip', 'no'), 'd': ('pass', '')}
    here = {'a': ('pass', ''), 'b': ('fail', 'why'), 'c': ('skip', 'no')}
    assert failures(here, rxe, {'b', 'd'}) == []
    assert failures(here, rxe, {'b'}) == ['d: not run ; passes on rxe']
    assert failures(here, rxe, {'a', 'b', 'd'}) == [
        'a: is no test below rxe; take it out of below-rxe.tsv']
    assert len(failures(here, rxe, {'c'})) == 3
