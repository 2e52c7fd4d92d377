# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The addresses of a host change while a server listens there: in network namespaces of the tests' own."""
import subprocess

import pytest

from cm.server import serve
from fabric import namespaces, user_prefix, wait_for

pytestmark = pytest.mark.skipif(not namespaces(), reason='no user namespaces here')


class Host:
    """A network namespace with an interface that has no address yet."""

    def __init__(self, fabric):
        self.fabric = fabric
        self.enter = []
        self.enter = self.hold('unshare', '-rn')
        self.ip('link', 'set', 'lo', 'up')
        self.ip('link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'far')
        for link in 'eth0', 'far':
            self.ip('link', 'set', link, 'up')

    def hold(self, *words):
        """Makes a namespace by these words, and keeps it; returns the words that run a program in it."""
        holder = self.fabric.start(*self.enter, *words, 'sh', '-c', 'echo here; exec sleep 600', on_weft=False)
        wait_for(lambda: holder.output().stdout, 'a namespace')
        return ['nsenter', '-t', str(holder.process.pid), '-U', '-n', '--preserve-credentials']

    def ip(self, *words, enter=None):
        subprocess.run([*user_prefix(), *(enter or self.enter), 'ip', *words], check=True, capture_output=True)

    def serve(self, *argv):
        return serve(self.fabric, *self.enter, *argv)

    def start(self, *argv):
        return self.fabric.start(*self.enter, *argv, core=1)

    def reaches(self, address):
        done = self.start('rping', '-c', '-v', '-C', 3, '-a', address).wait()
        pings = done.stdout.count('ping data: rdma-ping-')
        assert pings in (0, 3), done
        return pings == 3


@pytest.mark.parametrize('listened, loopback', [('0.0.0.0', '127.0.0.1'), ('::', '::1')])
def test_listener(fabric, listened, loopback):
    """Renumbering: the new address comes, then the old one goes."""
    host = Host(fabric)
    server = host.serve('rping', '-s', '-P', '-a', listened)
    assert host.reaches(loopback)
    host.ip('addr', 'add', '10.1.2.3/24', 'dev', 'eth0')
    assert host.reaches(loopback) and host.reaches('10.1.2.3')
    host.ip('addr', 'add', '10.1.9.4/24', 'dev', 'eth0')
    assert host.reaches(loopback) and host.reaches('10.1.2.3') and host.reaches('10.1.9.4')
    host.ip('addr', 'del', '10.1.2.3/24', 'dev', 'eth0')
    assert host.reaches(loopback) and host.reaches('10.1.9.4')
    assert not host.reaches('10.1.2.3')
    host.ip('addr', 'del', '10.1.9.4/24', 'dev', 'eth0')
    assert host.reaches(loopback)
    assert server.process.poll() is None


def test_connection(fabric):
    """A connection lives on when the host loses the address that it was made by."""
    host = Host(fabric)
    host.ip('addr', 'add', '10.1.2.3/24', 'dev', 'eth0')
    host.serve('rping', '-s', '-P', '-a', '0.0.0.0')
    client = host.start('rping', '-c', '-v', '-a', '10.1.2.3')

    def pings():
        return client.output().stdout.count('ping data: rdma-ping-')
    wait_for(pings, 'a connection')
    host.ip('addr', 'del', '10.1.2.3/24', 'dev', 'eth0')
    assert host.reaches('127.0.0.1')  # by then the server's process has seen that the address is gone
    before = pings()
    wait_for(lambda: pings() > before + 100, 'it goes on')


def test_from_another_namespace(fabric):
    """Programs of another namespace know only the addresses that the server's process publishes; it looks for them
    each second."""
    host = Host(fabric)
    there = host.hold('unshare', '-n')
    host.ip('link', 'set', 'far', 'netns', there[2])
    host.ip('link', 'set', 'far', 'up', enter=there)
    host.ip('addr', 'add', '10.1.2.1/24', 'dev', 'far', enter=there)
    host.serve('rping', '-s', '-P', '-a', '0.0.0.0')
    host.enter, here = there, host.enter
    assert not host.reaches('10.1.2.3')
    host.ip('addr', 'add', '10.1.2.3/24', 'dev', 'eth0', enter=here)
    wait_for(lambda: host.reaches('10.1.2.3'), 'the new address', 20)
