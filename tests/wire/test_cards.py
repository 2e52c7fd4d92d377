# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's programs between two hosts, whose cards start by themselves. Each test fails unless both cards have counted
what was moved: nothing went through a pool."""
import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from cm.server import listening
from fabric import namespaces, wait_for
from wire.hosts import FOUR, LINK, Hosts, check_moved

# Queue pairs of perftest give up after half a second, which a card may wait for a core on a machine with much other work; so
# after half a minute.
PATIENT = ('-F', '-u', 20)
CONNECTS = 18520  # port of connects.c
pytestmark = pytest.mark.skipif(not namespaces(), reason='no user namespaces here')


@pytest.fixture(scope='module')
def hosts():
    with Hosts() as made:
        for host in made.hosts:
            wait_for(lambda host=host: 'tentative' not in host.plain('ip', 'address', 'show', 'dev', 'w0'), 'addresses')
        yield made


def run(hosts, *argv, least=(0, 0), **env):
    """least: bytes that must have gone from the client's host, and come to it."""
    before = hosts.rest()
    said = hosts.pair(*argv, **env)
    check_moved(hosts, before, least)
    return said


@pytest.mark.parametrize('service', ['rc', 'uc', 'srq'])
@pytest.mark.parametrize('size', [1, 4096, 100001])
def test_pingpong(hosts, service, size):
    run(hosts, f'ibv_{service}_pingpong', '-g', FOUR, '-n', 100, '-s', size, '-c', least=(100 * size, 100 * size))


@pytest.mark.parametrize('index', [FOUR, LINK], ids=['four', 'link'])
@pytest.mark.parametrize('size', [1, 4000])
def test_datagrams(hosts, size, index):
    """Each datagram is answered, by what ibv_create_ah makes of the exchanged address; none is lost, or the program would not end."""
    run(hosts, 'ibv_ud_pingpong', '-g', index, '-n', 100, '-s', size, least=(100 * size, 100 * size))


@pytest.mark.parametrize('program', ['ib_send_bw', 'ib_send_lat'])
def test_datagrams_of_perftest(hosts, program):
    """A server of ib_send_bw sends nothing, so that its host has a card only if one is started there."""
    there = hosts.hosts[1]
    status, said = there.nic('up', there.address)
    assert status == 0, said
    run(hosts, program, '-c', 'UD', '-x', FOUR, '-n', 100, '-s', 2000, '-F', least=(200000, 0))


def test_unreliable_of_perftest(hosts):
    run(hosts, 'ib_send_bw', '-c', 'UC', '-x', FOUR, '-n', 100, '-s', 20000, '-F', least=(2000000, 0))


@pytest.mark.counted
@pytest.mark.parametrize('index', [FOUR, LINK], ids=['four', 'link'])
def test_header_of_datagrams(hosts, index):
    """grh.c: the 40 bytes as the wire carried them, and answers to what ibv_create_ah_from_wc makes of them."""
    run(hosts, hosts.fabrics[0].program('grh'), index, least=(4000, 4000), port=18516)


def test_order_of_completions(hosts):
    """order.c: a SEND completes before what it is answered with arrives, in one completion queue."""
    run(hosts, hosts.fabrics[0].program('order'), FOUR, least=(1200, 1200), port=18518)


def test_no_extended_connections(hosts):
    """XRC is refused at the transition to RTR, with the reason, and not by time-outs."""
    here, there = hosts.hosts
    argv = ['ibv_xsrq_pingpong', '-g', FOUR, '-n', 10, '-p', 18520]
    server = there.start(*argv, core=0, WEFT_EXPLAIN='1')
    wait_for(lambda: there.listens(18520) or server.process.poll() is not None, 'server listens')
    ends = server, here.start(*argv, there.address, core=1, WEFT_EXPLAIN='1')
    said = [end.wait() for end in ends]
    assert all(end.status == 1 for end in said), said
    assert any('its peer is on another host, where no card brings XRC' in end.stderr for end in said), said


@pytest.mark.parametrize('index', [FOUR, LINK], ids=['four', 'link'])
def test_events(hosts, index):
    run(hosts, 'ibv_rc_pingpong', '-g', index, '-n', 100, '-c', '-e', least=(409600, 409600))


@pytest.mark.parametrize('program, least', [('ib_write_lat', (200, 200)), ('ib_send_lat', (200, 200)),
                                            ('ib_read_lat', (200, 200)), ('ib_atomic_lat', (800, 800))])
