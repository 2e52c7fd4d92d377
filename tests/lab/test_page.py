# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What docs/machines.md says to type, typed as it stands there in two fresh guests, ends in ibv_rc_pingpong between them."""
import re
import time

import pytest

from lab.guests import LAB, Guests, missing, vm

PAGE = (LAB.parent / 'docs/machines.md').read_text()
POOLS = {'pcie': 'pci:0000:00:10.0', 'cxl': 'dax:/dev/dax0.0'}
PINGPONG_S = 600

pytestmark = pytest.mark.timeout(1800)


def steps():
    """The commands of "Step by step", in order: [(whether as root, command)]."""
    part = re.search(r'^## Step by step\n(.*?)^## ', PAGE, re.S | re.M)[1]
    blocks = re.findall(r'^```console\n(.*?)^```', part, re.S | re.M)
    return [(line[0] == '#', line[2:]) for block in blocks for line in block.splitlines()]


def of_device(backing):
    """As root, on every machine; and the one command that makes the pool."""
    dax = [line for root, line in steps() if root and ('pci' not in line.split('modprobe')[0] or 'cxl' in line)]
    pcie = [line for root, line in steps() if root and line not in dax]
    lines = dax if backing == 'cxl' else pcie
    return lines[:-1], lines[-1]


def of_user(backing):
    """As an ordinary user of the group; the page has them for the PCIe window."""
    return [line.replace(POOLS['pcie'], POOLS[backing]) for root, line in steps() if not root]


def test_page_is_whole():
    """Each command is one of a test below."""
    device = [*of_device('pcie')[0], of_device('pcie')[1], *of_device('cxl')[0], of_device('cxl')[1]]
    assert sorted([*device, *of_user('pcie')]) == sorted(line for _, line in steps())
    assert [line.split()[:3] for line in (of_device('pcie')[1], of_device('cxl')[1])] == [['weft', 'pool', 'create']] * 2
    assert [' '.join(line.split()[:3]).split(' --')[0] for line in of_user('pcie')] == ['weft host up', 'weft run']
    for command in ('weft host --pool pci:0000:00:10.0', 'weft pool rm --pool pci:0000:00:10.0'):
        assert f'`{command}`' in PAGE


class Shell:
    """A machine's commands, by the path that an installed Weft has."""

    def __init__(self, machines, number):
        self.guest, self.path = machines.guests[number], machines.weft.parent

    def begin(self, line, root):
        user = [] if root else ['setpriv', '--reuid=65534', '--regid=rdma', '--clear-groups']
        return self.guest.start(*user, 'bash', '-e', '-c', f'PATH={self.path}:$PATH; {line}', root=True)

    def type(self, line, root=False):
        return self.begin(line, root).done(PINGPONG_S)

    def give_device(self, lines):
        """Drivers that were just loaded have found their devices after a while."""
        found = ''
        if lines[0].startswith('modprobe'):
            self.type(lines[0], root=True)
            lines = lines[1:]
            found = 'until ls /sys/bus/cxl/devices/mem0/ram/size /sys/bus/cxl/devices/endpoint*/decoder*.0; do sleep 0.2; done >/dev/null 2>&1\n'
        self.type(found + '\n'.join(lines), root=True)


@pytest.mark.parametrize('backing', ['pcie', pytest.param('cxl', marks=pytest.mark.slow)])
def test_fresh_guests(lab, backing):
    why = missing(backing)
    if why:
        pytest.skip(why)
    device, create = of_device(backing)
    up, run = of_user(backing)
    with Guests(backing, emulated=True, bare=True) as machines:
        shells = [Shell(machines, number) for number in (0, 1)]
        with pytest.raises(vm.Trouble, match='weft'):
            shells[0].type(create, root=False)  # the device is nobody's yet
        for shell in shells:
            shell.give_device(device)
        shells[0].type(create, root=True)
        for number, shell in enumerate(shells):
            shell.type(up.replace('--host 0', f'--host {number}'))
        server = shells[0].begin(run, root=False)
        try:
            machines.await_listener(server, 18515)
            said = shells[1].type(f'{run} {machines.guests[0].address}')
            assert re.search('^1000 iters in ', said, re.M), said
            assert 'iters in' in server.done(PINGPONG_S)
        finally:
            server.kill()
        listed = shells[0].type(f'weft host --pool {POOLS[backing]}')
        assert 'guest0' in listed and 'guest1' in listed, listed
        end, removed = time.monotonic() + PINGPONG_S, None
        while removed is None:  # a host whose last program has gone is there until it is silent
            try:
                removed = shells[0].type(f'weft pool rm --pool {POOLS[backing]}')
            except vm.Trouble:
                assert time.monotonic() < end
