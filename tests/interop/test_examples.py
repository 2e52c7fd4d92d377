# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The programs of examples/, which know nothing of Weft, do what they say."""
import pytest

from fabric import free_port, listening, wait_for


@pytest.mark.parametrize('name, said', [
    ('hello', 'hello, queue pair '), ('put', '65536 bytes came\n'), ('counter', 'counted to 1000\n')])
def test_example(fabric, name, said):
    port = free_port()
    program = fabric.program(name)
    server = fabric.start(program, '3', port, core=0)
    wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
    client = fabric.start(program, '3', port, '127.0.0.1', core=1)
    assert client.done().stdout == ''
    assert server.done().stdout.startswith(said)
