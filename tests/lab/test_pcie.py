# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs of Debian between two virtual machines with a kernel each, whose only common memory is the window of a
PCIe device: as an ordinary user, and over no card, as the counters of both hosts say."""
import re

import pytest

ROUNDS, BYTES = 200, 4096

# What it runs, and what each side is to have carried: at least that many of the counter.
PROGRAMS = {
    'ibv_rc_pingpong': (['-g', 1, '-n', ROUNDS, '-s', BYTES, '-c'], 'bytes_send', ROUNDS * BYTES),
    'ib_write_lat': (['-n', ROUNDS, '-s', 8, '-u', 20], 'ops_write', ROUNDS),
}


@pytest.mark.parametrize('program', PROGRAMS)
def test_both_ways(pcie, program):
    options, counter, least = PROGRAMS[program]
    before = [pcie.counted(host) for host in (0, 1)]
    for said in pcie.pair(program, *options):
        assert 'rror' not in said, said
    for host in (0, 1):
        pcie.await_carried(host, before[host], counter, least)


def test_one_way(pcie):
    """The client's host has carried all of it, and the server's only what the two programs tell each other."""
    before = [pcie.counted(host) for host in (0, 1)]
    said = pcie.pair('ib_send_bw', '-n', ROUNDS, '-s', 65536, '-u', 20)
    assert re.search(rf'^ 65536 +{ROUNDS} +[\d.]+', said[1], re.M), said[1]
    pcie.await_carried(1, before[1], 'bytes_send', ROUNDS * 65536)
    assert pcie.await_carried(0, before[0], 'bytes_send', 0)['bytes_send'] < 65536
