# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's rping: a connection made, used and ended by both sides."""
import pytest

from cm.server import serve
from fabric import free_port, wait_for


@pytest.mark.quick
@pytest.mark.parametrize('address', ['127.0.0.1', '::1'])
def test_one_client(fabric, address):
    server = serve(fabric, 'rping', '-s', '-v', '-C', 10, '-a', address)
    client = fabric.start('rping', '-c', '-v', '-C', 10, '-a', address, core=1)
    assert client.done().stdout.count('ping data: rdma-ping-') == 10
    # at its end the server prints that it waits for more, and that is no error
    assert server.wait().stdout.count('server ping data') == 10


def test_sixteen_clients(fabric):
    """All clients run at once, but connect one after the other: rping's server forgets a request that comes while it
    begins to serve another."""
    server = serve(fabric, 'rping', '-s', '-P', '-v')
    clients = []
    for i in range(16):
        client = fabric.start('rping', '-c', '-v', '-C', 500, '-a', '127.0.0.1', core=i)
        wait_for(lambda c=client: 'rdma-ping-0' in c.output().stdout, 'a connection')
        clients.append(client)
    for client in clients:
        assert client.done().stdout.count('ping data: rdma-ping-') == 500
    assert server.process.poll() is None
    server.kill()


@pytest.mark.quick
def test_explained_rejection(fabric):
    """Where no program listens: with WEFT_EXPLAIN the event has its reason."""
    client = fabric.start('rping', '-c', '-a', '127.0.0.1', '-p', free_port(),
                          WEFT_EXPLAIN='1')
    said = client.wait().stderr
    assert said.count('weft: RDMA_CM_EVENT_REJECTED: reason 8: no program listens there; IBTA 12.6.7.2\n') == 1


@pytest.mark.quick
def test_explained_call(fabric):
    """A call that fails says why as well: two programs cannot listen on one port."""
    port = free_port()
    serve(fabric, 'rping', '-s', '-a', '127.0.0.1', '-p', port)
    second = fabric.start('rping', '-s', '-a', '127.0.0.1', '-p', port, WEFT_EXPLAIN='1')
    said = second.wait().stderr
    assert said.count(f"weft: rdma_bind_addr: errno 98: port {port} of ::ffff:127.0.0.1 is another identifier's; "
                      'rdma_bind_addr(3)\n') == 1
