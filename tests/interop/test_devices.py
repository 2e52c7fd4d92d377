# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's ibv_devices, ibv_devinfo and ibv_asyncwatch see weft0."""
import re
from pathlib import Path

from fabric import wait_for


def asleep(pid):
    """Whether the process sleeps, as it does when it reads the descriptor of events."""
    return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] == 'S'


def test_ibv_devices(fabric):
    assert re.search(r'^\s*weft0\s+[0-9a-f]{16}$', fabric.run('ibv_devices').stdout, re.M)


def test_ibv_devinfo_verbose(fabric):
    shown = fabric.run('ibv_devinfo', '-v').stdout
    values = dict(re.findall(r'^\s*([\w\[\], ]+?):\s+(.+?)\s*$', shown, re.M))
    assert values['hca_id'] == 'weft0'
    assert values['state'] == 'PORT_ACTIVE (4)'
    assert values['link_layer'] == 'Ethernet'
    assert values['atomic_cap'].startswith('ATOMIC_HCA')
    assert values['vendor_id'] == '0xffffff'
    assert re.search(r'GID\[\s*\d+\]:.*RoCE v2', shown)


def test_ibv_devinfo_list(fabric):
    assert 'weft0' in fabric.run('ibv_devinfo', '-l').stdout


def test_ibv_asyncwatch(fabric):
    """Waits for events of the port, of which there are none: asleep."""
    watch = fabric.start('stdbuf', '-oL', 'ibv_asyncwatch', '-d', 'weft0')
    wait_for(lambda: re.search(r'^weft0: async event FD \d+$', watch.output().stdout, re.M), 'it waits')
    wait_for(lambda: asleep(watch.process.pid), 'it sleeps')
    assert watch.process.poll() is None and not watch.output().stderr
    assert all(fabric.owns(library) for library in watch.libraries())
    watch.kill()
