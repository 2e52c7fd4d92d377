# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The GID table follows the addresses of the network namespace."""
import ipaddress
import json
import os
import re

import pytest

from fabric import namespaces

V1, V2 = 'RoCE v1', 'RoCE v2'


alone = pytest.mark.skipif(not namespaces(), reason='no user namespaces here')


def table(shown):
    found = re.findall(r'GID\[\s*(\d+)\]:\s*(\S+), (RoCE v\d)', shown)
    assert [int(index) for index, _, _ in found] == list(range(len(found)))
    return [(ipaddress.IPv6Address(gid), kind) for _, gid, kind in found]


def both(*gids):
    return [(ipaddress.IPv6Address(gid), kind) for gid in gids for kind in (V1, V2)]


def of_mac(mac):
    octets = bytearray.fromhex(mac.replace(':', ''))
    octets[0] ^= 2
    return bytes.fromhex('fe80') + bytes(6) + octets[:3] + b'\xff\xfe' + octets[3:]


def inside(fabric, script):
    """Runs a script in a network namespace of its own, then shows its links and the GID table."""
    script += '\nip -j addr; ibv_devinfo -v'
    shown = fabric.run('unshare', '-rn', 'sh', '-ec', script).stdout
    links = {link['ifname']: link for link in json.loads(shown.splitlines()[0])}
    return links, table(shown)


def only_lo(gids):
    assert gids[0][0].is_link_local
    assert gids == both(gids[0][0], '::ffff:127.0.0.1')


@alone
def test_new_namespace(fabric):
    only_lo(inside(fabric, '')[1])


@alone
def test_only_lo(fabric):
    only_lo(inside(fabric, 'ip link set dev lo up')[1])


@alone
def test_addresses_in_the_kernels_order(fabric):
    links, gids = inside(fabric, '''
        ip link set dev lo up
        ip link add left type veth peer name right
        ip addr add 2001:db8::5/64 dev right nodad
        ip addr add 10.1.2.3/24 dev right label right:1
        ip addr add 10.1.2.4/24 dev right
        ip link set dev left up
        ip link set dev right up''')
    # an interface without an IPv4 address comes after those that have one, though its index is lower
    assert gids[:8] == both(of_mac(links['right']['address']), '::ffff:10.1.2.3', '::ffff:10.1.2.4',
                            '2001:db8::5')
    assert set(gids[8:]) <= set(both(of_mac(links['left']['address'])))


@alone
def test_interface_that_is_down_has_no_gids(fabric):
    only_lo(inside(fabric, '''
        ip link add left type veth peer name right
        ip addr add 10.1.2.3/24 dev right''')[1])


@alone
@pytest.mark.skipif(not os.access('/dev/net/tun', os.R_OK | os.W_OK), reason='no /dev/net/tun here')
def test_interface_without_hardware_address(fabric):
    _, gids = inside(fabric, '''
        ip tuntap add dev tun0 mode tun
        ip addr add 10.9.8.7/24 dev tun0
        ip link set dev tun0 up''')
    assert gids[0][0].is_link_local
    assert gids[:4] == both(gids[0][0], '::ffff:10.9.8.7')


def test_index_3_is_the_usual_choice(fabric):
    """On this host, whatever addresses it has."""
    gids = table(fabric.run('ibv_devinfo', '-v').stdout)
    assert gids[1][0].is_link_local and gids[1][1] == V2
    assert gids[3][1] == V2 and not gids[3][0].is_link_local
