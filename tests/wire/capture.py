# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What goes over an interface of a network namespace to UDP port 4791, as its raw socket sees it: a file of frames."""
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path

ETHERNET = 1
HEAD = struct.pack('<IHHIIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, ETHERNET)


def is_roce(frame):
    ethertype = frame[12:14]
    at = 14 + {b'\x08\x00': 20, b'\x86\xdd': 40}.get(ethertype, 2000)
    protocol = frame[23:24] if ethertype == b'\x08\x00' else frame[20:21]
    return protocol == b'\x11' and frame[at + 2:at + 4] == b'\x12\xb7'


class Capture:
    """Runs this file in the host's namespace while it is entered; `path` has the frames then."""

    def __init__(self, host, path):
        self.host, self.path = host, path

    def __enter__(self):
        # so that packets are seen one by one
        self.host.plain('ip', 'link', 'set', 'w0', 'gso_max_segs', 1)
        with open(self.path, 'wb') as out:
            # which the host's user may not read where it lies
            self.sniffer = subprocess.Popen([*self.host.enter, 'python3', '-c', Path(__file__).read_text()], cwd='/',
                                            stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE, text=True)
        said = self.sniffer.stderr.readline()
        assert said == 'ready\n', said + self.sniffer.communicate()[1]
        return self

    def __exit__(self, *_):
        self.sniffer.communicate()


def records(path):
    """The frames of such a file."""
    data, at = Path(path).read_bytes(), len(HEAD)
    while at < len(data):
        size = struct.unpack_from('<I', data, at + 8)[0]
        yield data[at + 16:at + 16 + size]
        at += 16 + size


def block(kind, body):
    return struct.pack('<II', kind, 12 + len(body)) + body + struct.pack('<I', 12 + len(body))


def publish(path, target):
    """The same as a pcapng, without a word of where and when, and without what was sent again."""
    blocks = [block(0x0a0d0d0a, struct.pack('<IHHq', 0x1a2b3c4d, 1, 0, -1)), block(1, struct.pack('<HHI', ETHERNET, 0, 65535))]
    for i, frame in enumerate(dict.fromkeys(records(path))):
        blocks.append(block(6, struct.pack('<IIIII', 0, 0, i, len(frame), len(frame)) + frame + bytes(-len(frame) % 4)))
    Path(target).write_bytes(b''.join(blocks))


def main():
    """Until the input ends, and nothing is left."""
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sniffer.bind(('w0', 3))
    out = sys.stdout.buffer
    out.write(HEAD)
    print('ready', file=sys.stderr, flush=True)
    ends, quiet_s = False, None
    while True:
        able = select.select([sniffer] if ends else [sniffer, sys.stdin], [], [], quiet_s)[0]
        if sniffer in able:
            frame = sniffer.recv(70000)
            if is_roce(frame):
                out.write(struct.pack('<IIII', 0, 0, len(frame), len(frame)) + frame)
        elif able:
            ends, quiet_s = True, 0.2
        else:
            break
    out.flush()


if __name__ == '__main__':
    main()
