# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A live torus of 2×2×2 nodes on this host, beside what its processes could do without it: hand-overs of a token by as many
sleeping processes, a stream of TCP over loopback, NetPIPE over TCP. All of a round in turn."""
import json
import math
import re
import shutil
import statistics
import subprocess
import time

import measure
from measure import show_size
from pairs import Trouble, free_port, listening, wait_for

LATTICE, FIFO = '2x2x2', 15360
NEAR, FAR = (1, '1,0,0', 1), (3, '1,1,1', 7)  # hops, node and rank, from node 0,0,0
HANDS = 3      # program, card, card, program
SIZES = [64 << 10, 1 << 20, 4 << 20]
ROUNDS, MS, BYTES = 2000, 400, 512 << 20  # as much takes ib_write_bw about as long
QUICK_ROUNDS, QUICK_MS, QUICK_BYTES = 200, 50, 2 << 20
PATIENCE_S = 120
GID = 1        # RoCE v2
WORD = 128     # bits
KINDS = 'magic', 'starts', 'packets', 'data', 'footers', 'credits', 'escapes'
LENGTHS = {128: [1, 4, 16, 64, 256], 256: [4, 16, 64, 256]}  # words of a packet, by the bits of a beat
PACKETS, TRIES = 1000, 3


class Torus:
    """A torus of its own, with a name of its own, in the fabric's folder."""

    def __init__(self, fabric, quick, *options):
        self.fabric, self.options = fabric, options
        self.env = {**fabric.env, 'WEFT_TORUS_HOME': str(fabric.folder), 'OMPI_ALLOW_RUN_AS_ROOT': '1',
                    'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'TMPDIR': str(fabric.folder)}
        self.rounds, self.ms, self.bytes = ((QUICK_ROUNDS, QUICK_MS, QUICK_BYTES) if quick else (ROUNDS, MS, BYTES))

    def __enter__(self):
        self.weft('up', LATTICE, '--fifo', FIFO, *self.options)
        return self

    def __exit__(self, *_):
        subprocess.run(self.words('down'), env=self.env, check=False, capture_output=True, stdin=subprocess.DEVNULL)

    def words(self, *words):
        return [*self.fabric.prefix, str(self.fabric.weft()), 'torus', *map(str, words)]

    def start(self, *words):
        return subprocess.Popen([str(word) for word in words], env=self.env, cwd=self.fabric.folder, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def converse(self, node, *words):
        return subprocess.Popen([str(word) for word in self.words('run', '--node', node, '--', *words)], env=self.env,
                                cwd=self.fabric.folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def end(self, process):
        try:
            said = process.communicate(timeout=PATIENCE_S)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[0]
        if process.returncode:
            raise Trouble(f'{" ".join(process.args)}: status {process.returncode}\n{said}')
        return said

    def weft(self, *words):
        return self.end(self.start(*self.words(*words)))

    def alone(self, *words):
        return self.end(self.start(*words))

    def pair(self, node, first, second, ready=None):
        """What the second says, on `node`; the first is on 0,0,0."""
        server = self.start(*self.words('run', '--node', '0,0,0', '--', *first))
        try:
            if ready:
                wait_for(lambda: ready() or server.poll() is not None, 'the server listens')
            said = self.end(self.start(*self.words('run', '--node', node, '--', *second)))
        except Trouble:
            server.kill()
            raise
        return self.end(server), said

    # ---- What is measured ----

    def token(self, processes):
        return int(self.alone(measure.HERE / 'torus', 'token', processes, self.rounds)) / 1000

    def tcp(self, size):
        return float(self.alone(measure.HERE / 'torus', 'tcp', size, self.ms))

    def put(self, where):
        words = [measure.HERE / 'torus', 'put', 0, where[2], self.rounds]
        return int(self.pair(where[1], words, words)[0]) / 1000

    def stream(self, where, size):
        words = [measure.HERE / 'torus', 'stream', 0, where[2], size, self.ms]
        return float(self.pair(where[1], words, words)[0])

    def perftest(self, where, program, size, count):
        port = free_port()
        words = [program, '-x', GID, '-F', '-s', size, '-n', max(count, 5), '-p', port]
        said = self.pair(where[1], words, [*words, '127.0.0.1'], lambda: listening(port))[1]
        found = re.search(rf'^\s*{size}\s+\d+\s+(.*)', said, re.M)
        if not found:
            raise Trouble(f'{program}: no figure in\n{said}')
        return [float(word) for word in found[1].split()]

    def write_lat(self):
        return self.perftest(NEAR, 'ib_write_lat', 8, self.rounds)[2]  # typical

    def write_bw(self, where, size):
        return self.perftest(where, 'ib_write_bw', size, self.bytes // size)[1] * 1.048576

    def netpipe(self, words):
        """µs one way of 8 bytes."""
        out = self.fabric.folder / 'np.out'
        options = ['-l', 8, '-u', 8, '-p', 0, '-n', self.rounds, '-o', out]
        if words[0] == 'NPtcp':
            server = self.start(words[0], *options[:-2], '-o', '/dev/null')
            wait_for(lambda: listening(5002) or server.poll() is not None, 'NPtcp listens')
            self.alone(*words, *options)
            self.end(server)
        else:
            self.weft('run', '--', *words, *options)
        lines = [line.split() for line in out.read_text().splitlines()]
        return statistics.median(float(line[2]) for line in lines if line[0] == '8') * 1e6


# ---- What of a cable is payload ----

def counted(status):
    """What the near node has heard from node 0,0,0, by kind, and what was sent again."""
    status = json.loads(status)
    cable = next(c for c in status['cables'] if (c['node'], c['cable']) == (NEAR[1], 'x-'))
    return {**{kind: cable[f'{kind}_received'] for kind in KINDS}, 'again': sum(node['again'] for node in status['nodes'])}


def at_rest(look):
    """Cards write their counts when they go to sleep."""
    before, now = None, look()
    while before is None or any(before[kind] != now[kind] for kind in ('data', 'packets', 'again')):
        time.sleep(0.1)
        before, now = now, look()
    return now


def share_of(width, words, count, grown):
    """The row of `count` packets of so many words, each of `width` bits on a cable."""
    beats = sum(grown[kind] for kind in KINDS)
    # one stands behind a MAGIC, unless it is due between two packets
    credits_ = (grown['credits'] + grown['magic'] - count) / count
    per_beat = width // WORD
    share = WORD * words * count / (width * beats)
    formula = WORD * words / (WORD * (words + 2) + 2 * width + width * credits_)
    wanted = {'starts': count, 'packets': count, 'data': count * (words // per_beat), 'footers': count * (per_beat == 1),
              'escapes': 0}
    exact = all(grown[kind] == number for kind, number in wanted.items()) and 0 <= grown['magic'] - count <= grown['credits']
    return {'width': width, 'words': words, 'packets': count, 'beats': beats, 'credits': credits_, 'share': share,
            'formula': formula, 'ok': exact and math.isclose(share, formula)}


def shares(start, look, program, width, count):
    """The rows of a lattice whose cables have beats of `width` bits; `start` begins a program on a node, `look` tells its status."""
    for words in LENGTHS[width]:
        for _ in range(TRIES):
            arguments = [program, 'words', 0, NEAR[2], words * WORD // 8, count]
            second, first = start(NEAR[1], *arguments), start('0,0,0', *arguments)
            seen = []
            for said in 'before', 'behind':
                if first.stdout.readline().strip() != said:
                    raise Trouble(f'{program} words: it does not say `{said}`')
                seen.append(at_rest(lambda: counted(look())))
                first.stdin.write('\n')
                first.stdin.flush()
            if first.wait(PATIENCE_S) or second.wait(PATIENCE_S):
                raise Trouble(f'{program} words: status {first.returncode}, {second.returncode}')
            grown = {kind: seen[1][kind] - seen[0][kind] for kind in seen[0]}
            if not grown.pop('again'):  # else packets came twice
                break
        yield share_of(width, words, count, grown)


def share_table(results):
    yield 'bits of a beat', 'words of a packet', 'payload', 'by the formula', 'credits and theirs, beats a packet', ''
    for r in results:
        yield (str(r['width']), str(r['words']), f'{r["share"]:.4f}', f'{r["formula"]:.4f}', f'{r["credits"]:.2f}',
               'exact' if r['ok'] else 'NOT EXACT')


def has(*programs):
    return all(map(shutil.which, programs))


def round_of(torus, progress, sizes):
    """{name: (value, limit)}; times in µs, speeds in MB/s."""
    taken = {}

    def take(name, ours, theirs):
        progress(name)
        limit = theirs()
        taken[name] = ours(), limit
    take('PUT 8 B, 1 hop', lambda: torus.put(NEAR), lambda: HANDS * torus.token(HANDS + 1))
    near = taken['PUT 8 B, 1 hop'][0]
    take('PUT 8 B, each further hop', lambda: (torus.put(FAR) - near) / (FAR[0] - 1), lambda: torus.token(HANDS + FAR[0]))
    if has('ib_write_lat', 'ib_write_bw'):
        take('ib_write_lat 8 B, 1 hop', torus.write_lat, lambda: HANDS * torus.token(HANDS + 1))
    for where in (NEAR, FAR):
        hops = f'{where[0]} hop{"s" if where[0] > 1 else ""}'
        for size in sizes:
            take(f'PUT {show_size(size)}, {hops}', lambda s=size, w=where: torus.stream(w, s), lambda s=size: torus.tcp(s))
            if has('ib_write_bw'):
                take(f'ib_write_bw {show_size(size)}, {hops}', lambda s=size, w=where: torus.write_bw(w, s),
                     lambda s=size: torus.tcp(s))
    if has('mpirun', 'NPopenmpi', 'NPtcp'):
        take('NetPIPE 8 B over MPI, 1 hop', lambda: torus.netpipe(['mpirun', '-n', '2', 'NPopenmpi']),
             lambda: torus.netpipe(['NPtcp', '-h', '127.0.0.1']))
    return taken


def bounds(name):
    """(at most, at least, what it is beside) of a measurement."""
    if name.startswith('PUT 8 B'):
        return 1.5, None, 'a hand-over' if 'further' in name else '3 hand-overs'
    if 'lat' in name:
        return 1.7, None, '3 hand-overs'
    if 'NetPIPE' in name:
        return 2, None, 'NetPIPE over TCP'
    return None, 0.7 if '1 hop' in name else 0.25, 'one TCP stream'


def rows(rounds, quick):
    for name in rounds[0]:
        at_most, at_least, beside = bounds(name)
        values, limits = zip(*(taken[name] for taken in rounds))
        ratios = [value / limit for value, limit in zip(values, limits)]
        ratio = statistics.median(ratios)
        ok = ratio <= at_most if at_most else ratio >= at_least
        yield {'name': name, 'beside': beside, 'unit': 'µs' if at_most else 'MB/s', 'value': statistics.median(values),
               'limit': statistics.median(limits), 'ratio': ratio,
               'bound': f'≤ {at_most:g} ×' if at_most else f'≥ {at_least:g} ×', 'ok': None if quick else ok,
               'values': list(values), 'limits': list(limits), 'ratios': ratios}


def table(results):
    yield 'from program to program', 'time one way or speed', 'beside', '', 'ratio', 'bound', ''
    for r in results:
        yield (r['name'], show(r['value'], r['unit']), r['beside'], show(r['limit'], r['unit']), f'{r["ratio"]:.2f}', r['bound'],
               {True: 'held', False: 'MISSED', None: ''}[r['ok']])


def show(value, unit):
    return f'{value:.1f} {unit}' if unit == 'µs' else f'{value:,.0f} {unit}'


def take_shares(fabric, quick, progress):
    """The rows of payload's share, of all widths."""
    rows_ = []
    for width in LENGTHS:
        progress(f'what of a cable is payload, {width} bits')
        with Torus(fabric, quick, '--lanes', width // 64) as torus:
            rows_ += shares(torus.converse, lambda t=torus: t.weft('status', '--json'), measure.HERE / 'torus', width,
                            PACKETS // 10 if quick else PACKETS)
    progress('')
    return rows_


def take(fabric, count, quick, progress):
    """The rows of so many rounds."""
    rounds = []
    with Torus(fabric, quick) as torus:
        for number in range(count):
            rounds.append(round_of(torus, lambda text, n=number: progress(f'round {n + 1} of {count}: {text}'),
                                   SIZES[:1] if quick else SIZES))
    progress('')
    return list(rows(rounds, quick))
