# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Decoders that are not ours read the engine's packets: tshark finds nothing malformed, and the fields that were
sent; scapy, and twelve lines over zlib, compute the same ICRCs. Of games of the simulator; of one packet of each kind as a raw socket
sees it on an interface; and of what cards send, of which docs/wire.pcapng is an example: $WEFT_CAPTURE names a file for another."""
import csv
import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from cm.server import listening
from fabric import BUILD, namespaces, wait_for
from wire.capture import Capture, publish, records
from wire.hosts import FOUR, Hosts

aside = pytest.mark.aside  # all but what runs cards
PUBLISHED = Path(__file__).resolve().parents[2] / 'docs/wire.pcapng'

# Our names, and tshark's.
FIELDS = {
    'opcode': 'bth.opcode', 'se': 'bth.se', 'm': 'bth.m', 'padcnt': 'bth.padcnt', 'pkey': 'bth.p_key',
    'destqp': 'bth.destqp', 'a': 'bth.a', 'psn': 'bth.psn', 'q_key': 'deth.q_key', 'srcqp': 'deth.srcqp',
    'va': 'reth.va', 'r_key': 'reth.r_key', 'dmalen': 'reth.dmalen', 'swapdt': 'atomiceth.swapdt',
    'cmpdt': 'atomiceth.cmpdt',
    'syndrome': 'aeth.syndrome', 'msn': 'aeth.msn', 'origremdt': 'atomicacketh.origremdt',
}
ATOMIC_WRITE = 0x1d  # newer than Debian 12's tshark
XRC = 0xa0  # with RC's opcodes; tshark knows their names, and no header behind the base one
ANSWERS = range(0x0d, 0x13)
CRC = 'invariant.crc'


def is_base_only(frame):
    """Whether tshark reads no more of it than the base header."""
    return frame['opcode'] == ATOMIC_WRITE or frame['opcode'] & 0xe0 == XRC


def of_simulator(path):
    return subprocess.run([BUILD / 'tests/wire/frames', path], check=True, capture_output=True, text=True).stdout


def of_sockets(path):
    """One packet of each kind through a socket, by IPv4 and IPv6, as the other host's interface has them."""
    if not namespaces():
        pytest.skip('no user namespaces here')
    said = ''
    with Hosts() as hosts:
        for i, host in enumerate(hosts.hosts):
            host.plain('ip', 'address', 'add', f'2001:db8::{i + 1}/64', 'dev', 'w0', 'nodad')
        with Capture(hosts.hosts[1], path):
            for ours, its in ('192.0.2.1', '192.0.2.2'), ('2001:db8::1', '2001:db8::2'):
                said += hosts.hosts[0].start(hosts.fabrics[0].program('frames'), ours, its, on_weft=False).done().stdout
    return said


@pytest.fixture(scope='module', params=[of_simulator, of_sockets], ids=lambda make: make.__name__)
def frames(request, tmp_path_factory):
    """The file, and what was put into it: a dictionary a frame."""
    path = tmp_path_factory.mktemp('frames') / 'frames.pcap'
    said = request.param(path)
    sent = [{k: int(v) for k, v in (word.split('=') for word in line.split())} for line in said.splitlines()]
    assert len({frame['opcode'] for frame in sent}) >= 62
    assert len(sent) > (200 if request.param is of_simulator else 70)
    return path, sent


def packets(path):
    """The frames' bytes, from the IP header on."""
    for frame in records(path):
        yield frame[14:]


def number(text):
    return {'True': 1, 'False': 0}[text] if text in ('True', 'False') else int(text, 0)


def read_by_tshark(path):
    """A dictionary for each frame, by tshark's names."""
    if not shutil.which('tshark'):
        pytest.skip('tshark is not installed')
    names = [f'infiniband.{name}' for name in [*FIELDS.values(), CRC]]
    done = subprocess.run(['tshark', '-r', path, '-T', 'fields', '-E', 'header=y', '-e', '_ws.malformed', '-e',
                           '_ws.expert.message', *[word for name in names for word in ('-e', name)]],
                          check=True, capture_output=True, text=True)
    return list(csv.DictReader(done.stdout.splitlines(), delimiter='\t'))


def malformed(row):
    """Protocols of RoCE that tshark finds malformed. What it takes payloads for, which are random bytes, is no matter."""
    return set(re.findall(r'Malformed Packet: ([^]]+)', row['_ws.malformed'])) & {'InfiniBand', 'UDP', 'Ethernet', 'Frame'}


