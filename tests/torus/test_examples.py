# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""examples/torus: what `make demo-torus` shows."""
import subprocess
import sys
from pathlib import Path

import pytest

from fabric import BUILD

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'examples/torus'))
import demo  # noqa: E402

PATIENCE_S = 550


@pytest.fixture(params=demo.LATTICES)
def shown(live, request):
    """What is said on one of the two lattices, by an ordinary user."""
    for name in 'halo', 'bfs':
        for kind in '', '-ape', '-mpi':
            if (BUILD / 'examples/torus' / (name + kind)).exists():
                live.fabric.program(name + kind)
    folder = live.fabric.program('halo').parent
    script = live.fabric.folder / 'demo.py'
    script.write_text((ROOT / 'examples/torus/demo.py').read_text())
    done = subprocess.run([*live.fabric.prefix, '/usr/bin/python3', script, '--weft', live.fabric.command, '--programs', folder,
                           request.param], capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd='/',
                          env={**live.env, 'TMPDIR': str(live.fabric.folder)})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_demo(shown):
    """Each is equal to its run in one process; the demo's own comparison is tested below."""
    assert '; 0 runs are wrong\n' in shown and 'all five checks hold' in shown
    assert shown.count('by libweft-ape: as in one process') == 2
    assert 'by MPI: as in one process' in shown or 'halo by MPI is left out' in shown
    assert not list(filter(lambda line: 'WRONG' in line or 'NOT AS' in line, shown.splitlines()))


def test_what_the_demo_compares():
    halo = ['63 iterations, residual 8.7e-11, |x|^2 = 2.182737306540e+04, <random, x> = -8.901956985851e+01']
    for there, equal in ((halo[0], True), (halo[0].replace('8.7e-11', '8.8e-11'), True),
                         (halo[0].replace('63', '64'), False), (halo[0].replace('306540', '306541'), True),
                         (halo[0].replace('7306540', '7506540'), False), (halo[0].replace('-8.9', '8.9'), False)):
        assert demo.is_equal(halo, [there]) == equal, there
    tree = ['root 1773: 1048057 edges, 6 levels, tree bd19e1a3']
    assert demo.is_equal(tree, tree) and not demo.is_equal(tree, [tree[0].replace('bd1', 'bd2')])
    assert not demo.is_equal(tree, [])