def test_latency(hosts, program, least):
    run(hosts, program, '-x', FOUR, '-n', 100, *PATIENT, least=least)


@pytest.mark.parametrize('program', ['ib_write_bw', 'ib_read_bw', 'ib_send_bw'])
@pytest.mark.parametrize('qps', [1, 4])
def test_bandwidth(hosts, program, qps):
    moved = 100 * qps * 65536
    run(hosts, program, '-x', FOUR, '-n', 100, *PATIENT, '-q', qps, '-s', 65536,
        least=(0, moved) if program == 'ib_read_bw' else (moved, 0))


@pytest.mark.counted
@pytest.mark.parametrize('service', ['UC', 'RC'])
def test_slow_interface(hosts, service):
    """What an interface does not take at once goes later, though no answer and no timer wakes the card for it."""
    client = hosts.hosts[0]
    slow = subprocess.run([*client.enter, *'tc qdisc add dev w0 root tbf rate 400mbit burst 70kb limit 200mb'.split()],
                          capture_output=True, text=True, check=False)
    if slow.returncode:
        pytest.skip(f'the kernel makes no interface slow: {slow.stderr.strip()}')
    try:
        before = hosts.counts_at_rest(0)['bytes_sent']
        hosts.pair('ib_write_bw', '-c', service, '-x', FOUR, '-n', 400, '-F', '-s', 65536)
        assert hosts.counts_at_rest(0)['bytes_sent'] - before >= 400 * 65536
    finally:
        client.plain('tc', 'qdisc', 'del', 'dev', 'w0', 'root')


@pytest.mark.parametrize('options', [('-l', 300001), ('-m', 4096, '-l', 300001), ('-m', 256, '-l', 20000), ('-u',)],
                         ids=lambda options: ' '.join(map(str, options)))
def test_every_byte(hosts, options):
    """across.c: SEND, WRITE, READ, atomics, of each odd length, with immediates, late receives; both sides' memory is
    compared after each step."""
    program = hosts.fabrics[0].program('across-verbs')
    run(hosts, program, FOUR, *options, least=(300000, 300000), port=18516)


@pytest.mark.waits
def test_errors(hosts):
    """What a peer can cause, both ways: the status at the requester, the receive, the event."""
    run(hosts, hosts.fabrics[0].program('across-verbs'), FOUR, '-e', least=(1, 1), port=18516)


@pytest.fixture(scope='module')
def heard(hosts):
    """A program that only listens starts no card, and is reached if there is one."""
    assert hosts.hosts[1].nic('up', hosts.hosts[1].address)[0] == 0
    return hosts


@pytest.mark.counted
@pytest.mark.parametrize('program, words', [('rping', ('-C', 20)), ('rping', ('-C', 20, '-S', 3000)),
                                            ('ucmatose', ('-c', 4, '-C', 20, '-S', 1000)),
                                            ('udaddy', ('-c', 2, '-C', 20, '-S', 1000)), ('cmtime', ('-c', 50))],
                         ids=['rping', 'long', 'ucmatose', 'udaddy', 'cmtime'])
def test_connections(heard, program, words):
    """Over queue pair 1: address, route, REQ, REP, RTU, DREQ; or a lookup."""
    client, server = heard.hosts
    before = heard.rest()
    there = server.start(program, *words, *{'rping': ('-s', '-a', server.address), 'cmtime': ()}.get(
        program, ('-b', server.address)))
    wait_for(lambda: listening(server.fabric) or there.process.poll() is not None, 'server listens')
    here = client.start(program, *words, *(('-c', '-a') if program == 'rping' else ('-s',)), server.address)
    here.done(30)
    if program == 'cmtime':  # it goes on
        there.kill()
    else:
        there.done(30)
    check_moved(heard, before, (1000, 1000))


@pytest.mark.counted
def test_listener_without_cards(heard):
    """What comes by a card is refused for a program that has WEFT_NIC=off, as if nobody listened."""
    client, server = heard.hosts
    there = server.start('rping', '-s', '-a', server.address, WEFT_NIC='off')
    wait_for(lambda: listening(server.fabric) or there.process.poll() is not None, 'server listens')
    said = client.start('rping', '-c', '-C', 1, '-a', server.address).wait(30)
    assert 'RDMA_CM_EVENT_REJECTED' in said.stderr + said.stdout, said
    assert there.process.poll() is None
    there.kill()


