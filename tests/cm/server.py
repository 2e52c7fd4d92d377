# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What tests of connection management share."""
from fabric import Trouble, wait_for


def listening(fabric, port=None):
    """Whether a program of the pool listens on that port, or on any port."""
    try:
        ports = fabric.info()['ports']
    except Trouble:
        return False  # no pool yet
    return any(p['listening'] and port in (None, p['port']) for p in ports)


def serve(fabric, *argv, port=None, core=0, **env):
    """Starts a server and waits until it listens."""
    server = fabric.start(*argv, core=core, **env)
    wait_for(lambda: listening(fabric, port) or server.process.poll() is not None, 'it listens')
    if server.process.poll() is not None:
        server.done()
    return server
