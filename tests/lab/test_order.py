# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What one of two kernels sees of the other's stores (order.c): revocation and first use against WRITE, last byte last, bytes before
completion, and that no wake-up is lost. A libibverbs whose revoker asks no other host is found out."""
import re
import shutil

import pytest

from fabric import BUILD

PROGRAM, UNASKED = '/run/job/lab-order', '/run/job/unasked'
ROUNDS, LONG_ROUNDS, FIRST_USES = 300, 20000, 5
LONG_S = 7200

pytestmark = pytest.mark.timeout(LONG_S)  # the guests boot within the first test


@pytest.fixture(scope='module')
def ordered(pcie):
    for guest in pcie.guests:
        shutil.copy(BUILD / 'tests/lab/lab-order', guest.job)
    folder = pcie.guests[0].job / 'unasked'
    folder.mkdir()
    shutil.copy(BUILD / 'tests/lab/libibverbs.so.1', folder)
    return pcie


def play(machines, what, rounds, owner=None):
    """What the owner of the memory says, and its status; the writer ends well."""
    owner = owner or machines.start(0, PROGRAM, what, rounds)
    try:
        machines.start(1, PROGRAM, what, rounds, machines.guests[0].address).done(LONG_S)
        return owner.wait(LONG_S)
    finally:
        owner.kill()


@pytest.mark.parametrize('what', ['revoke', 'last', 'completion'])
@pytest.mark.parametrize('rounds', [ROUNDS, pytest.param(LONG_ROUNDS, marks=pytest.mark.slow)])
def test_order(ordered, what, rounds):
    status, said = play(ordered, what, rounds)
    assert status == 0 and f'{rounds} rounds, ' in said and said.endswith(' 0 wrong\n'), said
    if what == 'revoke':
        begun = int(re.search(r'in (\d+) the writer had begun', said)[1])
        assert begun >= rounds // 4, said


@pytest.mark.parametrize('times', [FIRST_USES, pytest.param(200, marks=pytest.mark.slow)])
def test_first_use(ordered, times):
    """Each owner is a new member, which no other host has used before the first of three rounds."""
    for _ in range(times):
        status, said = play(ordered, 'revoke', 3)
        assert status == 0, said


@pytest.mark.parametrize('rounds', [2500, pytest.param(50000, marks=pytest.mark.slow)])
def test_armings(ordered, rounds):
    """Each round arms a queue at both ends. A program whose wake-up is lost waits for ever."""
    for said in ordered.pair('ibv_rc_pingpong', '-g', 1, '-e', '-n', rounds, ends_s=LONG_S):
        assert f'{rounds} iters in ' in said, said


def test_is_found_out(ordered):
    """By a store that comes after the revocation has returned."""
    owner = ordered.guests[0].start(PROGRAM, 'revoke', LONG_ROUNDS // 10, LD_LIBRARY_PATH=UNASKED, WEFT_POOL=ordered.pool)
    status, said = play(ordered, 'revoke', LONG_ROUNDS // 10, owner)
    assert status == 1 and 'a store after it was revoked' in said, said
