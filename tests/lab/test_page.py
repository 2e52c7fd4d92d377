# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What docs/machines.md says to type, typed as it stands there in two fresh guests, ends in ibv_rc_pingpong between them."""
import re
import time
from pathlib import Path

import pytest

from lab.guests import LAB, Guests, missing, vm

PAGE = (LAB.parent / 'docs/machines.md').read_text()
POOLS = {'pcie': 'pci:0000:00:10.0', 'cxl': 'dax:/dev/dax0.0'}
PINGPONG_S = 600
UDEV = [Path('/lib/systemd/systemd-udevd'), '--daemon']

pytestmark = pytest.mark.timeout(1800)


def steps():
    """The commands of "Step by step", in order: [(whether as root, command)]."""
    part = re.search(r'^## Step by step\n(.*?)^## ', PAGE, re.S | re.M)[1]
    blocks = re.findall(r'^```console\n(.*?)^```', part, re.S | re.M)
    return [(line[0] == '#', line[2:]) for block in blocks for line in block.splitlines()]


def udev_rule():
    """Of the PCIe device: the first of the rules."""
    return re.search('^ACTION==.*$', re.search(r'^## From boot on\n(.*?)^## ', PAGE, re.S | re.M)[1], re.M)[0]


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
    assert [' '.join(line.split()[:3]).split(' --')[0] for line in of_user('pcie')] == ['weft pool test', 'weft host up', 'weft run']
    for command in ('weft host --pool pci:0000:00:10.0', 'weft pool rm --pool pci:0000:00:10.0',
                    'weft pool evict HOST --yes --pool pci:0000:00:10.0', 'weft host up --pool pci:0000:00:10.0 --host 0'):
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


    def give_device_by_rule(self):
        """As at boot: udev hears of the devices that are there already."""
        self.type(f"mkdir -p /run/udev/rules.d; echo '{udev_rule()}' >/run/udev/rules.d/70-weft.rules; {' '.join(map(str, UDEV))} 2>/dev/null; "
                  'udevadm trigger --action=add --subsystem-match=pci; udevadm settle', root=True)


def succeeds(shell, line):
    try:
        shell.type(line)
    except vm.Trouble:
        return False
    return True


def until(holds):
    end = time.monotonic() + PINGPONG_S
    while not holds():
        assert time.monotonic() < end


@pytest.mark.parametrize('backing', ['pcie', pytest.param('cxl', marks=pytest.mark.slow)])
def test_fresh_guests(lab, backing):
    why = missing(backing)
    if why:
        pytest.skip(why)
    device, create = of_device(backing)
    test, up, run = of_user(backing)
    with Guests(backing, emulated=True, bare=True) as machines:
        shells = [Shell(machines, number) for number in (0, 1)]
        with pytest.raises(vm.Trouble, match='weft'):
            shells[0].type(create, root=False)  # the device is nobody's yet
        shells[0].give_device(device)
        if backing == 'pcie' and UDEV[0].exists():
            shells[1].give_device_by_rule()
        else:
            shells[1].give_device(device)
        shells[0].type(create, root=True)
        for side in [shell.begin(test, root=False) for shell in shells]:
            said = side.done(PINGPONG_S)
            assert re.search('^wrong +no$', said, re.M) and 'nothing wrong was seen, which is no proof' in said, said
            assert re.search(f'^atomics +{"yes" if "--atomics" in create else "no"}$', said, re.M), said
            assert re.search('^one kernel +no$', said, re.M) and 'guest0' in said and 'guest1' in said, said
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
        shells[1].begin(f'{up} --stay'.replace('--host 0', '--host 1'), root=False)
        until(lambda: re.search('^ *1 +guest1 +[0-9]+ +up ', shells[0].type(f'weft host --pool {POOLS[backing]}'), re.M))
        machines.guests[1].kill()  # its machine is off
        evict = f'weft pool evict 1 --yes --pool {POOLS[backing]}'
        until(lambda: succeeds(shells[0], evict))
        assert re.search('^ *1 +guest1 +[0-9]+ +evicted ', shells[0].type(f'weft host --pool {POOLS[backing]}'), re.M)
        # a host whose last program has gone is there until it is silent
        until(lambda: succeeds(shells[0], f'weft pool rm --pool {POOLS[backing]}'))
