# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""System calls of a program that sleeps on completion channels, for each request (bench/events.c), counted by strace:
no membarrier, at most one wake-up call for each sleep of a client, and no more of the others than the table allows. A sleep is an
arming that an event has ended: one read of the channel. A server that finds the next request before it sleeps has none itself."""
import collections
import json
import re
import shutil

import pytest

pytestmark = pytest.mark.alone

REQUESTS = 4000
ANSWERED = REQUESTS + REQUESTS // 16  # those that come before what bench/events.c measures are counted, too
# At most so many calls of the server for each request; calls that are not named count as `others`. The first arming of a
# connection, its set-up and the helper's looks each half second are among them.
BOUNDS = {'epoll_wait': 1.1, 'read': 1.1, 'write': 1.1, 'newfstatat': 1.2, 'futex': 0.1, 'membarrier': 0.02,
          'process_vm': 0, 'others': 0.5}
CALL = re.compile(r'^(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed>)(.*)')


def calls_of(log, server):
    """{call: how often} the server's process makes it, its helper included, from its first event on; and the reads of all others."""
    counts, ours, begun, read = collections.Counter(), {server}, False, 0
    for line in log.read_text().splitlines():
        found = CALL.match(line)
        if not found or 'resumed>' in line.split('(')[0]:
            continue
        pid, call, rest = int(found[1]), found[2], found[3]
        if call in ('clone', 'clone3') and pid in ours and 'CLONE_THREAD' in rest:
            child = re.search(r'= (\d+)$', rest)
            if child:
                ours.add(int(child[1]))
        if pid not in ours:
            read += begun and call == 'read'
            continue
        begun = begun or call == 'epoll_wait'
        if begun:
            counts[re.sub(r'^process_vm_.*', 'process_vm', call)] += 1
    return counts, read


needs_strace = pytest.mark.skipif(not shutil.which('strace'), reason='needs strace')


@needs_strace
@pytest.mark.parametrize('clients', [1, 50])
def test_calls_of_a_request(fabric, clients):
    log = fabric.folder / 'calls'
    done = fabric.run('strace', '-f', '-qq', '-o', log, fabric.program('events'), 'verbs', 0, 1, clients, 1, 1, 64, 0,
                      REQUESTS, seconds=120)
    counts, read_by_clients = calls_of(log, json.loads(done.stdout)['server'])
    each = {call: counts[call] / ANSWERED for call in BOUNDS if call != 'others'}
    each['others'] = sum(n for call, n in counts.items() if call not in BOUNDS) / ANSWERED
    for call, bound in BOUNDS.items():
        print(f'{clients:3} clients  {call:12} {each[call]:6.3f}  (at most {bound})')
    assert counts['read'] > 0 and counts['epoll_wait'] > 0 and read_by_clients >= ANSWERED / 2, (counts, read_by_clients)
    assert counts['write'] <= 1.05 * read_by_clients + 2 * clients + 20, (counts, read_by_clients)
    assert not {call: n for call, n in each.items() if n > BOUNDS[call]}, counts


@needs_strace
def test_a_wake_up_that_comes_late(fabric):
    """Each side stands still as it wakes the other, for longer than the other's helper waits: that helper wakes its own program,
    and what the waker writes when it goes on is no event."""
    late = ('-e', 'inject=write:delay_enter=1500000:when=300')
    done = fabric.run('strace', '-f', '-qq', '-o', fabric.folder / 'calls', *late, fabric.program('events'), 'verbs', 0,
                      1, 1, 1, 1, 64, 0, REQUESTS, seconds=120)
    assert json.loads(done.stdout)['requests'] >= REQUESTS
