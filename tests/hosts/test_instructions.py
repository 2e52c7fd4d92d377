# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A pool without atomics costs RC nothing: as many instructions, counted by callgrind, post and poll a request to another host as in a
pool that has them. Between two emulated guests, where time says it, five percent cannot be told from chance."""
import pytest
from fabric import executed
from hosts import Hosts
from pairs import free_port, listening, wait_for

ROUNDS = 1000


def instructions(function, program, atomics):
    """Those that the client executes in that function and below it, for a round."""
    with Hosts(atomics=atomics) as hosts:
        out, port = hosts.folder / 'callgrind', free_port()
        words = program, '-s', 8, '-n', ROUNDS, '-p', port
        server = hosts.start(*words, host=0)
        wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
        hosts.start('valgrind', '-q', '--tool=callgrind', f'--toggle-collect={function}', f'--callgrind-out-file={out}',
                    *words, '127.0.0.1', host=1).done(120)
        server.done()
        return executed(out) / ROUNDS


# Of polls those of WRITE alone: it is complete when it was posted, so that none finds nothing.
@pytest.mark.parametrize('function, program', [
    ('weft_verbs_post_send', 'ib_write_lat'), ('weft_verbs_post_send', 'ib_send_lat'), ('weft_verbs_post_recv', 'ib_send_lat'),
    ('weft_verbs_poll_cq', 'ib_write_lat')])
def test_atomics_cost_nothing(function, program):
    without, have = (instructions(function, program, atomics) for atomics in (False, True))
    print(f'{function} of {program}: {without:.1f} instructions without atomics, {have:.1f} with them')
    assert have > 0 and 0.95 <= without / have <= 1.05
