# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""One-sided operations need neither the target's time nor the kernel."""

WRITES = 1_000_000


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
