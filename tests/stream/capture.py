# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Captures and the formats in them, read and written from their descriptions and nothing else: the
second implementation that `weft stream` is compared with."""
import re
import struct
import subprocess
from dataclasses import dataclass, field

import numpy

from fabric import BUILD


def stream(*words, ok=True):
    done = subprocess.run([BUILD / 'weft', 'stream', *map(str, words)], capture_output=True, text=True,
                          check=False)
    assert (done.returncode == 0) == ok, done
    return done


def frames(path):
    """(time in ns, frame) of each packet of a pcap in ns, of this machine's byte order."""
    data = path.read_bytes()
    magic, major, _, _, _, _, linktype = struct.unpack_from('<IHHiIII', data)
    assert (magic, major, linktype) == (0xa1b23c4d, 2, 1)
    at = 24
    while at < len(data):
        seconds, ns, caught, whole = struct.unpack_from('<IIII', data, at)
        assert caught == whole
        yield seconds * 10**9 + ns, data[at + 16:at + 16 + caught]
        at += 16 + caught


def payload(frame):
    assert frame[12:14] == b'\x08\x00' and frame[14] == 0x45 and frame[23] == 17
    length = struct.unpack_from('>H', frame, 38)[0]
    assert len(frame) == 34 + length
    return frame[42:]


@dataclass
class Event:
    timestamp: int
    fine: int
    boards: tuple
    rings: int
    label: int
    pmts: list


def events(datagram):
    """(header, events) of an MGP."""
    header = struct.unpack_from('<IBBHIBBH', datagram)
    assert header[3] == len(datagram) and header[7] == 0
    at, found = 24 if header[6] & 2 else 16, []
    while at < len(datagram):
        fine, timestamp, hits, ones, *boards, zero, rings, label = struct.unpack_from(
            '<BIBH4BHBB', datagram, at)
        assert ones == 0xffff and zero == 0
        lanes = -(-hits // 8) * 8
        pmts = struct.unpack_from(f'<{lanes}H', datagram, at + 16)
        assert not any(pmts[hits:]) and all(pmts[:hits])
        found.append(Event(timestamp, fine, tuple(boards), rings, label, list(pmts[:hits])))
        at += 16 + 2 * lanes
    assert len(found) == header[5]
    return header, found


@dataclass
class Truth:
    number: int
    time_ns: float
    noise: int
    rings: list = field(default_factory=list)  # (x, y, r, momentum, photons, hits)


def truths(path):
    found = []
    for line in path.read_text().splitlines():
        kind, *words = line.split()
        if kind == 'event':
            found.append(Truth(int(words[0]), float(words[1]), int(words[3])))
            expected = int(words[2])
        elif kind == 'ring':
            found[-1].rings.append(tuple(map(float, words)))
            assert len(found[-1].rings) <= expected
    return found


def positions():
    """The positions of the photomultipliers, by number: the 976 points of the lattice nearest to its centre."""
    points = [(q + r / 2, r * 3**.5 / 2, q * q + q * r + r * r, r, q)
              for q in range(-20, 21) for r in range(-20, 21)]
    points.sort(key=lambda p: p[2:])
    disk = [(18 * p[0], 18 * p[1]) for p in points[:976]]
    return numpy.array([(0, 0), *disk, *disk])


def tshark(path, *fields):
    """The fields of each packet, as tshark decodes it."""
    words = ['tshark', '-r', path, '-T', 'fields', *[w for f in fields for w in ('-e', f)],
             '-o', 'udp.check_checksum:TRUE', '-o', 'ip.check_checksum:TRUE']
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [re.split('\t', line) for line in done.stdout.splitlines()]


def m2egp(pmts, timestamp=0, fine=0, rings=0, label=0):
    lanes = -(-len(pmts) // 8) * 8
    return struct.pack(f'<BIBH4BHBB{lanes}H', fine, timestamp, len(pmts), 0xffff, 0, 0, 0, 0, 0, rings,
                       label, *pmts, *[0] * (lanes - len(pmts)))


def mgp(number, merged, source=0, flags=0):
    body = b''.join(merged)
    return struct.pack('<IBBHIBBH', number, source, 0, 16 + len(body), 0, len(merged), flags, 0) + body


def write_capture(path, datagrams, port=6666, ends=(bytes(4), bytes(4))):
    """Writes a capture of datagrams, (time in ns, payload) each, to the broadcast address and without UDP checksums."""
    data = struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, 262144, 1)
    for time_ns, body in datagrams:
        ip = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 28 + len(body), 0, 0, 64, 17, 0, *ends)
        total = sum(struct.unpack('>10H', ip))
        total = (total & 0xffff) + (total >> 16)
        ip = ip[:10] + struct.pack('>H', ~total & 0xffff) + ip[12:]
        frame = b'\xff' * 6 + bytes(6) + b'\x08\x00' + ip + struct.pack('>HHHH', 1, port, 8 + len(body), 0) + body
        data += struct.pack('<IIII', time_ns // 10**9, time_ns % 10**9, len(frame), len(frame)) + frame
    path.write_bytes(data)


def fits(path):
    """[(timestamp, fine, hits, [(x, y, r, hits)])]"""
    found = []
    for line in path.read_text().splitlines():
        kind, *words = line.split()
        if kind == 'event':
            found.append((*map(int, words[:3]), []))
        else:
            found[-1][3].append((*map(float, words[:3]), int(words[3])))
    return found


def primitives(datagram):
    """[(timestamp, fine, id)] of an MTP."""
    first, second, stamp, *words = struct.unpack(f'>{len(datagram) // 4}I', datagram)
    assert first & 0xffffff == stamp >> 8 and second & 0xffff == len(datagram) <= 1472
    assert second >> 16 & 0xff == len(words)
    return [(stamp & ~0xff | word >> 8 & 0xff, word & 0xff, word >> 16) for word in words]
