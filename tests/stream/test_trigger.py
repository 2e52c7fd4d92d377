# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft stream trigger`: rings against a second implementation, written from the formulas, and against
the truth; primitives; and that it looks at nothing but the hits."""
import json
import random

import numpy
import pytest
from scipy import linalg, optimize

from stream.capture import (events, fits, frames, m2egp, mgp, payload, positions, primitives, stream,
                            truths, write_capture)
from stream.rings import QUANTISATION, chosen, efficiency, misses, played

pytestmark = pytest.mark.aside

PLACE = positions()
EVENTS = 20000


def judged(folder, merged, *words):
    """The fits of events given by their photomultipliers."""
    write_capture(folder / 'x.pcap', [(i * 1000, mgp(i, [m2egp(pmts)])) for i, pmts in enumerate(merged)])
    stream('trigger', '--read', folder / 'x.pcap', '--fits', folder / 'x.txt', *words)
    return [found[3] for found in fits(folder / 'x.txt')]


def crawford(points):
    """x² + y² = 2ax + 2by + c, by least squares."""
    x, y = points.T
    (a, b, c), *_ = numpy.linalg.lstsq(numpy.column_stack([2 * x, 2 * y, numpy.ones(len(x))]),
                                       x * x + y * y, rcond=None)
    return a, b, numpy.sqrt(c + a * a + b * b)


def taubin(points):
    """A z + B x + C y + D = 0 with the least Σ (…)² / Σ |gradient|²: an eigenvalue problem."""
    mean = points.mean(axis=0)
    x, y = (points - mean).T
    z = x * x + y * y
    design = numpy.column_stack([z, x, y, numpy.ones(len(x))])
    scale = numpy.array([1 / z.mean(), 1 / numpy.sqrt(z.mean()), 1 / numpy.sqrt(z.mean()), 1])
    design = design * scale
    moment = design.T @ design / len(x)
    gradient = numpy.diag([4 * z.mean(), 1, 1, 0]) * numpy.outer(scale, scale)
    # gradient is singular: the eigenvalue that is infinite is left out
    values, vectors = linalg.eig(gradient, moment)
    a, b, c, d = vectors[:, numpy.argmax(values.real)].real * scale
    return (mean[0] - b / 2 / a, mean[1] - c / 2 / a,
            numpy.sqrt(b * b + c * c - 4 * a * d) / 2 / abs(a))


def geometric(points, start):
    """The least Σ (distance from the circle)²."""
    def off(ring):
        return numpy.hypot(points[:, 0] - ring[0], points[:, 1] - ring[1]) - ring[2]
    return optimize.least_squares(off, start, method='lm')


@pytest.fixture(scope='module')
def some(tmp_path_factory):
    """The hits of events of any kind, four and more."""
    folder = tmp_path_factory.mktemp('some')
    stream('generate', '--events', 3000, '--seed', 3, '--write', folder / 'a.pcap')
    return [e.pmts for _, f in frames(folder / 'a.pcap') for e in events(payload(f))[1]
            if len(e.pmts) >= 4]


@pytest.mark.parametrize('name,formula', [('crawford', crawford), ('taubin', taubin)])
def test_formulas(tmp_path, some, name, formula):
    """Within 10⁻⁴ of the radius."""
    found, worst, count = judged(tmp_path, some, '--algorithm', name), 0, 0
    for pmts, rings in zip(some, found, strict=True):
        points = PLACE[pmts]
        width = numpy.linalg.eigvalsh(numpy.cov(points.T))
        if width[0] < 1e-4 * width[1]:
            continue  # nearly collinear: the test below
        x, y, r, hits = rings[0]
        expected = numpy.array(formula(points))
        assert hits == len(pmts)
        worst = max(worst, abs(numpy.array([x, y, r]) - expected).max() / expected[2])
        count += 1
    assert count > 2500 and worst < 1e-4, (count, worst)


def test_taubin_is_nearly_geometric(tmp_path):
    """On single rings a fit of distances that begins at Taubin's moves it by little, and never makes it worse."""
    pairs = chosen(played(tmp_path, 400, '0,1,0,0,0', 'taubin', noise=0), hits=8)
    hits = [e.pmts for _, f in frames(tmp_path / 'a.pcap') for e in events(payload(f))[1]]
    hits = [h for h, t in zip(hits, truths(tmp_path / 'a.txt')) if t.rings[0][5] >= 8]
    moved = []
    for pmts, (_, found) in zip(hits, pairs, strict=True):
        start = found[0][:3]
        best = geometric(PLACE[pmts], start)
        off = numpy.hypot(*(PLACE[pmts] - start[:2]).T) - start[2]
        assert 2 * best.cost <= (off**2).sum() * (1 + 1e-9)
        moved.append(abs(best.x - start).max())
    assert len(moved) > 200 and numpy.median(moved) < 0.3 and numpy.quantile(moved, 0.99) < 3