@aside
def test_tshark(frames):
    path, sent = frames
    rows = read_by_tshark(path)
    assert len(rows) == len(sent)
    for row, frame, packet in zip(rows, sent, packets(path)):
        assert not malformed(row), (row, frame)
        for ours, theirs in FIELDS.items():
            shown = row[f'infiniband.{theirs}']
            if is_base_only(frame) and not theirs.startswith('bth'):
                continue
            assert (number(shown) if shown else None) == frame.get(ours), (ours, row, frame)
        if not is_base_only(frame) and not row['_ws.malformed']:
            assert number(row[f'infiniband.{CRC}']) == struct.unpack('>I', packet[-4:])[0]


@aside
def test_extended(frames):
    """What stands behind the base header of XRC, by the places that the specification gives it (annex A14, and 9.3 to 9.6)."""
    path, sent = frames
    compared = set()
    for packet, frame in zip(packets(path), sent):
        if frame['opcode'] & 0xe0 != XRC:
            continue
        rest = packet[(20 if packet[0] >> 4 == 4 else 40) + 8 + 12:-4]
        of_answer = frame['opcode'] & 0x1f in ANSWERS
        assert ('srqn' in frame) == (not of_answer), frame
        if not of_answer:
            assert struct.unpack('>I', rest[:4])[0] == frame['srqn'], frame
            rest = rest[4:]
        if 'swapdt' in frame:
            assert struct.unpack('>QIQQ', rest) == tuple(frame[name] for name in ('va', 'r_key', 'swapdt', 'cmpdt')), frame
        elif 'va' in frame:
            assert struct.unpack('>QII', rest[:16]) == tuple(frame[name] for name in ('va', 'r_key', 'dmalen')), frame
        elif 'syndrome' in frame:
            assert struct.unpack('>I', rest[:4])[0] == frame['syndrome'] << 24 | frame['msn'], frame
        if 'origremdt' in frame:
            assert struct.unpack('>Q', rest[4:]) == (frame['origremdt'],), frame
        compared.add(frame['opcode'])
    assert len(compared) == 24


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


@aside
def test_zlib(frames):
    path, sent = frames
    crcs = [(icrc(packet), struct.unpack('<I', packet[-4:])[0]) for packet in packets(path)]
    assert len(crcs) == len(sent)
    assert all(a == b for a, b in crcs)


@aside
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
    assert compared >= 38


# ---- What cards send ----

# By number: SEND, WRITE and READ of one packet and of several, with immediate data; their answers; both atomics.
CARDS_SEND = {*range(0x00, 0x06), *range(0x06, 0x0c), 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x64}


def check_cards_packets(path):
    """No malformed packet; ICRCs that hold; opcodes, numbers and keys that both ends of a request agree upon."""
    rows = read_by_tshark(path)
    for row, packet in zip(rows, packets(path), strict=True):
        assert not malformed(row), row
        assert icrc(packet) == struct.unpack('<I', packet[-4:])[0], row
    assert {number(row['infiniband.bth.opcode']) for row in rows} >= CARDS_SEND
    asked = {number(row['infiniband.bth.psn']) for row in rows if row['infiniband.bth.opcode'] == str(0x0c)}
    answered = {number(row['infiniband.bth.psn']) for row in rows if row['infiniband.bth.opcode'] in (str(0x0d), str(0x10))}
    assert asked and asked == answered


@pytest.mark.skipif(not namespaces(), reason='no user namespaces here')
def test_cards(tmp_path):
    """across.c, and rping with its connection management, between the cards of two hosts."""
    path = tmp_path / 'cards.pcap'
    with Hosts() as hosts:
        client, server = hosts.hosts
        assert server.nic('up', server.address)[0] == 0
        client.plain('ip', 'link', 'set', 'w0', 'gso_max_segs', 1)
        with Capture(server, path):
            hosts.pair(hosts.fabrics[0].program('across-verbs'), FOUR, '-m', 256, '-l', 1000, '-n', 10, port=18516)
            there = server.start('rping', '-s', '-C', 2, '-a', server.address)
            wait_for(lambda: listening(server.fabric) or there.process.poll() is not None, 'server listens')
            client.start('rping', '-c', '-C', 2, '-a', server.address).done()
            there.done()
    check_cards_packets(path)
    if 'WEFT_CAPTURE' in os.environ:
        publish(path, os.environ['WEFT_CAPTURE'])


@aside
def test_published(tmp_path):
    """The example in docs/."""
    if not shutil.which('tshark'):
        pytest.skip('tshark is not installed')
    path = tmp_path / 'published.pcap'
    subprocess.run(['tshark', '-r', PUBLISHED, '-F', 'pcap', '-w', path], check=True, capture_output=True)
    check_cards_packets(path)
