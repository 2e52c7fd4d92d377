# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Cards start by themselves, leave nothing in the program, and end; `weft nic` lists, starts and ends them. Two hosts
are two network namespaces with a pool each."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fabric import BUILD, namespaces, wait_for
from wire.hosts import FOUR, LINK, Hosts

pytestmark = pytest.mark.skipif(not namespaces(), reason='no user namespaces here')
PINGPONG = ('ibv_rc_pingpong', '-g', FOUR, '-n', 50, '-c')


@pytest.fixture
def hosts():
    with Hosts() as made:
        yield made


@pytest.mark.counted
def test_as_needed(hosts):
    """A program that only listens, or stays within its host, starts no card."""
    here, there = hosts.hosts
    server = there.start(*PINGPONG)
    wait_for(there.listens, 'server listens')
    assert not there.cards()
    there.start(*PINGPONG, there.address, core=1).done()
    server.done()
    assert not there.cards()
    hosts.pair(*PINGPONG)
    for host in here, there:
        card = host.card()
        assert card['address'] == host.address and card['interface'] == 'w0'


def test_nothing_is_left(hosts):
    """The card is no child of the program, has no descriptor of the program's, and is not bound to its core; nor has the program
    any descriptor of the card's."""
    server = hosts.hosts[1].start('ibv_rc_pingpong', '-g', FOUR, '-n', 100000000)
    wait_for(hosts.hosts[1].listens, 'server listens')
    before = {path.name for path in Path(f'/proc/{server.process.pid}/fd').iterdir()}
    hosts.hosts[0].start('ibv_rc_pingpong', '-g', FOUR, '-n', 100000000, hosts.hosts[1].address, core=1)
    wait_for(hosts.hosts[1].cards, 'a card')
    wait_for(lambda: hosts.counts(1)['packets_sent'] > 100, 'traffic')
    program = Path(f'/proc/{server.process.pid}')
    card = Path(f"/proc/{hosts.hosts[1].card()['pid']}")
    assert not any(path.read_text() for path in program.glob('task/*/children'))
    assert int(re.search(r'PPid:\s*(\d+)', (card / 'status').read_text())[1]) != server.process.pid
    assert (card / 'stat').read_text().rsplit(')', 1)[1].split()[2] == card.name  # a process group of its own
    assert all(str((card / f'fd/{stream}').readlink()) == '/dev/null' for stream in range(3))
    assert all(os.sched_getaffinity(host.card()['pid']) >= os.sched_getaffinity(0) for host in hosts.hosts)
    # the client's connection of TCP, by which the two have met, may have come since
    after = {path.name for path in (program / 'fd').iterdir()}
    assert len(after - before) <= 1
    assert not re.search(r'^(SigPnd|ShdPnd):\s*0*[1-9a-f]', (program / 'status').read_text(), re.M)


def processes(host):
    """The processes that play the host's address, or have begun to; others' hosts have the same addresses."""
    found, here = [], Path(f'/proc/{host.holder}/ns/net').readlink()
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        try:
            words = path.read_bytes().split(b'\0')
            is_here = (path.parent / 'ns/net').readlink() == here
        except OSError:  # it has ended
            continue
        if is_here and words[0].endswith(b'/weftd') and words[1:2] == [host.address.encode()]:
            found.append(int(path.parent.name))
    return found


@pytest.mark.alone
def test_one_at_once(hosts):
    """50 programs on either host need a card at once: one starts, that serves them all. They have two messages each, as 100 that poll
    leave hardly a core to the cards."""
    here, there = hosts.hosts
    ports = range(20000, 20050)
    servers = [there.start(*PINGPONG, '-n', 2, '-p', port) for port in ports]
    for port in ports:
        wait_for(lambda port=port: there.listens(port), 'servers listen')
    clients = [here.start(*PINGPONG, '-n', 2, '-p', port, there.address, core=1) for port in ports]
    for program in *servers, *clients:
        program.done()
    for host in here, there:
        wait_for(lambda host=host: processes(host) == [host.card()['pid']], 'one process is left')


@pytest.mark.counted
def test_private_pool(hosts):
    """A card ends with the last program of a private pool, and the pool goes with it."""
    here, there = hosts.hosts
    server = there.start(*PINGPONG)
    wait_for(there.listens, 'server listens')
    before = set(Path('/dev/shm').glob('weft-private-*'))
    words = ('sh', '-c', 'ls -d $(dirname $WEFT_POOL) && exec "$@"', 'sh', *PINGPONG, there.address)
    client = here.start(here.fabric.weft(), 'run', '--private', '--', *words, core=1, on_weft=False)
    wait_for(lambda: processes(here) or client.process.poll() is not None, 'a card')
    said = client.wait()
    assert said.status == 0 and not here.cards(), said
    server.done()
    folder = Path(said.stdout.split()[0])
    assert folder.name.startswith('weft-private-') and folder not in before
    # it would linger for a minute
    begun = time.monotonic()
    wait_for(lambda: not processes(here) and not folder.exists(), 'card and pool have gone')
    assert time.monotonic() - begun < 45