def near(points):
    """The photomultipliers of disk 0 nearest to the points."""
    return [int(numpy.argmin(numpy.hypot(*(PLACE[1:977] - p).T))) + 1 for p in points]


CIRCLE = [(150 * numpy.cos(a), 150 * numpy.sin(a)) for a in numpy.arange(12) * numpy.pi / 6]


@pytest.mark.parametrize('name', ['crawford', 'taubin', 'almagest', 'histogram'])
def test_odd_events(tmp_path, name):
    """Events that are empty, have too few hits, hits in a line or at one spot, a photomultiplier twice or one that does not exist,
    or 255 hits."""
    line = near([(18 * k, 0) for k in range(-8, 9)])
    spot = [1, 1 + 976, 1, 977]
    ring = near(CIRCLE)
    twice = ring + ring[:5]
    strange = [1953, *ring, 65535]
    full = list(range(1, 256))
    random.seed(4)
    many = sorted(random.sample(range(1, 1953), 255))
    odd = judged(tmp_path, [[], ring[:3], line, spot, ring, twice, strange, full, many], '--algorithm',
                 name)
    assert odd[:4] == [[], [], [], []]
    assert len(odd[4]) == 1 and odd[5] == odd[6] == odd[4] and odd[4][0][3] == 12
    x, y, r, _ = odd[4][0]
    assert abs(x) < 5 and abs(y) < 5 and abs(r - 150) < 5
    for rings in odd[7:]:
        assert all(numpy.isfinite(ring).all() and ring[3] >= 1 for ring in rings)
    if name in ('crawford', 'taubin'):
        formula = {'crawford': crawford, 'taubin': taubin}[name]
        for pmts, rings in (full, odd[7]), (many, odd[8]):
            assert numpy.allclose(rings[0][:3], formula(PLACE[pmts]), atol=1e-2) and rings[0][3] == 255


def test_noise_only(tmp_path):
    """Noise makes no rings, or one in a hundred events at most."""
    for name in 'almagest', 'histogram':
        pairs = played(tmp_path, 2000, '1,0,0,0,0', name, noise=1)
        assert sum(len(found) for _, found in pairs) < 20


# ---- Efficiency and resolution ----

@pytest.fixture(scope='module')
def events_each():
    return EVENTS


def test_resolution(tmp_path, events_each):
    """The resolution of Crawford's fit without noise is what the pitch of the photomultipliers allows."""
    hits, r, x, y = misses(chosen(played(tmp_path, events_each, '0,1,0,0,0', 'crawford', noise=0), 8)).T
    scaled = [numpy.std(off * hits**.5) / QUANTISATION for off in (r, x, y)]
    assert 1 <= scaled[0] <= 1.15, scaled
    for centre in scaled[1:]:
        assert 0.9 <= centre / 2**.5 / scaled[0] <= 1.1, scaled


def test_outliers(tmp_path, events_each):
    found, _ = efficiency(chosen(played(tmp_path, events_each, '0,1,0,0,0', 'crawford', '--drop'), 6))
    assert found >= 0.93


@pytest.mark.parametrize('rings,hits,apart,least,fakes', [
    (1, 6, 0, 0.97, 0.03), (2, 7, 50, 0.85, 0.2), (3, 7, 50, 0.70, 0.6)])
def test_almagest(tmp_path, events_each, rings, hits, apart, least, fakes):
    shares = ','.join('1' if i == rings else '0' for i in range(5))
    found, more = efficiency(chosen(played(tmp_path, events_each, shares, 'almagest'), hits, apart))
    assert found >= least and more <= fakes, (found, more)


# ---- Primitives, and what it looks at ----

@pytest.mark.parametrize('name', ['crawford', 'almagest'])
def test_labels_are_not_read(tmp_path, name):
    """With scrambled labels the trigger writes the same bytes."""
    written = []
    for more in (), ('--scramble',):
        stream('generate', '--events', 3000, '--write', tmp_path / 'a.pcap', *more)
        stream('trigger', '--read', tmp_path / 'a.pcap', '--algorithm', name, '--fits',
               tmp_path / 'f.txt', '--write', tmp_path / 'p.pcap')
        written.append([(tmp_path / file).read_bytes() for file in ('a.pcap', 'f.txt', 'p.pcap')])
    assert written[0][0] != written[1][0] and written[0][1:] == written[1][1:]


def test_primitives(tmp_path):
    """A primitive for each event with rings, in order, in datagrams of 6.4 µs each."""
    stream('generate', '--events', 4000, '--rate', 4e7, '--write', tmp_path / 'a.pcap')
    told = stream('trigger', '--read', tmp_path / 'a.pcap', '--fits', tmp_path / 'f.txt', '--write',
                  tmp_path / 'p.pcap', '--json')
    found = [primitives(payload(f)) for _, f in frames(tmp_path / 'p.pcap')]
    expected = [(stamp, fine, hits << 8 | len(rings)) for stamp, fine, hits, rings in
                fits(tmp_path / 'f.txt') if rings]
    assert [p for datagram in found for p in datagram] == expected and len(found) < len(expected) / 8
    said = json.loads(told.stdout)
    assert said['trigger']['primitives'] == len(expected) and said['trigger']['events'] == 4000
    assert said['trigger']['datagrams'] == len(found)
    assert said['account']['events'] == 4000 and said['account']['lost'] == 0
    assert said['account']['arrived'] == said['account']['placed'] == said['account']['sent']