@pytest.mark.waits
def test_group(heard):
    """A listener of a group hears each datagram once, and the host that sends needs no listener."""
    client, server = heard.hosts
    before = heard.rest()
    words = ('mckey', '-m', '239.255.0.7', '-C', 20, '-S', 1000)
    there = server.start('stdbuf', '-oL', *words, '-b', server.address)
    wait_for(lambda: 'receiving data' in there.output().stdout or there.process.poll() is not None, 'it has joined')
    wait_for(lambda: '239.255.0.7' in server.plain('ip', 'maddress', 'show', 'dev', 'w0'), 'the card has joined')
    here = client.start(*words, '-b', client.address, '-s')
    for program in here, there:
        assert 'return status 0' in program.done(30).stdout
    check_moved(heard, before, (20000, 0))
    wait_for(lambda: '239.255.0.7' not in server.plain('ip', 'maddress', 'show', 'dev', 'w0'), 'the card has left')


def disconnect_by_death(heard, dies):
    """How long after the death of the client, or the server, the other hears of it."""
    client, server = heard.hosts
    there = server.start('rping', '-s', '-a', server.address)
    wait_for(lambda: listening(server.fabric) or there.process.poll() is not None, 'server listens')
    here = client.start('rping', '-c', '-a', server.address)
    wait_for(lambda: all(any(card['queue_pairs'] for card in host.cards()) for host in heard.hosts), 'they are connected')
    doomed, other = (here, there) if dies == 0 else (there, here)
    killed_s = time.monotonic()
    doomed.kill()
    wait_for(lambda: 'DISCONNECT EVENT' in other.output().stderr or other.process.poll() is not None, 'the other hears of it')
    heard_s = time.monotonic()
    assert 'DISCONNECT EVENT' in other.output().stderr, other.output()
    wait_for(lambda: other.process.poll() is not None, 'the other ends')
    return heard_s - killed_s


@pytest.mark.counted
@pytest.mark.parametrize('dies', [0, 1], ids=['client', 'server'])
def test_death_of_a_program(heard, dies):
    """The dead program's card sends the DREQ for it: the other program is disconnected, and ends."""
    disconnect_by_death(heard, dies)


@pytest.mark.alone
def test_death_within_a_second(heard):
    assert max(disconnect_by_death(heard, i % 2) for i in range(4)) <= 1


def left_in(host):
    """What there is of a host's pool, and of its card: memory in KiB, and descriptors. The card alone is a member, once it has
    recovered what has ended."""
    looks = []
    wait_for(lambda: looks.append(host.fabric.info()) or len(looks[-1]['members']) == 1, 'the card is alone')
    info = looks[-1]
    process = Path(f"/proc/{host.card()['pid']}")
    held_kib = int(re.search(r'RssAnon:\s*(\d+)', (process / 'status').read_text())[1])
    return (len(info['qps']), len(info['regions']), len(info['members'])), host.card()['queue_pairs'], held_kib, len(
        list((process / 'fd').iterdir()))


def connect_and_end(heard, count, at_once):
    """What the processes of that program have left, as it says, and each host before and after."""
    client, server = heard.hosts
    program = client.fabric.program('connects')
    assert client.nic('up', client.address)[0] == 0
    # a first run: tables that grow stay
    for times in (2000, count):
        before = [left_in(host) for host in heard.hosts]
        there = server.start(program, 'serve', server.address)
        wait_for(lambda there=there: server.listens(CONNECTS) or there.process.poll() is not None, 'server listens')
        said = client.start(program, times, at_once, server.address, core=1).done(600).stdout
        there.done()
        wait_for(lambda: not any(host.card()['queue_pairs'] for host in heard.hosts), 'cards forget')
        after = [left_in(host) for host in heard.hosts]
    return json.loads(said), before, after


def connects_leave_nothing(heard, count, at_once):
    said, before, after = connect_and_end(heard, count, at_once)
    print(said, before, after)
    for side in 'client', 'server':
        assert said[side]['descriptors'] == 0 and said[side]['mappings'] <= 4 and said[side]['bytes'] <= 64 << 10, said
    for was, now in zip(before, after):
        assert now[:2] == was[:2] and now[3] == was[3] and now[2] - was[2] <= 256, (before, after)


def test_many_connections(heard):
    connects_leave_nothing(heard, 10000, 50)


CONNECTIONS, IDLE_S = 1000, 10


def took_ns(pid):
    """The processor's time that a process has had, by its threads that are there."""
    return sum(int((task / 'schedstat').read_text().split()[0]) for task in Path(f'/proc/{pid}/task').iterdir())