@pytest.mark.counted
def test_off(hosts):
    server = hosts.hosts[1].start(*PINGPONG)
    wait_for(hosts.hosts[1].listens, 'server listens')
    client = hosts.hosts[0].start(*PINGPONG, hosts.hosts[1].address, core=1, WEFT_NIC='off')
    assert 'transport retry counter exceeded' in client.wait().stderr
    server.kill()
    for word in 'OFF', 'no', '0':
        said = hosts.hosts[0].start(hosts.hosts[0].fabric.program('choice'), 'rc', FOUR, 1024, '::ffff:192.0.2.2', WEFT_NIC=word).wait()
        assert said.stdout == 'transport retry counter exceeded\n', said
    assert not hosts.hosts[0].cards()


@pytest.mark.counted
def test_port_taken_by_a_card(hosts):
    """The card of another pool, as another user has it."""
    here = hosts.hosts[0]
    other = here.start(next(here.fabric.home.glob('**/weftd')), here.address, on_weft=False, WEFT_POOL=f'{here.fabric.folder}/other')
    wait_for(lambda: 'ready' in other.output().stdout, 'a card of another pool')
    status, said = here.nic('up', here.address)
    assert (status, said) == (1, f'weftd: {here.address}: UDP port 4791 is taken by weftd, process {other.process.pid}\n')
    other.kill()


@pytest.mark.counted
def test_port_taken_by_the_kernel(hosts):
    """A socket of the kernel's, which no process has, as rdma_rxe's is: here that of a tunnel."""
    here = hosts.hosts[0]
    made = subprocess.run([*here.enter, *'ip link add x0 type vxlan id 7 dstport 4791'.split()], capture_output=True, text=True,
                          check=False)
    if made.returncode:
        pytest.skip(f'no vxlan: {made.stderr.strip()}')
    here.plain('ip', 'link', 'set', 'x0', 'up')
    status, said = here.nic('up', here.address)
    assert status == 1
    assert said == f"weftd: {here.address}: UDP port 4791 is taken by the kernel's rdma_rxe, or a program of user 0\n"


@pytest.mark.counted
def test_another_starts_it(hosts):
    """While another program has the name that it needs for that, a program waits for the card, and starts none."""
    here, there = hosts.hosts
    holder = here.start('python3', '-c', 'import socket, time; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n'
                        f's.bind("\\0weft-card-{here.address}"); print("here", flush=True); time.sleep(60)', on_weft=False)
    wait_for(lambda: holder.output().stdout, 'the name')
    server = there.start(*PINGPONG)
    wait_for(there.listens, 'server listens')
    client = here.start(*PINGPONG, there.address, core=1)
    wait_for(there.cards, "the server's card")
    time.sleep(0.5)
    assert client.process.poll() is None and not processes(here)
    assert here.nic('up', here.address) == (0, '')
    client.done()
    server.done()
    holder.kill()


@pytest.mark.counted
def test_without_descriptors(hosts):
    """A program that can have no more descriptors starts a card, and waits for it, as any does."""
    here, there = hosts.hosts
    listener = there.start(here.fabric.program('choice'), 'rc', FOUR, 1024, 'listen')
    wait_for(lambda: there.listens(18517), 'a listener')
    sender = here.start(here.fabric.program('choice'), 'rc', FOUR, 1024, there.address, core=1, FULL='1').done()
    assert (sender.stdout, listener.done().stdout) == ('success\n', 'arrived\n') and here.card() and there.card()


@pytest.mark.alone
def test_patience(hosts):
    """A program waits for a card that cannot start for 300 ms at most."""
    here = hosts.hosts[0]
    holder = here.start('python3', '-c', 'import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n'
                        's.bind(("0.0.0.0", 4791)); print("here", flush=True); time.sleep(60)', on_weft=False)
    wait_for(lambda: holder.output().stdout, 'a socket')
    took_s = {}
    for nic in 'off', 'on', 'off', 'on':
        begun = time.monotonic()
        said = here.start(here.fabric.program('choice'), 'rc', FOUR, 1024, '::ffff:192.0.2.2', WEFT_NIC=nic).wait()
        assert said.stdout == 'transport retry counter exceeded\n', said
        took_s.setdefault(nic, []).append(time.monotonic() - begun)
    assert 0.1 < min(took_s['on']) - min(took_s['off']) < 0.45, took_s