def test_gathering(tmp_path):
    """How long buffers gather, at the pace of the wire: of 1,024 events of 73 bytes some 0.6 ms."""
    stream('generate', '--events', 40000, '--pace', '1gbe', '--write', tmp_path / 'a.pcap')
    said = json.loads(stream('trigger', '--read', tmp_path / 'a.pcap', '--json', '--algorithm',
                             'crawford').stdout)['gathering_ns']
    assert 38 <= said['count'] <= 40 and 580e3 < said['p50'] < 650e3
    assert said['p50'] <= said['p90'] <= said['p99'] <= said['p99_9'] <= said['max'] < 700e3


def test_twice_the_same(tmp_path):
    """A recorded file, with faults in it, played twice gives the same bytes and counters; and these are
    those that the faults make."""
    stream('generate', '--events', 4000, '--write', tmp_path / 'a.pcap')
    sent = [(t, payload(f)) for t, f in frames(tmp_path / 'a.pcap')]
    random.seed(5)
    lost = set(random.sample(range(1, len(sent) - 1), 20))
    bad = set(random.sample(sorted(set(range(1, len(sent) - 1)) - lost), 10))
    faulty = []
    for i, (time_ns, data) in enumerate(sent):
        if i not in lost:
            faulty.append((time_ns, data[:-1] if i in bad else data))
        if i % 9 == 5 and i not in lost | bad:
            faulty.append((time_ns, data))
    copies = sum(i % 9 == 5 and i not in lost | bad for i in range(len(sent)))
    write_capture(tmp_path / 'b.pcap', faulty)
    runs = []
    for _ in range(2):
        told = stream('trigger', '--read', tmp_path / 'b.pcap', '--json', '--write', tmp_path / 'p.pcap',
                      '--fits', tmp_path / 'f.txt')
        runs.append((told.stdout, (tmp_path / 'p.pcap').read_bytes(), (tmp_path / 'f.txt').read_bytes()))
    assert runs[0] == runs[1]
    account = json.loads(runs[0][0])['account']
    assert account['arrived'] == account['packets'] == len(faulty) and account['sent'] == len(sent)
    assert account['lost'] == 20 and account['bad'] == 10 and account['duplicate'] == copies
    assert account['placed'] == len(sent) - 30 and account['missing'] == 30


def test_other_packets(tmp_path):
    """Packets that are not sent to the port are none of the stream, and counted apart."""
    write_capture(tmp_path / 'a.pcap', [(1, mgp(0, []))])
    write_capture(tmp_path / 'b.pcap', [(2, mgp(0, []))], port=7)
    other = (tmp_path / 'b.pcap').read_bytes()[24:]
    broken = bytearray(other)
    broken[16 + 14 + 15] ^= 1  # of an address: the header's checksum is wrong
    with open(tmp_path / 'a.pcap', 'ab') as file:
        file.write(other + broken)
    account = json.loads(stream('trigger', '--read', tmp_path / 'a.pcap', '--json').stdout)['account']
    assert [account[k] for k in ('packets', 'others', 'damaged', 'placed')] == [3, 1, 1, 1]


@pytest.mark.parametrize('words', [
    (), ('--read',), ('--read', 'a', '--algorithm', 'x'), ('--read', 'a', '--gather', '0'),
    ('--read', 'a', '--port', '0'), ('--read', 'a', 'more')])
def test_wrong_usage(words):
    done = stream('trigger', *words, ok=False)
    assert done.returncode == 2 and 'weft stream: ' in done.stderr and not done.stdout


def test_what_cannot_be_read_or_written(tmp_path):
    (tmp_path / 'no.pcap').write_text('hello, world')
    stream('generate', '--events', 100, '--write', tmp_path / 'a.pcap')
    whole = (tmp_path / 'a.pcap').read_bytes()
    (tmp_path / 'cut.pcap').write_bytes(whole[:-1])
    for words, said in (
            (('--read', tmp_path / 'none'), 'No such file'), (('--read', tmp_path / 'no.pcap'), 'no capture'),
            (('--read', tmp_path / 'cut.pcap'), 'cut in the midst'),
            (('--read', tmp_path / 'a.pcap', '--write', tmp_path / 'no/a'), 'No such file'),
            (('--read', tmp_path / 'a.pcap', '--fits', tmp_path / 'no/a'), 'No such file'),
            (('--read', tmp_path / 'a.pcap', '--fits', '/dev/full'), 'written'),
            (('--read', tmp_path / 'a.pcap', '--write', '/dev/full'), 'No space')):
        done = stream('trigger', *words, ok=False)
        assert done.returncode == 1 and said in done.stderr
