# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""tests/lab/order.c between two hosts of one kernel: revocation against WRITE, last byte last, bytes before completion. A libibverbs
whose revoker asks no other host is found out. What the barriers of two kernels do is seen between guests (lab/test_order.py)."""
import shutil

import pytest
from fabric import BUILD
from pairs import listening, wait_for

PORT, ROUNDS, MUTATED_ROUNDS = 18531, 600, 3000


def play(hosts, what, rounds, **options):
    """What the owner of the memory says, and its status; the writer ends well."""
    owner = hosts.start(hosts.program('lab-order'), what, rounds, host=0, **options)
    wait_for(lambda: listening(PORT), 'the owner listens')
    hosts.start(hosts.program('lab-order'), what, rounds, '127.0.0.1', host=1).done()
    return owner.wait()


@pytest.mark.parametrize('what', ['revoke', 'last', 'completion'])
def test_order(either, what):
    done = play(either, what, ROUNDS)
    assert done.status == 0 and f'{ROUNDS} rounds, ' in done.stdout and done.stdout.endswith(' 0 wrong\n'), done


def test_is_found_out(two):
    folder = two.folder / 'unasked'
    folder.mkdir()
    shutil.copy(BUILD / 'tests/lab/libibverbs.so.1', folder)
    done = play(two, 'revoke', MUTATED_ROUNDS, on_weft=False, WEFT_POOL=two.pool, LD_LIBRARY_PATH=str(folder))
    assert done.status == 1 and 'a store after it was revoked' in done.stdout, done
