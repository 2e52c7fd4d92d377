# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft stream generate`: what the events are made of follows the formulas, by χ²; the datagrams say
what the truth says, as decoded by a second implementation and by tshark."""
import shutil
from math import pi

import numpy
import pytest
from scipy import stats

from stream.capture import events, frames, payload, positions, stream, truths, tshark

LEAST = 1e-3  # probability; seeds are fixed, so that what passes once always passes


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """20,000 events as (truths, datagrams with their times)."""
    folder = tmp_path_factory.mktemp('made')
    stream('generate', '--events', 20000, '--seed', 7, '--write', folder / 'a.pcap',
           '--truth', folder / 'a.txt', '--source', 3)
    return truths(folder / 'a.txt'), [(t, payload(f)) for t, f in frames(folder / 'a.pcap')]


def rings(found):
    return numpy.array([ring for truth in found for ring in truth.rings])


def even(values, low, high, bins=40):
    """The probability that evenly distributed values are as uneven as these."""
    counts, _ = numpy.histogram(values, bins, (low, high))
    assert counts.sum() == len(values)
    return stats.chisquare(counts).pvalue


def poisson(values, mean):
    """The probability that values, each of a Poisson distribution with a mean of its own, are as uneven as these."""
    chance = numpy.random.default_rng(1)
    below, at = stats.poisson.cdf(values - 1, mean), stats.poisson.pmf(values, mean)
    return even(below + at * chance.random(len(values)), 0, 1)


def test_radii(made):
    """Radii are f √(2(n − 1) − m²/p²) of evenly distributed momenta."""
    _, _, r, p, _, _ = rings(made[0]).T
    assert numpy.allclose(r, 17020 * numpy.sqrt(2 * 62.8e-6 - (0.13957 / p)**2), atol=1e-3)
    momentum = 0.13957 / numpy.sqrt(2 * 62.8e-6 - (r / 17020)**2)
    assert even(momentum, 15, 50) > LEAST


def test_centres(made):
    x, y, *_ = rings(made[0]).T
    assert even(x * x + y * y, 0, 1e4) > LEAST and even(numpy.arctan2(y, x), -pi, pi) > LEAST


def test_hits(made):
    """How many photons and how much noise; each photon is a hit, but for those outside, or on the same photomultiplier as another."""
    found, datagrams = made
    _, _, r, _, photons, hits = rings(found).T
    assert poisson(photons, 12 * (r / 190.7)**2) > LEAST
    assert poisson(numpy.array([t.noise for t in found]), 0.5 * numpy.ones(len(found))) > LEAST
    assert 0.95 < hits.sum() / photons.sum() < 1 and (hits <= photons).all()
    seen = [len(e.pmts) for _, d in datagrams for e in events(d)[1]]
    for truth, pmts in zip(found, seen, strict=True):
        most = sum(ring[5] for ring in truth.rings)
        assert most <= pmts <= most + truth.noise


def test_rings_of_events(made):
    counts = numpy.bincount([len(t.rings) for t in made[0]], minlength=5)
    share = numpy.array([0.03, 0.19, 0.21, 0.28, 0.29])
    assert stats.chisquare(counts, len(made[0]) * share).pvalue > LEAST


def test_disks_and_cells(made):
    """Photons fall on either disk, and lie about a circle as the pitch of 18 mm makes them."""
    place, off, upper = positions(), [], []
    merged = [e for _, d in made[1] for e in events(d)[1]]
    for truth, event in zip(made[0], merged, strict=True):
        upper += [pmt > 976 for pmt in event.pmts]
        if len(truth.rings) == 1 and not truth.noise and event.pmts:
            x, y, r = truth.rings[0][:3]
            off += list(numpy.hypot(*(place[event.pmts] - (x, y)).T) - r)
    assert abs(numpy.mean(upper) - 0.5) < 4 * 0.5 / len(upper)**.5
    # the cells of a hexagonal lattice: pitch √(5/72) along each axis
    assert abs(numpy.std(off) / (18 * (5 / 72)**.5) - 1) < 0.03


def test_times(made):
    found, datagrams = made
    gaps = numpy.diff([t.time_ns for t in found])
    assert even(1 - numpy.exp(-gaps / 100), 0, 1) > LEAST
    merged = [e for _, d in datagrams for e in events(d)[1]]
    late = [(e.timestamp * 256 + e.fine) * 25 / 256 - t.time_ns for t, e in zip(found, merged)]
    assert -1 < min(late) and max(late) < 1 and abs(numpy.mean(late) + 25 / 512) < 0.01


def test_datagrams(made):
    """Events are whole, datagrams numbered, counts of boards and labels right; the last datagram says that it is the last."""
    found, datagrams = made
    number = 0
    for i, (time_ns, data) in enumerate(datagrams):
        header, merged = events(data)
        last = i == len(datagrams) - 1
        assert header[:3] == (i, 3, 0) and header[6] == last and len(data) <= 1472
        assert header[4] == merged[0].timestamp
        for event in merged:
            assert event.rings == len(found[number].rings) and event.label == min(event.rings, 3)
            assert event.boards == tuple(numpy.bincount([(p - 1) // 488 for p in event.pmts],
                                                        minlength=4)) if event.pmts else True
            assert len(set(event.pmts)) == len(event.pmts)
            number += 1
        assert abs(time_ns - found[number - 1].time_ns) < 1.01
    assert number == len(found)
    sizes = sum(len(d) - 16 for _, d in datagrams)
    assert 71 < sizes / number < 75  # bytes an event: of the published sample 73


def test_pace(tmp_path):
    """Each frame takes its time on the wire: that of 1,538 bytes for a payload of 1,472."""
    for name, speed in ('1gbe', 1), ('10gbe', 10), ('4x10gbe', 40):
        stream('generate', '--events', 2000, '--pace', name, '--write', tmp_path / 'a.pcap')
        at = 0
        for time_ns, frame in frames(tmp_path / 'a.pcap'):
            at += (len(payload(frame)) + 66) * 8 / speed
            assert abs(time_ns - at) <= 1
    stream('generate', '--events', 2000, '--pace', 'apelink', '--write', tmp_path / 'a.pcap', '--stamp')
    at = 0
    for time_ns, frame in frames(tmp_path / 'a.pcap'):
        at += (-(-len(payload(frame)) // 16) + 4) * 128 / 27.2
        assert abs(time_ns - at) <= 1
        assert int.from_bytes(payload(frame)[16:24], 'little') == time_ns


def test_same_by_seed(tmp_path):
    for name, seed in ('a', 5), ('b', 5), ('c', 6):
        stream('generate', '--events', 500, '--seed', seed, '--write', tmp_path / f'{name}.pcap',
               '--truth', tmp_path / f'{name}.txt')
    for kind in 'pcap', 'txt':
        a, b, c = [(tmp_path / f'{name}.{kind}').read_bytes() for name in 'abc']
        assert a == b and a != c


def test_scrambled(tmp_path):
    """With --scramble only the labels differ."""
    data = []
    for more in (), ('--scramble',):
        stream('generate', '--events', 500, '--write', tmp_path / 'a.pcap', *more)
        data.append([e for _, f in frames(tmp_path / 'a.pcap') for e in events(payload(f))[1]])
    assert [e.pmts for e in data[0]] == [e.pmts for e in data[1]]
    assert sum(e.label != f.label for e, f in zip(*data)) > 300


@pytest.mark.parametrize('name', ['a.pcap', 'a.pcapng'])
def test_tshark(tmp_path, name):
    if not shutil.which('tshark'):
        pytest.skip('tshark is not installed')
    stream('generate', '--events', 400, '--write', tmp_path / name, '--pace', '1gbe')
    stream('generate', '--events', 400, '--write', tmp_path / 'same.pcap', '--pace', '1gbe')
    seen = tshark(tmp_path / name, 'frame.time_epoch', 'ip.checksum.status', 'udp.checksum.status',
                  'udp.dstport', 'udp.payload', 'frame.len')
    assert len(seen) > 15
    for (time_ns, frame), (epoch, *status, port, data, length) in zip(
            frames(tmp_path / 'same.pcap'), seen, strict=True):
        assert round(float(epoch) * 1e9) == time_ns and status == ['1', '1'] and port == '6666'
        assert bytes.fromhex(data.replace(':', '')) == payload(frame) and int(length) == len(frame)


@pytest.mark.parametrize('words', [
    ('--events', '0'), ('--events', 'x'), ('--rings', '1,2'), ('--rings', '0,0,0,0,0'), ('--pace', '2gbe'),
    ('--pace', '0x1gbe'), ('--most', '256'), ('--noise', '-1'), ('--rate', '0'), ('--source', '256'),
    ('--nothing',), ('more',), ()])
def test_wrong_usage(tmp_path, words):
    done = stream('generate', *(('--write', tmp_path / 'a.pcap', *words) if words else ()), ok=False)
    assert done.returncode == 2 and not (tmp_path / 'a.pcap').exists()
    assert 'weft stream: ' in done.stderr and not done.stdout


def test_nowhere_to_write(tmp_path):
    for option in '--write', '--truth':
        assert 'No such file' in stream('generate', option, tmp_path / 'no/a', ok=False).stderr
    full = stream('generate', '--write', '/dev/full', ok=False)
    assert full.returncode == 1 and 'No space' in full.stderr


def test_each_photomultiplier(made):
    """Every photomultiplier of the lattice is hit, at either disk, and no other number occurs."""
    seen = numpy.bincount([p for _, d in made[1] for e in events(d)[1] for p in e.pmts], minlength=1953)
    assert len(seen) == 1953 and not seen[0] and (seen[1:] > 0).all()
    # noise reaches the rim, and photons the middle more
    place = positions()
    assert numpy.hypot(*place[1:].T).max() < 297
