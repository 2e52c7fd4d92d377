# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Open MPI on the nodes of a live torus, by UCX over verbs: each rank is a program of a node of its own, so that nothing
but the cables is between them."""
import re
import shutil
import subprocess

import pytest

from fabric import BUILD
from live import wait_until

pytestmark = pytest.mark.skipif(
    not shutil.which('mpirun') or not (BUILD / 'tests/programs/mpi').exists(),
    reason='no Open MPI (openmpi-bin, libopenmpi-dev)')
RANKS, ELEMENTS, WORD = 8, 64, 16
PATIENCE_S = 240


def mpirun(live, ranks, *program, order='xyz'):
    """Rank r on node r: `weft torus run -- mpirun …`, as a user writes it."""
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
    words = live.words('run', '--map', order, '--', 'mpirun', '-n', ranks, *program)
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, cwd='/', check=False,
                          env={**live.env, **root, 'TMPDIR': str(live.fabric.folder)})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def moved(live):
    """Bytes that all cables have carried."""
    return sum(cable['data'] for cable in live.status()['cables']) * WORD


def test_ranks_are_on_their_nodes(live):
    """More of them than nodes: modulo their number; arguments arrive as they are."""
    live.weft('up', '3x2')
    for order, nodes in ('xyz', ['0.0.0', '1.0.0', '2.0.0', '0.1.0', '1.1.0', '2.1.0', '0.0.0']), \
                        ('yxz', ['0.0.0', '0.1.0', '1.0.0', '1.1.0', '2.0.0', '2.1.0', '0.0.0']):
        said = mpirun(live, 7, 'sh', '-c', 'echo $OMPI_COMM_WORLD_RANK ${WEFT_TORUS_NODE##*/} "$1"', 'rank', 'a b', order=order)
        assert sorted(said.splitlines()) == [f'{rank} {node} a b' for rank, node in enumerate(nodes)]


def test_collectives_and_one_sided(live):
    live.weft('up', '2x2x2')
    said = mpirun(live, RANKS, live.fabric.program('mpi'), ELEMENTS)
    right = re.search(rf'{RANKS} ranks, {ELEMENTS} elements: (\d+) right', said)
    assert right and int(right[1]) > 90, said
    # not less than what one all-to-all moves, in each of its six forms; 12/7 hops from node to node in the mean
    least = 6 * RANKS * (RANKS - 1) * ELEMENTS * 8 * 12 / 7
    wait_until(lambda: moved(live) >= least, f'{least} bytes are not counted')
    assert all(node['refused'] == 0 for node in live.status()['nodes'])


@pytest.mark.skipif(not shutil.which('NPopenmpi'), reason='no NetPIPE (netpipe-openmpi)')
@pytest.mark.parametrize('hops', [1, 3])
def test_netpipe(live, hops):
    """Between two ranks so far from each other: each size goes there and back, at least so often."""
    live.weft('up', '2x2x2')
    node = '$r,0,0' if hops == 1 else '$r,$r,$r'
    rounds, most, out = 5, 4096, live.fabric.folder / 'np.out'
    before = moved(live)
    mpirun(live, 2, 'sh', '-c', f'r=$OMPI_COMM_WORLD_RANK; exec "$0" torus run --node {node} -- "$@"', live.fabric.command,
           'NPopenmpi', '-l', 1, '-u', most, '-n', rounds, '-o', out)
    sizes = [int(line.split()[0]) for line in out.read_text().splitlines()]
    assert max(sizes) >= most - 3 and len(sizes) > 20
    least = 2 * rounds * sum(sizes) * hops
    wait_until(lambda: moved(live) - before >= least, f'{least} bytes are not counted')
