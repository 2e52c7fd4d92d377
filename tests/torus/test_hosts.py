# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Nodes as hosts: `--netns`, where each has a network of its own beside the torus, and `--part`, where two halves of a torus, in
two network namespaces that a pair of interfaces joins, find each other by UDP."""
import re
import shutil
import subprocess

import pytest

from fabric import user_prefix
from live import TIMEOUT_S, wait_until
from test_verbs import PATIENCE_S, Ends


def may_unshare():
    return not subprocess.run([*user_prefix(), 'unshare', '-rn', 'ip', 'link', 'add', 'x', 'type', 'bridge'], check=False,
                              capture_output=True).returncode


pytestmark = pytest.mark.skipif(not shutil.which('ip') or not may_unshare(),
                                reason='no ip, or this user may make no network namespaces')


def test_netns(live):
    """Each node is in a namespace of its own, and hears the others by sockets; what goes by verbs goes by the cables, to the
    same address."""
    live.weft('up', '2x2', '--netns')
    seen = live.weft('run', '--each', '--', 'sh', '-c', 'readlink /proc/self/ns/net; ip -4 -brief address show dev torus0')
    assert len(set(re.findall(r'net:\[\d+\]', seen))) == 4
    assert sorted(re.findall(r'10\.[\d.]+(?=/)', seen)) == ['10.0.0.1', '10.0.1.1', '10.1.0.1', '10.1.1.1']
    ends = Ends(live, '1,1,0', 2)
    words = ['rping', '-v', '-a', '10.0.0.1', '-C', 5, '-S', 1000]
    said = ends.moves(2 * 5 * 1000, lambda: ends.connected([*words, '-s'], [*words, '-c']))
    assert said[0].count('ping data: rdma-ping-') == 5
    words = ['ib_write_bw', '-R', '-F', '-n', 20, '-s', 1024]
    ends.moves(20 * 1024, lambda: ends.connected(words, [*words, '10.0.0.1']))
    # the same without librdmacm: the two find each other by a socket
    words = ['ib_write_lat', '-x', 1, '-F', '-n', 20, '-s', 1024]
    ends.moves(2 * 20 * 1024, lambda: by_socket(ends, words))
    live.weft('down')
    assert not list(live.home.iterdir())


def by_socket(ends, words):
    """The server listens in its node's namespace, which no table here shows: the client is told again until it is heard."""
    server = ends.start('0,0,0', words)
    for _ in range(50):
        client = ends.start(ends.node, [*words, '10.0.0.1'])
        said = client.communicate(timeout=PATIENCE_S)[0]
        if not client.returncode:
            break
        assert "Couldn't connect" in said, said
    server.communicate(timeout=PATIENCE_S)
    assert server.returncode == client.returncode == 0, said


def test_netns_alone(live):
    for words in ['--link', 'udp'], ['--part', '0/2', '--peer', '127.0.0.1:4800']:
        assert '--netns goes with' in live.weft('up', '2', '--netns', *words, status=2)


class Half:
    """A part of a torus in a network namespace, entered by a process in it."""

    def __init__(self, live, number, pid, address, other):
        self.live, self.number, self.pid, self.address, self.other = live, number, pid, address, other
        self.home = live.home / f'part{number}'

    def words(self, *words):
        enter = ['nsenter', '--preserve-credentials', '-U', '-n', '-t', str(self.pid)]
        return [*self.live.fabric.prefix, *enter, 'env', f'WEFT_TORUS_HOME={self.home}', str(self.live.fabric.command), 'torus',
                *map(str, words)]

    def weft(self, *words):
        done = subprocess.run(self.words(*words), capture_output=True, text=True, check=False, env=self.live.env, cwd='/',
                              timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done
        return done.stdout

    def up(self):
        return self.weft('up', '2x2', '--part', f'{self.number}/2', '--port', 4800, '--peer', f'{self.other}:4800')


NETWORKS = '''
ip link add here type veth peer name there
unshare -n sleep 600 & far=$!
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
ip link set there netns $far
ip addr add 10.200.0.1/24 dev here; ip link set here up; ip link set lo up
nsenter -n -t $far sh -c 'ip addr add 10.200.0.2/24 dev there; ip link set there up; ip link set lo up'
echo $$ $far ready
wait
'''


def test_parts(live):
    """Two halves of 2×2, each with a folder of its own that the other does not have: each byte between all pairs of nodes."""
    networks = subprocess.Popen([*live.fabric.prefix, 'unshare', '-rn', 'sh', '-c', NETWORKS], stdout=subprocess.PIPE,
                                text=True, start_new_session=True, stdin=subprocess.DEVNULL)
    pids = []
    halves = []
    try:
        while not pids or pids[-1] != 'ready':
            pids = networks.stdout.readline().split()
            assert pids, 'no networks'
        halves = [Half(live, 0, pids[0], '10.200.0.1', '10.200.0.2'), Half(live, 1, pids[1], '10.200.0.2', '10.200.0.1')]
        for half in halves:
            subprocess.run([*live.fabric.prefix, 'mkdir', half.home], check=True)
            assert half.up() == f'part {half.number}/2 of torus is up: 2 of 4 nodes\n'
        wait_until(lambda: all(' no ' not in half.weft('status') for half in halves), 'the halves do not hear each other')
        pairs = [subprocess.Popen(half.words('run', '--each', '--', live.fabric.program('torus-pairs')), stdout=subprocess.PIPE,
                                  text=True, env=live.env, cwd='/', stdin=subprocess.DEVNULL) for half in halves]
        said = [pair.communicate(timeout=PATIENCE_S)[0] for pair in pairs]
        assert [words.count('every byte is right') for words in said] == [2, 2], said
        assert 'elsewhere' in halves[0].weft('status')
    finally:
        for half in halves:
            subprocess.run(half.words('down'), env=live.env, check=False, capture_output=True, timeout=TIMEOUT_S)
            subprocess.run([*live.fabric.prefix, 'rmdir', half.home], check=False)
        for pid in pids[:2]:
            subprocess.run([*live.fabric.prefix, 'kill', '-9', pid], check=False)
        networks.wait()
        networks.stdout.close()
