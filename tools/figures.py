#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Writes the figures of README.md from what `weft bench --json FILE` measured."""
import argparse
import json
import sys
from pathlib import Path

import readme

BENCH = readme.README.parent / 'bench'
sys.path.insert(0, str(BENCH))
import tables  # noqa: E402


def noted():
    """The line about the counts of instructions to which tests/speed holds."""
    count = json.loads((BENCH / 'instructions.json').read_text())
    return (f'Instructions, counted: {count["post_write_8_bytes"]} to post an 8-byte WRITE, '
            f'{count["poll_completion"]} to poll a completion; `make check` fails at a tenth more.')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('json', type=Path)
    result = json.loads(parser.parse_args().json.read_text())
    readme.write('figures', [tables.where(result), '', *tables.markdown(tables.limits(result)), '', noted()])


if __name__ == '__main__':
    main()
