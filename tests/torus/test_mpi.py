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
# Rank r on node r, x first.
ON_ITS_NODE = ('r=$OMPI_COMM_WORLD_RANK; weft=$1; shift; '
               'exec "$weft" torus run --node $((r % 2)),$((r / 2 % 2)),$((r / 4)) -- "$@"')


def test_collectives_and_one_sided(live):
    live.weft('up', '2x2x2')
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
    line = ['mpirun', '--oversubscribe', '-n', str(RANKS), '--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx',
            '-x', 'UCX_TLS=rc_v,self', 'sh', '-c', ON_ITS_NODE, 'rank', str(live.fabric.command),
            str(live.fabric.program('mpi')), str(ELEMENTS)]
    done = subprocess.run([*live.fabric.prefix, *line], capture_output=True, text=True, timeout=240, cwd='/', check=False,
                          env={**live.env, **root, 'TMPDIR': str(live.fabric.folder)})
    assert done.returncode == 0, done.stdout + done.stderr
    right = re.search(rf'{RANKS} ranks, {ELEMENTS} elements: (\d+) right', done.stdout)
    assert right and int(right[1]) > 90, done.stdout
    # not less than what one all-to-all moves, in each of its six forms; 12/7 hops from node to node in the mean
    least = 6 * RANKS * (RANKS - 1) * ELEMENTS * 8 * 12 / 7
    wait_until(lambda: sum(cable['data'] for cable in live.status()['cables']) * WORD >= least,
               f'{least} bytes are not counted')
    assert all(node['refused'] == 0 for node in live.status()['nodes'])
