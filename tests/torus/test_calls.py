# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""libweft-ape: when a counter says that a message is there. Calls and errors are in test_pages.py."""
import pytest


@pytest.mark.parametrize('what', ['count', 'last'])
@pytest.mark.parametrize('rank,node', [(1, '1,0,0'), (7, '1,1,1')])
def test_litmus(live, rank, node, what, rounds=10000):
    """The two ranks are 1 and 3 hops from each other."""
    live.weft('up', '2x2x2')
    programs = [live.start(at, 'torus-litmus', rank, rounds, what) for at in ('0,0,0', node)]
    assert [program.wait(500 + rounds // 400) for program in programs] == [0, 0]


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
