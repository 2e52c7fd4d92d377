# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Decoders that are not ours read the engine's packets: tshark finds nothing malformed, and the fields that were
sent; scapy, and twelve lines over zlib, compute the same ICRCs."""
import csv
import re
import shutil
import struct
import subprocess
import zlib

import pytest

from fabric import BUILD

pytestmark = pytest.mark.aside

# Our names, and tshark's.
FIELDS = {
    'opcode': 'bth.opcode', 'se': 'bth.se', 'm': 'bth.m', 'padcnt': 'bth.padcnt', 'pkey': 'bth.p_key',
    'destqp': 'bth.destqp', 'a': 'bth.a', 'psn': 'bth.psn', 'q_key': 'deth.q_key', 'srcqp': 'deth.srcqp',
    'va': 'reth.va', 'r_key': 'reth.r_key', 'dmalen': 'reth.dmalen', 'swapdt': 'atomiceth.swapdt',
    'cmpdt': 'atomiceth.cmpdt',
    'syndrome': 'aeth.syndrome', 'msn': 'aeth.msn', 'origremdt': 'atomicacketh.origremdt',
}
ATOMIC_WRITE = 0x1d  # newer than Debian 12's tshark
CRC = 'invariant.crc'


@pytest.fixture(scope='module')
def frames(tmp_path_factory):
    """The file, and what was put into it: a dictionary a frame."""
    path = tmp_path_factory.mktemp('frames') / 'frames.pcap'
    said = subprocess.run([BUILD / 'tests/wire/frames', path], check=True, capture_output=True, text=True).stdout
    sent = [{k: int(v) for k, v in (word.split('=') for word in line.split())} for line in said.splitlines()]
    assert len({frame['opcode'] for frame in sent}) >= 38
    assert len(sent) > 200
    return path, sent


def packets(path):
    """The frames' bytes, from the IP header on."""
    data, at = path.read_bytes(), 24
    while at < len(data):
        size = struct.unpack_from('<I', data, at + 8)[0]
        yield data[at + 16 + 14:at + 16 + size]
        at += 16 + size


def number(text):
    return {'True': 1, 'False': 0}[text] if text in ('True', 'False') else int(text, 0)


def test_tshark(frames):
    if not shutil.which('tshark'):
        pytest.skip('tshark is not installed')
    path, sent = frames
    names = [f'infiniband.{name}' for name in [*FIELDS.values(), CRC]]
    done = subprocess.run(['tshark', '-r', path, '-T', 'fields', '-E', 'header=y', '-e', '_ws.malformed', '-e',
                           '_ws.expert.message', *[word for name in names for word in ('-e', name)]],
                          check=True, capture_output=True, text=True)
    rows = list(csv.DictReader(done.stdout.splitlines(), delimiter='\t'))
    assert len(rows) == len(sent)
    for row, frame, packet in zip(rows, sent, packets(path)):
        # the payloads are random bytes: tshark takes some for RPC or IP, and calls those malformed
        wrong = set(re.findall(r'Malformed Packet: ([^]]+)', row['_ws.malformed']))
        assert wrong <= {'RPCoRDMA', 'RPC', 'IPv4', 'IPv6', 'Ethertype', 'ARP'}, (row, frame)
        for ours, theirs in FIELDS.items():
            shown = row[f'infiniband.{theirs}']
            if frame['opcode'] == ATOMIC_WRITE and not theirs.startswith('bth'):
                continue
            assert (number(shown) if shown else None) == frame.get(ours), (ours, row, frame)
        if frame['opcode'] != ATOMIC_WRITE and not wrong:
            assert number(row[f'infiniband.{CRC}']) == struct.unpack('>I', packet[-4:])[0]


def icrc(packet):
    """Of an IP packet, as annex A17 has it."""
    masked = bytearray(packet[:-4])
    if masked[0] >> 4 == 4:
        for at in (1, 8, 10, 11):
            masked[at] = 0xff
        udp = 20
    else:
        masked[0:4] = b'\x6f\xff\xff\xff'
        masked[7] = 0xff
        udp = 40
    masked[udp + 6:udp + 8] = b'\xff\xff'
    masked[udp + 8 + 4] = 0xff
    return zlib.crc32(b'\xff' * 8 + masked)


def test_zlib(frames):
    path, sent = frames
    crcs = [(icrc(packet), struct.unpack('<I', packet[-4:])[0]) for packet in packets(path)]
    assert len(crcs) == len(sent)
    assert all(a == b for a, b in crcs)


def test_scapy(frames):
    """Scapy knows RoCE v2 over IPv4 only, and opcodes by their numbers."""
    layers = pytest.importorskip('scapy.contrib.roce')
    from scapy.layers.inet import IP  # pylint: disable=import-outside-toplevel
    path, sent = frames
    compared = 0
    for packet, frame in zip(packets(path), sent):
        if packet[0] >> 4 != 4:
            continue
        parsed = IP(packet)
        bth = parsed[layers.BTH]
        assert (bth.opcode, bth.dqpn, bth.psn, bth.padcount) == (
            frame['opcode'], frame['destqp'], frame['psn'], frame['padcnt'])
        came = bytes(packet[-4:])
        del bth.icrc
        assert bytes(parsed)[-4:] == came, frame
        compared += 1
    assert compared > 100
