# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A bound that noise cannot hide: instructions of the verbs that programs call most, counted by
callgrind, must not grow by more than a tenth over those noted in bench/instructions.json. A commit that makes
them fewer, or has a good reason for more, notes the new number there."""
import json
from pathlib import Path

import pytest
from fabric import executed

pytestmark = pytest.mark.alone

NOTED = Path(__file__).resolve().parents[2] / 'bench/instructions.json'
COUNT = 12800
FUNCTIONS = {'post_write_8_bytes': 'post_all', 'post_send_8_bytes': 'send_all', 'post_read_8_bytes': 'read_all',
             'post_fetch_and_add': 'add_all', 'poll_completion': 'poll_all'}


def instructions(fabric, function, count):
    """Those executed in a function of bench/posts.c and below it."""
    out = fabric.folder / f'callgrind.{count}'
    fabric.run('valgrind', '-q', '--tool=callgrind', f'--toggle-collect={function}',
               f'--callgrind-out-file={out}', fabric.program('posts'), count, seconds=120)
    return executed(out)


@pytest.mark.parametrize('verb', FUNCTIONS)
def test_instructions(fabric, verb):
    noted = json.loads(NOTED.read_text())[verb]
    once, twice = (instructions(fabric, FUNCTIONS[verb], n) for n in (COUNT, 2 * COUNT))
    each = (twice - once) / COUNT
    print(f'{verb}: {each:.1f} instructions, noted {noted}')
    assert 0 < each <= 1.1 * noted
