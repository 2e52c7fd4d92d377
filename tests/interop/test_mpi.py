# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Open MPI over UCX over Weft: four ranks on two cores, by the line that the README gives. Its own btl
openib cannot connect by librdmacm: as Debian builds it, it has udcm alone."""
import os
import re
import shutil

import pytest

from fabric import BUILD

pytestmark = pytest.mark.skipif(
    not shutil.which('mpirun') or not (BUILD / 'tests/programs/mpi').exists(),
    reason='no Open MPI (openmpi-bin, libopenmpi-dev)')
RANKS = 4
TRANSPORTS = pytest.mark.parametrize('transport', ['rc_v', 'ud_v'])


def mpirun(fabric, transport, ranks, *argv, seconds=120):
    """Runs on all cores that this process may use: otherwise children would inherit the pinning to one."""
    cores = ','.join(map(str, sorted(os.sched_getaffinity(0))))
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
    line = ['mpirun', '--oversubscribe', '-n', ranks, '--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx',
            '-x', f'UCX_TLS={transport},self']
    return fabric.run('taskset', '-c', cores, *line, *argv, seconds=seconds,
                      TMPDIR=str(fabric.folder), **root).stdout


def bytes_of(fabric):
    totals = fabric.totals()
    return sum(totals[f'bytes_{each}'] for each in ('write', 'read', 'send'))


@TRANSPORTS
@pytest.mark.parametrize('elements', [10, 20000])
def test_collectives_and_one_sided(fabric, transport, elements):
    shown = mpirun(fabric, transport, RANKS, fabric.program('mpi'), elements)
    assert int(re.search(rf'{RANKS} ranks, {elements} elements: (\d+) right', shown)[1]) > 90
    # not less than what one all-to-all moves between ranks, in each of its six forms
    assert bytes_of(fabric) >= 6 * RANKS * (RANKS - 1) * elements * 8


@TRANSPORTS
def test_netpipe(fabric, transport):
    most = 4096
    mpirun(fabric, transport, 2, 'NPopenmpi', '-i', '-u', most, '-o', fabric.folder / 'np.out')
    assert bytes_of(fabric) > 100 * most
