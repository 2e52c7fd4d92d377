# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Draws curves against the size of a message as SVG: panels side by side, both axes logarithmic, one legend."""
import math
from xml.sax.saxutils import escape

COLOURS = ['#0072b2', '#009e73', '#d55e00', '#888888', '#56b4e9', '#e69f00', '#cc79a7']
WIDTH, HEIGHT = 300, 200  # of a panel
LEFT, TOP, RIGHT, BOTTOM = 62, 24, 14, 40  # around each
LEGEND = 26


class Panel:
    """curves: {title: {size: value}}; ticks(value) is the text at an axis."""

    def __init__(self, title, curves, size_text, value_text):
        self.title, self.curves = title, curves
        self.size_text, self.value_text = size_text, value_text
        sizes = [size for curve in curves.values() for size in curve]
        values = [value for curve in curves.values() for value in curve.values()]
        self.x = (math.log2(min(sizes)), max(math.log2(max(sizes)), math.log2(min(sizes)) + 1))
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self.y = (low, max(high, low + 1))

    def place(self, size, value):
        x = (math.log2(size) - self.x[0]) / (self.x[1] - self.x[0])
        y = (math.log10(value) - self.y[0]) / (self.y[1] - self.y[0])
        return x * WIDTH, (1 - y) * HEIGHT

    def grid(self):
        for power in range(self.y[0], self.y[1] + 1):
            _, y = self.place(2 ** self.x[0], 10 ** power)
            yield f'<path class="grid" d="M0 {y:.1f}h{WIDTH}"/>'
            yield f'<text x="-6" y="{y + 4:.1f}" text-anchor="end">{escape(self.value_text(10 ** power))}</text>'
        sizes = sorted({size for curve in self.curves.values() for size in curve})
        for size in sizes[::math.ceil(len(sizes) / 7)]:
            x, _ = self.place(size, 10 ** self.y[0])
            yield f'<path class="grid" d="M{x:.1f} 0v{HEIGHT}"/>'
            yield f'<text x="{x:.1f}" y="{HEIGHT + 16}" text-anchor="middle">{escape(self.size_text(size))}</text>'

    def draw(self, colours):
        yield f'<text class="title" x="0" y="-8">{escape(self.title)}</text>'
        yield from self.grid()
        for title, curve in self.curves.items():
            points = [self.place(size, value) for size, value in sorted(curve.items())]
            line = ' '.join(f'{x:.1f},{y:.1f}' for x, y in points)
            yield f'<g stroke="{colours[title]}" fill="{colours[title]}"><title>{escape(title)}</title>'
            yield f'<polyline fill="none" points="{line}"/>'
            yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in points)
            yield '</g>'


def svg(rows):
    """The text of a picture; rows is a list of lists of panels."""
    titles = list(dict.fromkeys(title for row in rows for panel in row for title in panel.curves))
    colours = {title: COLOURS[i % len(COLOURS)] for i, title in enumerate(titles)}
    across, down = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    width = across * max(map(len, rows))
    height = LEGEND + down * len(rows)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
             f'height="{height}">',
             '<style>text{font:11px sans-serif;fill:#333}.title{font-weight:bold;font-size:12px}'
             '.grid{stroke:#ddd;fill:none}polyline{stroke-width:2}</style>',
             f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i, title in enumerate(titles):
        x = LEFT + i * (width - LEFT) / len(titles)
        lines += [f'<path d="M{x:.0f} 16h18" stroke="{colours[title]}" stroke-width="3"/>',
                  f'<text x="{x + 23:.0f}" y="20">{escape(title)}</text>']
    for j, row in enumerate(rows):
        for i, panel in enumerate(row):
            lines.append(f'<g transform="translate({LEFT + i * across} {LEGEND + TOP + j * down})">')
            lines += panel.draw(colours)
            lines.append('</g>')
    return '\n'.join([*lines, '</svg>', ''])