@pytest.mark.counted
def test_port_taken(hosts):
    here = hosts.hosts[0]
    holder = here.start('python3', '-c', 'import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n'
                        's.bind(("0.0.0.0", 4791)); print("here", flush=True); time.sleep(60)', on_weft=False)
    wait_for(lambda: holder.output().stdout, 'a socket')
    status, said = here.nic('up', here.address)
    assert status == 1
    assert said == f'weftd: {here.address}: UDP port 4791 is taken by python3, process {holder.process.pid}\n'
    assert not here.cards()


@pytest.mark.counted
@pytest.mark.parametrize('words, status, said', [
    *((words, 2, 'usage: weftd ADDRESS [SECONDS] | weftd ape HOME X,Y,Z')
      for words in ((), ('1', '2', '3'), ('198.51.100.1', 'soon'), ('198.51.100.1', '-1'), ('198.51.100.1', '5s'))),
    (('nonsense',), 2, 'weftd: nonsense: no address'), (('198.51.100.1',), 1, 'weftd: 198.51.100.1: not of this network namespace'),
    (('ape', '/nowhere', '1,2'), 2, 'weftd: 1,2: no node'), (('ape', '/nowhere', '0,0,0'), 1, 'weftd: node 0,0,0: ')])
def test_words_of_a_card(fabric, words, status, said):
    done = fabric.start(next(fabric.home.glob('**/weftd')), *words, on_weft=False).wait()
    assert done.status == status and done.stdout == '' and done.stderr.startswith(said), done


def doctor(host):
    """What it says of the wire, by check: states and words."""
    done = subprocess.run([*host.enter, host.fabric.weft(), 'doctor', '--json', '--pool', host.fabric.pool], text=True,
                          env=host.fabric.env, capture_output=True, check=False, timeout=60)
    return {check['check']: (check['state'], check['finding']) for check in json.loads(done.stdout)['checks']}


def test_doctor(hosts):
    """A taken port by its owner, unless that is a card of the pool; addresses that look like those of a container."""
    here = hosts.hosts[0]
    assert here.nic('up', here.address)[0] == 0
    said = doctor(here)
    assert said['port'][0] == said['nat'][0] == 'ok'
    assert said['socket_buffer'][0] == 'ok'  # told of the first namespace alone
    pid = here.card()['pid']
    assert here.nic('down', here.address)[0] == 0
    stranger = here.start(next(here.fabric.home.glob('**/weftd')), here.address, on_weft=False,
                          WEFT_POOL=f'{here.fabric.folder}/other')
    wait_for(lambda: 'ready' in stranger.output().stdout, 'a card of another pool')
    state, words = doctor(here)['port']
    assert state == 'problem' and words == (f'UDP port 4791 of {here.address} is taken by weftd, '
                                            f'process {stranger.process.pid}') and pid != stranger.process.pid
    stranger.kill()
    here.plain('ip', 'address', 'add', '10.7.0.2/24', 'dev', 'w0')
    assert doctor(here)['nat'][0] == 'ok'  # nothing is beyond it
    here.plain('ip', 'route', 'add', 'default', 'via', '10.7.0.1')
    assert doctor(here)['nat'] == ('note', '10.7.0.2 of w0 may be another address outside')


def test_unit(tmp_path):
    """The unit for systemd's user manager, with the card where it lies here."""
    if not shutil.which('systemd-analyze'):
        pytest.skip('no systemd-analyze')
    text = (BUILD / 'src/card/weft-nic@.service').read_text()
    unit = tmp_path / 'weft-nic@192.0.2.1.service'
    unit.write_text(re.sub(r'ExecStart=\S+/weftd', f'ExecStart={BUILD}/weftd', text))
    assert f'{BUILD}/weftd %i' in unit.read_text()
    done = subprocess.run(['systemd-analyze', '--user', '--man=no', 'verify', unit], text=True, capture_output=True,
                          check=False, env={'PATH': '/usr/bin:/bin', 'HOME': str(tmp_path), 'XDG_RUNTIME_DIR': str(tmp_path)})
    assert done.returncode == 0 and 'weft-nic' not in done.stderr, done


