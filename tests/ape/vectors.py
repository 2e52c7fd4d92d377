#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Writes vectors.tsv: headers, footers and credits as bits, by nothing but this."""
import random

FIELDS = [('vc', 4), ('last', 1), ('channel', 16), ('x', 6), ('y', 5), ('z', 5), ('port', 4), ('', 1),
          ('out', 1), ('type', 5), ('bytes', 14), ('addr', 48), ('hops', 10)]
FOOTER = [('crc', 32), ('seq', 24), ('ack', 24), ('x', 6), ('y', 5), ('z', 5), ('life', 16), ('peer', 16)]
COUNTS = [(f'{what}{vc}', bits) for vc in (0, 1) for what, bits in
          (('used', 12), ('usedh', 8), ('taken', 12), ('takenh', 8))]
CREDIT = [*COUNTS, ('mark', 8), ('seen', 8), ('deaf', 1), ('between', 1), ('wants', 1), ('constant', 21)]
NUMBERS = [n for n in range(1, 128) if n & (n - 1)]


def pack(fields, values):
    word, at = 0, 0
    for name, bits in fields:
        word |= values.get(name, 0) << at
        at += bits
    return word


def protect(data):
    syndrome = 0
    for bit, number in enumerate(NUMBERS):
        syndrome ^= number * (data >> bit & 1)
    word = data | syndrome << 120
    return word | (bin(word).count('1') & 1) << 127


def limits(name, bits, rng):
    top = {'vc': 1, 'bytes': 4096}.get(name, (1 << bits) - 1)
    return rng.choice([0, top, rng.randint(0, top)])


def main():
    rng = random.Random(20)
    print('# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause')
    for _ in range(200):
        header = {name: limits(name, bits, rng) for name, bits in FIELDS if name}
        header['bytes'] *= header['type'] < 16
        print('header', *(header[n] for n, _ in FIELDS if n), f'{protect(pack(FIELDS, header)):032x}')
    for _ in range(100):
        footer = {name: rng.getrandbits(bits) for name, bits in FOOTER}
        print('footer', *footer.values(), f'{pack(FOOTER, footer):032x}')
    for _ in range(100):
        credit = {name: rng.getrandbits(bits) for name, bits in CREDIT[:-1]}
        word = protect(pack(CREDIT, {**credit, 'constant': 0xa9e700 >> 3}))
        print('credit', *credit.values(), f'{word:032x}')


main()
