#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Draws docs/rings.svg: efficiency of each algorithm of `weft stream trigger` against hits and rings, and
the resolution of the fits beside what the pitch of the photomultipliers allows. Events by seed: the same
program draws the same picture. WEFT_BUILD= another build folder."""
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

import numpy

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT / 'bench')]
from plot import COLOURS  # noqa: E402
from stream.rings import QUANTISATION, chosen, efficiency, matches, misses, played  # noqa: E402

EVENTS = 20000
LEAST = 50  # events behind a point
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 330, 220, 52, 34, 16, 46
WAYS = {'crawford': ['--drop'], 'taubin': ['--drop'], 'almagest': [], 'histogram': []}


def panel(title, below, curves, x, y):
    """curves: {name: [(x, y)]}; x and y: (least, most, step) of the axes."""
    def place(point):
        return ((point[0] - x[0]) / (x[1] - x[0]) * WIDTH, (y[1] - point[1]) / (y[1] - y[0]) * HEIGHT)
    yield f'<text class="title" y="-10">{escape(title)}</text>'
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT + 34}" text-anchor="middle">{escape(below)}</text>'
    for value in numpy.arange(y[0], y[1] + 1e-9, y[2]):
        at = place((x[0], value))[1]
        yield f'<path class="grid" d="M0 {at:.1f}h{WIDTH}"/><text x="-6" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>'
    for value in numpy.arange(x[0], x[1] + 1e-9, x[2]):
        at = place((value, y[0]))[0]
        yield f'<path class="grid" d="M{at:.1f} 0v{HEIGHT}"/><text x="{at:.1f}" y="{HEIGHT + 16}" text-anchor="middle">{value:g}</text>'
    for i, (name, points) in enumerate(curves.items()):
        line = ' '.join(f'{px:.1f},{py:.1f}' for px, py in map(place, points))
        colour = COLOURS[i % len(COLOURS)]
        yield f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{line}"/>'
        yield f'<text x="{WIDTH - 4}" y="{HEIGHT - 8 - 14 * i}" text-anchor="end" fill="{colour}">{escape(name)}</text>'


def by_hits(folder):
    """Share of single rings found, for each number of hits."""
    curves = {}
    for name, more in WAYS.items():
        pairs = chosen(played(folder, EVENTS, '0,1,0,0,0', name, *more), 4)
        curves[name] = [(n, numpy.mean([matches(*pair)[0] for pair in some])) for n in range(4, 21)
                        if len(some := [p for p in pairs if p[0][0][5] == n]) >= LEAST]
    return curves


def by_rings(folder):
    found, none = {}, {}
    for name in 'almagest', 'histogram':
        shares = [(n, efficiency(chosen(played(folder, EVENTS, ','.join(str(int(n == i)) for i in range(5)), name),
                                        7, 50))) for n in range(1, 5)]
        found[f'{name}, found'] = [(n, share) for n, (share, _) in shares]
        none[f'{name}, none'] = [(n, fakes) for n, (_, fakes) in shares]
    return {**found, **none}


def resolution(folder):
    """σ of the radius for each number of hits, without noise."""
    curves = {'5.2 mm / √N': [(n, QUANTISATION / n**.5) for n in range(6, 21)]}
    for name in 'crawford', 'taubin':
        off = misses(chosen(played(folder, EVENTS, '0,1,0,0,0', name, noise=0), 6))
        curves[name] = [(n, numpy.std(some[:, 1])) for n in range(6, 21)
                        if len(some := off[off[:, 0] == n]) >= LEAST]
    for name in 'almagest', 'histogram':
        pairs = [(t, f[:1]) for t, f in chosen(played(folder, EVENTS, '0,1,0,0,0', name, noise=0), 6)
                 if len(f) and matches(t, f[:1])[0]]
        off = misses(pairs)
        curves[name] = [(n, numpy.std(some[:, 1])) for n in range(6, 21)
                        if len(some := off[off[:, 0] == n]) >= LEAST]
    return curves


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        panels = [
            panel('One ring: share found', 'hits of the ring (noise 0.5)', by_hits(folder), (4, 20, 2), (0, 1, 0.2)),
            panel('Rings ≥ 50 mm apart, ≥ 7 hits', 'rings of the event', by_rings(folder), (1, 4, 1), (0, 1, 0.2)),
            panel('σ of the radius, mm', 'hits of the ring (no noise)', resolution(folder), (6, 20, 2), (0, 4, 1))]
        across, down = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {3 * across} {down}" width="{3 * across}" '
                 f'height="{down}">', '<style>text{font:11px sans-serif}.title{font-weight:bold}'
                 '.grid{stroke:#ccc;stroke-width:.5}</style><rect width="100%" height="100%" fill="#fff"/>']
        for i, drawn in enumerate(panels):
            lines += [f'<g transform="translate({LEFT + i * across} {TOP})">', *drawn, '</g>']
    (ROOT / 'docs/rings.svg').write_text('\n'.join([*lines, '</svg>', '']))


if __name__ == '__main__':
    main()