@pytest.mark.alone
def test_idle_card(hosts):
    """With 1,000 connections that are idle a card takes less than a thousandth of a core."""
    here, there = hosts.hosts
    words = (hosts.fabrics[0].program('idle'), FOUR, CONNECTIONS)
    programs = [there.start(*words, core=0)]
    wait_for(lambda: there.listens(18522) or programs[0].process.poll() is not None, 'server listens')
    programs.append(here.start(*words, there.address, core=1))
    for program in programs:
        wait_for(lambda program=program: program.output().stdout or program.process.poll() is not None, 'connections')
        assert program.output().stdout == 'idle\n', program.output()
    hosts.rest()
    cards = [host.card() for host in hosts.hosts]
    assert all(card['queue_pairs'] == CONNECTIONS for card in cards)
    before = [took_ns(card['pid']) for card in cards]
    time.sleep(IDLE_S)
    took = [took_ns(card['pid']) - was for card, was in zip(cards, before)]
    for program in programs:
        program.kill()
    print(took)
    assert max(took) < IDLE_S * 1e9 / 1000, took


# Datagrams for nobody with ICRCs that hold, whose identifications of IPv4 count, or are drawn by lot. A raw socket sets them.
IDENTIFIED = '''
import random
import socket
import struct
import sys
import time
import zlib
source, destination, how, count = *sys.argv[1:4], int(sys.argv[4])
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
chance = random.Random(13)
at = chance.randrange(1 << 16)
for i in range(count):
    number = (at + i) % 65535 + 1 if how == 'counting' else chance.randrange(1, 1 << 16)
    body = struct.pack('>BBHII', 0x64, 0, 0xffff, 0x123456, i) + struct.pack('>II', 0x11111111, 2) + bytes(chance.randrange(256) for _ in range(16))
    udp = struct.pack('>HHHH', 0xc000, 4791, 8 + len(body) + 4, 0)
    ip = struct.pack('>BBHHHBBH', 0x45, 0, 20 + 8 + len(body) + 4, number, 0x4000, 64, 17, 0)
    ip += socket.inet_aton(source) + socket.inet_aton(destination)
    masked = bytearray(ip + udp + body)
    for place in 1, 8, 10, 11, 26, 27, 32:
        masked[place] = 0xff
    s.sendto(ip + udp + body + struct.pack('<I', zlib.crc32(b'\\xff' * 8 + masked)), (destination, 0))
    time.sleep(0.0005)
'''


@pytest.mark.counted
def test_identifications(hosts):
    """Of a source whose identifications follow no rule `weft nic` says that its packets were taken on 16 bits, and of one that counts
    it does not."""
    here, there = hosts.hosts
    took, count = {}, 400
    assert there.nic('up', there.address)[0] == 0
    for source, how in ('192.0.2.3', 'counting'), ('192.0.2.4', 'by lot'):
        here.plain('ip', 'address', 'add', f'{source}/24', 'dev', 'w0')
        try:
            before = there.card()
            here.plain('python3', '-c', IDENTIFIED, source, there.address, how, count)
            wait_for(lambda was=before: there.card()['packets_received'] - was['packets_received'] >= count, 'it has counted')
            after = there.card()
            took[how] = [after[name] - before[name] for name in ('taken_on_16_bits', 'wrong_icrc')]
        finally:
            here.plain('ip', 'address', 'del', f'{source}/24', 'dev', 'w0')
    print(took)
    # the first ones of a source, of which nothing is known, may be either
    assert took['counting'][0] <= 1 and took['by lot'][0] >= 0.9 * count and max(wrong for _, wrong in took.values()) <= 1, took


SNIFF = '''
import select
import socket
import sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
print('ready', flush=True)
total = 0
while True:
    able = select.select([s, sys.stdin], [], [])[0]
    if s in able:
        packet = s.recv(65536)
        if packet[9] == 17 and packet[22:24] == b'\\x12\\xb7':
            total += len(packet) - 28
    elif able:
        print(total)
        break
'''


def test_on_the_wire(hosts):
    """A raw socket sees the packets: UDP to port 4791."""
    there = hosts.hosts[1]
    with subprocess.Popen([*there.enter, 'python3', '-c', SNIFF], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as sniffer:
        assert sniffer.stdout.readline() == 'ready\n'
        run(hosts, 'ibv_rc_pingpong', '-g', FOUR, '-n', 50, '-c')
        assert int(sniffer.communicate()[0]) >= 50 * 4096
