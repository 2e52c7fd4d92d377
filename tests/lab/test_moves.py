# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory of programs migrates to the window of a PCIe device, and to a device-dax that maps single pages: tests/memory/ on both, in a
guest, where what the kernel shows and refuses of a device's mappings is its own."""
import shutil

import pytest

from fabric import BUILD
from lab.guests import missing, vm

pytestmark = pytest.mark.timeout(1800)  # the guest boots within the first

# How much of it; of CXL each access is emulated.
MIB = {'pcie': 256, 'cxl': 16}


@pytest.fixture(scope='module', params=['pcie', pytest.param('cxl', marks=pytest.mark.slow)])
def guest(lab, request):
    """One guest, whose device no pool has, and the test programs in it."""
    if why := missing(request.param):
        pytest.skip(why)
    with vm.Machines(request.param, guests=1, emulated=True) as machines:
        for name in 'race', 'device':
            shutil.copy(BUILD / f'tests/memory/test-memory-{name}', machines.guests[0].job)
        machines.boot()
        yield machines.guests[0], machines.backing.path, MIB[request.param]


def test_whole(guest):
    machine, device, mib = guest
    said = machine.run('/run/job/test-memory-device', device, mib)
    assert 'PASSED' in said and 'FAILED' not in said, said


@pytest.mark.parametrize('seconds', [0.4, pytest.param(20, marks=pytest.mark.slow)])
def test_stores(guest, seconds):
    """None of a thread's is lost."""
    machine, device, _ = guest
    said = machine.run('/run/job/test-memory-race', seconds, device)
    assert said.count(' 0 lost, 0 system calls failed, 0 extents left') == 5, said
    assert 'does not allow' not in said, said
