# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The tests of the harness (fabric.py): it refuses a program that only seems to have worked. Here programs run without
`weft run`, on the system's libraries."""
import os

import pytest

from fabric import Fabric, Trouble, free_port, listening, wait_for


class Bare(Fabric):
    """Runs programs as they are, taking the libraries of a given folder for Weft's."""
    ours = '/nonexistent'

    def run_words(self):
        return []

    def owns(self, library):
        return os.path.realpath(library).startswith(self.ours)


@pytest.fixture
def bare():
    with Bare() as made:
        yield made

# A command that ends well and quietly although the system's library finds no device.
LOADER_OF_VERBS = ('sh', '-c', 'ibv_devices >/dev/null 2>&1; true')


def test_system_library_is_refused(bare):
    with pytest.raises(Trouble, match=r'loaded /\S*/libibverbs.so.1'):
        bare.run(*LOADER_OF_VERBS)


def test_own_library_is_accepted(bare):
    bare.ours = '/usr/lib'
    assert bare.run(*LOADER_OF_VERBS).status == 0


def test_program_without_verbs_is_refused(bare):
    with pytest.raises(Trouble, match='no libibverbs'):
        bare.run('true')


def test_status_is_checked(bare):
    with pytest.raises(Trouble, match='status 3'):
        bare.run('sh', '-c', 'exit 3')


def test_error_text_is_refused(bare):
    bare.ours = '/usr/lib'
    with pytest.raises(Trouble, match='Failed status 12'):
        bare.run('sh', '-c', 'ibv_devices >/dev/null 2>&1; echo Failed status 12')


def test_time_out_kills(bare):
    program = bare.start('sleep', 60)
    with pytest.raises(Trouble, match='still running'):
        program.done(0.2)
    assert program.process.poll() is not None


def test_server_that_ends_early_is_reported(bare):
    with pytest.raises(Trouble, match='ib_write_lat'):
        bare.pair('ib_write_lat')  # no device: it never listens


def test_programs_run_as_an_ordinary_user(bare):
    assert bare.start('id', '-u').wait().stdout.strip() != '0'


def test_listening_is_seen_without_connecting(bare):
    port = free_port()
    code = f'import socket,time; s=socket.create_server(("", {port})); time.sleep(60)'
    program = bare.start('/usr/bin/python3', '-c', code)
    assert not listening(port)
    wait_for(lambda: listening(port), 'listens', 10)
    program.kill()
