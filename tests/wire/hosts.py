# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Two hosts, as bench/veth.py makes them, of the build."""
from fabric import Fabric
import veth
from veth import Host, PORT  # noqa: F401  (for the tests)

FOUR, LINK = 3, 1  # indexes of GIDs: the IPv4 address, the link-local one


class Hosts(veth.Hosts):
    def __init__(self, mtu=9000, fabric=Fabric):
        super().__init__([fabric(), fabric()], mtu)


def check_moved(hosts, before, least):
    """least: bytes that must have gone from the first host since, and come to it."""
    moved = [{key: value - was[key] for key, value in now.items()} for was, now in zip(before, hosts.rest())]
    assert moved[0]['bytes_sent'] >= least[0] and moved[1]['bytes_received'] >= least[0], moved
    assert moved[1]['bytes_sent'] >= least[1] and moved[0]['bytes_received'] >= least[1], moved
    assert not moved[0]['wrong_icrc'] and not moved[1]['wrong_icrc'] and not moved[0]['unsent'], moved