@pytest.mark.counted
def test_commands(hosts):
    here, there = hosts.hosts
    assert here.nic('list', '--json') == (0, '{"cards": []}\n') or not here.cards()
    assert here.nic('up', here.address) == there.nic('up', there.address) == (0, '')
    first = here.card()['pid']
    assert here.nic('up', here.address) == (0, '') and here.card()['pid'] == first
    hosts.pair(*PINGPONG)
    assert hosts.counts(0)['bytes_sent'] > 50 * 4096
    status, said = here.nic('list')
    assert status == 0 and here.address in said
    assert here.card()['state'] == 'up'
    for words, state in (('set', 'w0', 'down'), 'interface is down'), (('set', 'w0', 'up'), 'up'):
        here.plain('ip', 'link', *words)
        wait_for(lambda state=state: here.card()['state'] == state, 'its state')
    there.plain('ip', 'link', 'set', 'w0', 'down')
    wait_for(lambda: here.card()['state'] == 'no carrier', 'its state')
    here.plain('ip', 'address', 'del', f'{here.address}/24', 'dev', 'w0')
    assert here.card()['state'] == 'no such address'
    there.plain('ip', 'link', 'set', 'w0', 'up')
    here.plain('ip', 'address', 'add', f'{here.address}/24', 'dev', 'w0')
    wait_for(lambda: here.card()['state'] == 'up', 'its state')
    assert here.nic('up', '198.51.100.1')[0] == 1
    assert here.nic('down', '198.51.100.1') == (1, 'weft nic: 198.51.100.1: no card\n')
    assert here.nic('down', here.address, here.address) == (0, '') and not here.cards()


@pytest.mark.counted
@pytest.mark.parametrize('words, said', [
    (('up',), 'which address?'), (('up', 'nonsense'), "no address: 'nonsense'"), (('sideways',), "there is no action 'sideways'"),
    (('192.0.2.1',), "there is no action '192.0.2.1'"), (('list', '192.0.2.1'), "list takes no address: '192.0.2.1'"),
    (('up', '--fast'), "unknown option or nothing behind '--fast'"),
    (('down', *(f'192.0.2.{i}' for i in range(33))), 'more than 32 addresses')])
def test_wrong_words(hosts, words, said):
    assert hosts.hosts[0].nic(*words) == (2, f'weft nic: {said}\nTry `weft nic --help`.\n')


@pytest.mark.counted
def test_down(hosts):
    """What is told to end and does not is said; a card ends, too, whose address has gone; one of another process namespace, whose number
    is another's here, or of another network namespace with the same address, is left alone."""
    here, there = hosts.hosts
    assert here.nic('up', here.address)[0] == 0
    pid = here.card()['pid']
    os.kill(pid, signal.SIGSTOP)
    assert here.card()['state'] == 'stopped'
    assert here.nic('down') == (1, f'weft nic: process {pid} has been told to end, and is stopped\n')
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: not here.cards(), 'it ends')
    assert here.nic('up', here.address)[0] == 0
    here.plain('ip', 'address', 'del', f'{here.address}/24', 'dev', 'w0')
    assert here.nic('down', here.address) == (0, '') and not here.cards()
    here.plain('ip', 'address', 'add', f'{here.address}/24', 'dev', 'w0')
    weftd = next(here.fabric.home.glob('**/weftd'))
    apart = here.start('unshare', '--pid', '--fork', weftd, here.address, on_weft=False, WEFT_POOL=str(here.fabric.pool))
    wait_for(here.cards, 'a card')
    number = here.card()['pid']
    assert here.nic('down') == (1, f'weft nic: process {number} is of another process namespace: end it there\n')
    there.plain('ip', 'address', 'add', f'{here.address}/24', 'dev', 'lo')
    seen = subprocess.run([*there.enter, here.fabric.weft(), 'nic', 'down', here.address, '--pool', here.fabric.pool],
                          env=here.fabric.env, capture_output=True, text=True, check=False)
    assert (seen.returncode, seen.stderr) == (1, f'weft nic: {here.address}: no card\n')
    assert here.cards()
    apart.kill()


@pytest.mark.counted
def test_address_comes_again(hosts):
    """An address that was taken away has its card as soon as it is there again, also before the card has looked."""
    here, there = hosts.hosts
    hosts.pair(*PINGPONG)
    pid = here.card()['pid']

    def has_it():
        [card] = [member for member in here.fabric.info()['members'] if member['pid'] == pid]
        return f'::ffff:{here.address}' in card['gids']
    here.plain('ip', 'address', 'del', f'{here.address}/24', 'dev', 'w0')
    wait_for(lambda: not has_it(), 'the card has looked')
    os.kill(pid, signal.SIGSTOP)
    here.plain('ip', 'address', 'add', f'{here.address}/24', 'dev', 'w0')
    server = there.start(*PINGPONG)
    wait_for(there.listens, 'server listens')
    client = here.start(*PINGPONG, there.address, core=1)
    wait_for(lambda: client.process.poll() is not None or here.fabric.info()['qps'], 'a connection')
    time.sleep(0.2)
    assert not has_it()
    os.kill(pid, signal.SIGCONT)
    client.done()
    server.done()
    assert here.card()['pid'] == pid


