# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""One-sided operations need neither the target's time nor the kernel, nor does an idle program."""
import os
import re
import signal
import time

import pytest
from fabric import free_port, listening, wait_for

WRITES = 1_000_000
IDLE_S = 6
# What wakes the helper of an idle program, a second: connected, it looks for the dead twice; with an armed queue, twice for what a
# producer may have left; and once at the host's addresses.
WAKE_UPS = {'open': 1, 'connected and armed': 2 + 2 + 1}
SLEEPS = re.compile(r'^(\d+) +([\d.]+) (?:<\.\.\. )?(futex|clock_nanosleep|epoll_p?wait|p?poll|p?select6?|read|recvmsg|rt_sigtimedwait)\b(.*)')


def test_stopped_target(fabric):
    assert fabric.run(fabric.program('onesided'), 'stopped').stdout == 'ok\n'
    totals = fabric.totals()
    assert (totals['ops_write'], totals['ops_read'], totals['ops_atomic']) == (1, 1, 2)


def test_no_system_call(fabric):
    log = fabric.folder / 'strace'
    fabric.run('strace', '-f', '-o', log, fabric.program('onesided'), 'count', WRITES)
    lines = log.read_text().splitlines()
    marks = [n for n, line in enumerate(lines) if 'getppid()' in line]
    assert len(marks) == 2
    # the helper looks for dead peers twice a second; a program that posts and polls never calls the kernel
    poster = lines[marks[0]].split()[0]
    assert [line for line in lines[marks[0] + 1:marks[1]] if line.split()[0] == poster] == []
    assert fabric.totals()['ops_write'] >= WRITES


def wake_ups(log, seconds):
    """How often a thread came back from a call in which it slept, in the last seconds of the log."""
    ended = [(float(m[2]), m[4]) for m in map(SLEEPS.match, log.read_text().splitlines()) if m and 'unfinished' not in m[4]]
    last = max(at for at, _ in ended)
    return sum(at > last - seconds for at, _ in ended)


@pytest.mark.waits
@pytest.mark.parametrize('state', WAKE_UPS)
def test_idle(fabric, state):
    """Several hosts can share a pool since, whose helpers look by themselves: those of a pool of one host do not."""
    log, port = fabric.folder / 'strace', free_port()
    traced = ['strace', '-f', '-ttt', '-o', log]
    if state == 'open':
        fabric.start(*traced, 'ibv_asyncwatch')
        wait_for(fabric.pool.exists, 'it opens the device')
    else:
        fabric.start(*traced, 'ibv_rc_pingpong', '-e', '-g', 3, '-n', 1 << 30, '-p', port)
        wait_for(lambda: listening(port), 'server listens')
        client = fabric.start('ibv_rc_pingpong', '-g', 3, '-n', 1 << 30, '-p', port, '127.0.0.1')
        wait_for(lambda: fabric.info()['totals']['ops_send'] > 100, 'messages are sent')
        os.killpg(client.process.pid, signal.SIGSTOP)
    time.sleep(IDLE_S + 4)
    woken = wake_ups(log, IDLE_S)
    print(f'{state}: {woken} wake-ups in {IDLE_S} s')
    assert 0 < woken <= WAKE_UPS[state] * IDLE_S + 2, log.read_text()[-4000:]
