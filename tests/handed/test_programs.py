# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Whole programs, whose requests a card in a process of its own carries: late, in parts, and in any order among
queue pairs."""
import re
import shutil
import subprocess

import pytest

from fabric import BUILD


class Card:
    def __init__(self, fabric, seed):
        path = BUILD / 'tests/handed/card'
        if fabric.home != BUILD:
            path = shutil.copy2(path, fabric.home / 'card')
        self.process = subprocess.Popen([*fabric.prefix, path, str(seed)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd=fabric.folder,
                                        env={**fabric.env, 'WEFT_POOL': str(fabric.pool)})
        assert self.process.stdout.readline() == 'ready\n'

    def carried(self):
        """Ends the card. Returns how many requests it has carried."""
        out, _ = self.process.communicate('', timeout=60)
        assert self.process.returncode == 0
        return int(re.match(r'(\d+) carried', out)[1])


@pytest.fixture
def card(fabric):
    started = Card(fabric, 7)
    yield started
    started.process.kill()
    started.process.wait()


@pytest.mark.parametrize('service', ['rc', 'uc'])
@pytest.mark.parametrize('events', [[], ['-e']], ids=['poll', 'events'])
def test_pingpong(fabric, card, service, events):
    fabric.pair(f'ibv_{service}_pingpong', '-g', 1, '-s', 4096, '-n', 200, '-c', *events)
    assert card.carried() == 400


@pytest.mark.parametrize('program', ['ib_write_lat', 'ib_read_lat', 'ib_send_lat', 'ib_atomic_lat'])
def test_latency(fabric, card, program):
    fabric.pair(program, '-x', 1, '-n', 100, '-F')
    assert card.carried() >= 100


@pytest.mark.parametrize('program', ['ib_write_bw', 'ib_read_bw', 'ib_send_bw'])
def test_bandwidth(fabric, card, program):
    fabric.pair(program, '-x', 1, '-n', 200, '-F', '-q', 4, '-s', 65536)
    assert card.carried() >= 800


def test_without_card(fabric):
    """Without a card the same program goes another way."""
    fabric.pair('ibv_rc_pingpong', '-g', 1, '-s', 4096, '-n', 200, '-c')
    assert fabric.totals()['ops_send'] >= 400
