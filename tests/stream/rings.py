# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Rings found, beside those that there are: efficiency and resolution of `weft stream trigger` on events
of `weft stream generate`, for the tests and for the plots of docs/stream.md."""
import numpy
from scipy import optimize

from stream.capture import fits, stream, truths

IN_RADIUS, IN_CENTRE = 10, 15  # mm: a ring that is found
QUANTISATION = 5.2  # mm a hit


def played(folder, events, rings, algorithm, *more, noise=0.5, seed=1):
    """[(true rings, rings found)] of each event."""
    stream('generate', '--events', events, '--rings', rings, '--noise', noise, '--seed', seed,
           '--write', folder / 'a.pcap', '--truth', folder / 'a.txt')
    stream('trigger', '--read', folder / 'a.pcap', '--algorithm', algorithm, '--fits', folder / 'f.txt',
           *more)
    found = fits(folder / 'f.txt')
    return [(numpy.array(t.rings), numpy.array(f[3]))
            for t, f in zip(truths(folder / 'a.txt'), found, strict=True)]


def chosen(pairs, hits, apart=0):
    """The pairs of events whose true rings have so many hits each, and lie so far from each other."""
    def fine(there):
        gaps = numpy.hypot(*(there[:, None, :2] - there[None, :, :2]).transpose(2, 0, 1))
        return (there[:, 5] >= hits).all() and (gaps[numpy.triu_indices(len(there), 1)] >= apart).all()
    return [pair for pair in pairs if fine(pair[0])]


def matches(there, found):
    """Which of the true rings were found, each once."""
    hit = numpy.zeros(len(there), bool)
    if len(found):
        near = (abs(there[:, None, 2] - found[None, :, 2]) < IN_RADIUS) & (numpy.hypot(
            there[:, None, 0] - found[None, :, 0], there[:, None, 1] - found[None, :, 1]) < IN_CENTRE)
        rows, columns = optimize.linear_sum_assignment(~near)
        hit[rows] = near[rows, columns]
    return hit


def efficiency(pairs):
    """(share of the true rings that was found, false rings an event)"""
    right = sum(matches(*pair).sum() for pair in pairs)
    return (right / sum(len(there) for there, _ in pairs),
            (sum(len(found) for _, found in pairs) - right) / len(pairs))


def misses(pairs):
    """For events with one ring, where one was found: (hits, errors of r, x and y)."""
    both = [(there[0], found[0]) for there, found in pairs if len(found)]
    return numpy.array([(t[5], f[2] - t[2], f[0] - t[0], f[1] - t[1]) for t, f in both])
