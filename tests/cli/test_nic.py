# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Cards start by themselves, leave nothing in the program, and end; `weft nic` lists, starts and ends them. Two hosts
are two network namespaces with a pool each."""
import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fabric import BUILD, namespaces, wait_for
from wire.hosts import FOUR, Hosts

pytestmark = pytest.mark.skipif(not namespaces(), reason='no user namespaces here')
PINGPONG = ('ibv_rc_pingpong', '-g', FOUR, '-n', 50, '-c')


@pytest.fixture
def hosts():
    with Hosts() as made:
        yield made


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
    """The card is no child of the program, and has no descriptor of the program's; nor has the program any of the card's."""
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
    assert (card / 'stat').read_text().rsplit(')', 1)[1].split()[3] == card.name  # a session of its own
    assert all(str((card / f'fd/{stream}').readlink()) == '/dev/null' for stream in range(3))
    # the client's connection of TCP, by which the two have met, may have come since
    after = {path.name for path in (program / 'fd').iterdir()}
    assert len(after - before) <= 1
    assert not re.search(r'^(SigPnd|ShdPnd):\s*0*[1-9a-f]', (program / 'status').read_text(), re.M)


def test_one_at_once(hosts):
    here, there = hosts.hosts
    ports = range(20000, 20006)
    servers = [there.start(*PINGPONG, '-p', port) for port in ports]
    for port in ports:
        wait_for(lambda port=port: there.listens(port), 'servers listen')
    clients = [here.start(*PINGPONG, '-p', port, there.address, core=1) for port in ports]
    for program in *servers, *clients:
        program.done()
    assert len(here.cards()) == len(there.cards()) == 1


def test_off(hosts):
    server = hosts.hosts[1].start(*PINGPONG)
    wait_for(hosts.hosts[1].listens, 'server listens')
    client = hosts.hosts[0].start(*PINGPONG, hosts.hosts[1].address, core=1, WEFT_NIC='off')
    assert 'transport retry counter exceeded' in client.wait().stderr
    server.kill()
    assert not hosts.hosts[0].cards()


def test_port_taken(hosts):
    here = hosts.hosts[0]
    holder = here.start('python3', '-c', 'import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n'
                        's.bind(("0.0.0.0", 4791)); print("here", flush=True); time.sleep(60)', on_weft=False)
    wait_for(lambda: holder.output().stdout, 'a socket')
    status, said = here.nic('up', here.address)
    assert status == 1
    assert said == f'weftd: {here.address}: UDP port 4791 is taken by python3, process {holder.process.pid}\n'
    assert not here.cards()


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
    assert here.nic('up', '198.51.100.1')[0] == 1
    assert here.nic('down', '198.51.100.1')[0] == 1
    assert here.nic('down', here.address) == (0, '') and not here.cards()
    assert here.nic('up')[0] == here.nic('up', 'nonsense')[0] == here.nic('sideways')[0] == 2


@pytest.mark.waits
def test_lingers(hosts):
    """A card ends some time after its last queue pair."""
    here, there = hosts.hosts
    weftd = next(here.fabric.home.glob('**/weftd'))
    cards = [host.start(weftd, host.address, 5, on_weft=False, WEFT_POOL=str(host.fabric.pool)) for host in (here, there)]
    wait_for(lambda: here.cards() and there.cards(), 'cards')
    for _ in range(3):
        hosts.pair(*PINGPONG)
        assert here.cards() and there.cards()
    begun = time.monotonic()
    for card in cards:
        assert card.wait(60).status == 0
    assert time.monotonic() - begun > 1


def kill_card(hosts, *command):
    """What the client prints when its host's card is killed in mid traffic: half a second later by the queue pair's timers, and
    what the machine takes."""
    here, there = hosts.hosts
    server = there.start(*command)
    wait_for(there.listens, 'server listens')
    client = here.start(*command, there.address, core=1)
    wait_for(lambda: here.cards() and hosts.counts(0)['packets_sent'] > 100, 'traffic')
    here.plain('kill', '-KILL', here.card()['pid'])
    begun = time.monotonic()
    said = client.wait(60)
    assert said.status and time.monotonic() - begun < 30
    server.process.send_signal(signal.SIGKILL)
    server.wait()
    return said.stdout + said.stderr


def test_killed(hosts):
    """Requests under way end as if the peer were silent, and the next connection has a fresh card."""
    assert 'Failed status 12' in kill_card(hosts, 'ib_write_bw', '-x', FOUR, '-n', 100000000, '-F')
    hosts.pair(*PINGPONG)
    assert len(hosts.hosts[0].cards()) == 1


@pytest.mark.waits
def test_killed_while_waiting(hosts):
    """If the card died before the answer to a request, that request has failed; if after it, receives are flushed."""
    said = kill_card(hosts, 'ibv_rc_pingpong', '-g', FOUR, '-n', 100000000)
    assert 'transport retry counter exceeded' in said or 'Work Request Flushed Error' in said
    hosts.pair(*PINGPONG)
