# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""libweft-ape: each call and each error; when a counter says that a message is there."""
import pytest


def test_calls(live):
    live.weft('up', '2')
    assert 'PASSED' in live.weft('run', '--', live.fabric.program('torus-calls'))


@pytest.mark.parametrize('what', ['count', 'last'])
@pytest.mark.parametrize('rank,node', [(1, '1,0,0'), (7, '1,1,1')])
def test_litmus(live, rank, node, what, rounds=10000):
    """1 and 3 hops away."""
    live.weft('up', '2x2x2')
    programs = [live.start(at, 'torus-litmus', rank, rounds, what) for at in ('0,0,0', node)]
    assert [program.wait(500) for program in programs] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize('rank,node', [(1, '1,0,0'), (7, '1,1,1')])
def test_litmus_for_long(live, rank, node):
    test_litmus(live, rank, node, 'count', 1000000)


def test_no_node_is_named(live):
    """Outside of `weft torus run`."""
    import subprocess
    program = live.fabric.program('torus-pairs')
    done = subprocess.run([*live.fabric.prefix, program], env=live.env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and 'Invalid argument' in done.stderr
