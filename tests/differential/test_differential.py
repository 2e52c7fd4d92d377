# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Random verbs on Weft and on Linux's Soft-RoCE, whose outcomes are recorded in rxe-GROUP-SEED.xz: where they
differ, differences.tsv says why. README.md explains its columns."""
import lzma
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RECORDS = sorted(HERE.glob('rxe-*.xz'))


@dataclass
class Rule:
    where: re.Pattern
    rxe: re.Pattern
    weft: str
    why: str
    used: bool = False


def rules():
    lines = (HERE / 'differences.tsv').read_text().splitlines()
    cells = [line.split('\t') for line in lines if line and not line.startswith('#')]
    return [Rule(re.compile(where), re.compile(rxe), weft, why) for where, rxe, weft, why in cells]


def explained(what, rxe, weft, known):
    """Whether the rules turn Soft-RoCE's outcome into Weft's."""
    for rule in known:
        if not rule.where.search(what) or not rule.rxe.search(rxe):
            continue
        if rule.weft.startswith('~'):
            if re.fullmatch(rule.weft[1:], weft):
                rule.used = True
                return True
            continue
        rxe = rule.rxe.sub(rule.weft, rxe, )
        rule.used = True
    return rxe == weft


def unexplained(rxe, weft, known):
    """The differences that no rule explains, as text; marks the rules that were needed."""
    assert len(rxe) == len(weft), 'one of the two did not finish'
    for theirs, ours in zip(rxe, weft):
        (what, rxe_outcome), (same, outcome) = theirs.split(' => '), ours.split(' => ')
        assert what == same
        if not explained(what, rxe_outcome, outcome, known):
            yield f'{what}\n    rxe:  {rxe_outcome}\n    weft: {outcome}'


def record(path):
    """The group, the seed and the lines of a recording, whose first line says on what it was made."""
    head, *lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    assert head.startswith('# ')
    _, group, seed = path.stem.split('-')
    return group, seed, lines


@pytest.mark.skipif(not RECORDS, reason='nothing is recorded')
@pytest.mark.waits
def test_differs_from_rxe_only_as_explained(fabric):
    known, wrong = rules(), []
    # all at once, as most of the time passes in waiting for what must not come
    runs = [(lines, fabric.start(fabric.program('differential'), group, seed, len(lines)))
            for group, seed, lines in map(record, RECORDS)]
    for lines, run in runs:
        done = run.wait(300)  # its stderr has messages about the errors that the cases make
        assert done.status == 0, done.stderr
        wrong += unexplained(lines, done.stdout.splitlines(), known)
    assert not wrong, '\n'.join(wrong[:20])
    assert sum(n for name, n in fabric.totals().items() if name.startswith('bytes'))
    assert not [rule.where.pattern + ' ' + rule.rxe.pattern for rule in known if not rule.used]


@pytest.mark.quick
def test_notices_what_nothing_explains():
    rule = Rule(re.compile('^a'), re.compile(r'x=(\d)'), r'y=\1', 'because')
    assert not list(unexplained(['a => x=1', 'b => z'], ['a => y=1', 'b => z'], [rule]))
    assert rule.used
    assert len(list(unexplained(['b => x=1'], ['b => y=1'], [rule]))) == 1
    assert len(list(unexplained(['a => x=1'], ['a => y=2'], [rule]))) == 1
    assert len(list(unexplained(['a => x=1'], ['a => x=1'], [rule]))) == 1