@pytest.mark.waits
def test_interface_is_replaced(hosts):
    """A card goes on when another interface has its address, of IPv4 or of the link alone: one that was plugged in again."""
    client, server = hosts.hosts
    every = [(*PINGPONG[:2], index, *PINGPONG[3:]) for index in (FOUR, LINK)]

    def play():
        for host in hosts.hosts:
            wait_for(lambda host=host: 'tentative' not in host.plain('ip', 'address', 'show', 'dev', 'w0'), 'addresses')
        for words in every:
            hosts.pair(*words)
        return {card['pid'] for host in hosts.hosts for card in host.cards()}

    def hardware(host):
        return re.search(r'link/ether (\S+)', host.plain('ip', 'link', 'show', 'dev', 'w0'))[1]
    pids = play()
    ours, its = map(hardware, hosts.hosts)
    client.plain('ip', 'link', 'del', 'w0')
    client.plain('ip', 'link', 'add', 'w0', 'address', ours, 'type', 'veth', 'peer', 'name', 'w0', 'address', its, 'netns', server.holder)
    for host in hosts.hosts:
        host.plain('ip', 'address', 'add', f'{host.address}/24', 'dev', 'w0')
        host.plain('ip', 'link', 'set', 'w0', 'up')
    time.sleep(4)  # cards look once a second, and addresses of links are checked for two
    assert play() == pids and len(pids) == 4


@pytest.mark.waits
def test_lingers(hosts):
    """A card ends some time after its last queue pair."""
    here, there = hosts.hosts
    weftd = next(here.fabric.home.glob('**/weftd'))
    cards = [host.start(weftd, host.address, 5, on_weft=False, WEFT_POOL=str(host.fabric.pool)) for host in (here, there)]
    wait_for(lambda: here.cards() and there.cards(), 'cards')
    for _ in range(3):
        hosts.pair(*PINGPONG)
        begun = time.monotonic()
        assert here.cards() and there.cards()
    for card in cards:
        assert card.wait(60).status == 0
    assert time.monotonic() - begun > 1


def kill_in_traffic(hosts, *command):
    """Client and server, when the card of the client's host has just been killed in mid traffic."""
    here, there = hosts.hosts
    server = there.start(*command)
    wait_for(there.listens, 'server listens')
    client = here.start(*command, there.address, core=1)
    wait_for(lambda: here.cards() and hosts.counts(0)['packets_sent'] > 100, 'traffic')
    here.plain('kill', '-KILL', here.card()['pid'])
    return client, server


def kill_card(hosts, *command):
    """What the client prints: half a second later by the queue pair's timers, and what the machine takes."""
    client, server = kill_in_traffic(hosts, *command)
    begun = time.monotonic()
    said = client.wait(60)
    assert said.status and time.monotonic() - begun < 30
    server.process.send_signal(signal.SIGKILL)
    server.wait()
    return said.stdout + said.stderr


@pytest.mark.counted
def test_killed(hosts):
    """Requests under way end as if the peer were silent, and the next connection has a fresh card."""
    assert 'Failed status 12' in kill_card(hosts, 'ib_write_bw', '-x', FOUR, '-n', 100000000, '-F')
    hosts.pair(*PINGPONG)
    assert len(hosts.hosts[0].cards()) == 1


@pytest.mark.counted
def test_killed_among_datagrams(hosts):
    """Datagrams are lost, and nothing else: of those that are sent without a card none fails, which would end the program."""
    here = hosts.hosts[0]
    client, server = kill_in_traffic(hosts, 'ib_send_bw', '-c', 'UD', '-x', FOUR, '-n', 100000000, '-F')
    wait_for(lambda: not here.cards(), 'the death')
    time.sleep(0.3)
    assert client.process.poll() is None and not here.cards(), client.output()
    for program in client, server:
        program.kill()


@pytest.mark.waits
def test_killed_while_waiting(hosts):
    """If the card died before the answer to a request, that request has failed; if after it, receives are flushed."""
    said = kill_card(hosts, 'ibv_rc_pingpong', '-g', FOUR, '-n', 100000000)
    assert 'transport retry counter exceeded' in said or 'Work Request Flushed Error' in said
    hosts.pair(*PINGPONG)
