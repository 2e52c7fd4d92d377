# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's ibv_devices and ibv_devinfo see weft0."""
import re


def test_ibv_devices(fabric):
    assert re.search(r'^\s*weft0\s+[0-9a-f]{16}$', fabric.run('ibv_devices').stdout, re.M)


def test_ibv_devinfo_verbose(fabric):
    shown = fabric.run('ibv_devinfo', '-v').stdout
    values = dict(re.findall(r'^\s*([\w\[\], ]+?):\s+(.+?)\s*$', shown, re.M))
    assert values['hca_id'] == 'weft0'
    assert values['state'] == 'PORT_ACTIVE (4)'
    assert values['link_layer'] == 'Ethernet'
    assert values['atomic_cap'].startswith('ATOMIC_GLOB')
    assert values['vendor_id'] == '0xffffff'
    assert re.search(r'GID\[\s*\d+\]:.*RoCE v2', shown)


def test_ibv_devinfo_list(fabric):
    assert 'weft0' in fabric.run('ibv_devinfo', '-l').stdout
