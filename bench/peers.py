# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What is compared: the same operations over Weft and over what else moves bytes between two processes of one
host. A peer measures one operation at several sizes: a latency is one way, in ns, a bandwidth in MiB/s.

UCX tells the median of its last 2048 iterations, and the bandwidth of the whole run. fi_pingpong has one message
under way at any time, and so has its bandwidth.
"""
import re
import shutil

from measure import BANDWIDTH, BW, Figure, LAT, LATENCY, carrying, figure
from pairs import Trouble

PUT, AM, TAG = 'put', 'am', 'tag'
OPERATIONS = {PUT: 'WRITE, put', AM: 'active message', TAG: 'SEND, tagged message'}


def count(size, volume, most):
    """How often to send a message: enough for all buffers of a peer to have been used and used again, and
    not so often that a run takes more than a fraction of a second."""
    return max(100, min(most, volume // size))


class Peer:
    """programs: {(operation, unit): what measures it}."""
    on_weft = False

    def __init__(self, name, title, package):
        self.name, self.title, self.package = name, title, package

    def missing(self):
        """What a user has to do first, if anything."""
        lacking = {name for name in self.commands() if not shutil.which(name)}
        return f'not installed: apt install {self.package}' if lacking else None

    def run(self, fabric, operation, unit, sizes, cycles_per_us):
        """{size: value}"""
        raise NotImplementedError


class Verbs(Peer):
    on_weft = True
    programs = {(PUT, LATENCY): 'ib_write_lat', (PUT, BANDWIDTH): 'ib_write_bw',
                (TAG, LATENCY): 'ib_send_lat', (TAG, BANDWIDTH): 'ib_send_bw'}

    def commands(self):
        return self.programs.values()

    def run(self, fabric, operation, unit, sizes, cycles_per_us):
        program = self.programs[operation, unit]
        options, most = (LAT, 20_000) if unit == LATENCY else (BW, 500_000)
        return {size: figure(fabric, Figure(program, size, unit, options, count(size, 1 << 31, most)),
                             cycles_per_us) for size in sizes}


class Ucx(Peer):
    """ucx_perftest; one pair of processes runs all sizes."""
    programs = {(PUT, LATENCY): 'ucp_put_lat', (PUT, BANDWIDTH): 'ucp_put_bw',
                (AM, LATENCY): 'ucp_am_lat', (AM, BANDWIDTH): 'ucp_am_bw',
                (TAG, LATENCY): 'tag_lat', (TAG, BANDWIDTH): 'tag_bw'}

    def __init__(self, name, title, transports, on_weft=False, most=10_000, **env):
        super().__init__(name, title, 'ucx-utils')
        self.env = {'UCX_TLS': transports, **env}
        self.on_weft, self.most = on_weft, most

    def commands(self):
        return ['ucx_perftest']

    def run(self, fabric, operation, unit, sizes, cycles_per_us):
        test = self.programs[operation, unit]
        times, volume = (2, 1 << 14) if unit == LATENCY else (20, 1 << 16)
        counts = {size: count(size, volume * self.most, times * self.most) for size in sizes}
        batch = fabric.folder / 'batch'
        batch.write_text(''.join(f'{size} -s {size} -n {n} -w {min(n, self.most)}\n'
                                 for size, n in counts.items()))
        argv = ['ucx_perftest', '-t', test, '-b', batch, '-f', '-v']
        moved = sum(size * n for size, n in counts.items()) if self.on_weft else 0
        with carrying(fabric, f'{self.title}: {test}', 1 if self.on_weft else 0, moved):
            _, client = fabric.pair(*argv, on_weft=self.on_weft, **self.env)
        return self.read(test, unit, counts, client.stdout)

    def read(self, test, unit, counts, text):
        # size, iterations, median, average and overall latency in us, average and overall bandwidth
        rows = [row.split(',') for row in re.findall(r'^\d+, *\d+,[\d., ]+$', text, re.M)]
        if {int(row[0]): int(row[1]) for row in rows} != counts:
            raise Trouble(f'{self.title}: {test}: no figures in\n{text}')
        return {int(row[0]): float(row[2]) * 1000 if unit == LATENCY else float(row[6]) for row in rows}


class Libfabric(Peer):
    """fi_pingpong; the bandwidth is made of the latency that was measured before it."""
    programs = {(TAG, LATENCY): 'fi_pingpong', (TAG, BANDWIDTH): 'fi_pingpong'}

    def __init__(self, name, title, provider):
        super().__init__(name, title, 'libfabric-bin')
        self.provider = provider

    def commands(self):
        return ['fi_pingpong']

    def run(self, fabric, operation, unit, sizes, cycles_per_us):
        if unit == LATENCY:
            self.ns = {size: self.one_way(fabric, size, count(size, 1 << 27, 1000)) for size in sizes}
            return self.ns
        return {size: size / ns * 1e9 / (1 << 20) for size, ns in self.ns.items()}

    def one_way(self, fabric, size, n):
        argv = ['fi_pingpong', '-p', self.provider, '-e', 'rdm', '-m', 'tagged', '-I', n, '-S', size]
        _, client = fabric.pair(*argv, ports=('-B', '-P'), on_weft=False)
        # bytes, sent, acknowledged, total, time, MB/sec, usec/xfer
        row = re.search(r'^\S+ +\S+ +=\S+ +\S+ +\S+s +[\d.]+ +([\d.]+) ', client.stdout, re.M)
        if not row:
            raise Trouble(f'{self.title}: no figure in\n{client.stdout}')
        return float(row[1]) * 1000


WEFT_UCX = Ucx('ucx-weft', 'UCX over Weft', 'rc_v,self', on_weft=True)
OWN_UCX = Ucx('ucx-shm', 'UCX, own shared memory', 'sm,self')
PEERS = [Verbs('verbs', 'verbs over Weft', 'perftest'),
         WEFT_UCX,
         OWN_UCX,
         Ucx('ucx-tcp', 'UCX, TCP loopback', 'tcp,self', most=500, UCX_NET_DEVICES='lo'),
         Libfabric('fi-shm', 'libfabric, shared memory', 'shm')]

# The bound of UCX's latency over Weft, in times that over its own shared memory.
AT_MOST = {PUT: 1.4, AM: 1.5, TAG: 1.5}
