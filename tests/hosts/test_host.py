# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft host` of two homes on one kernel: what it shows of each, what becoming one refuses, and what becomes of a
program whose host is another's meanwhile."""
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess

import pytest
from fabric import BUILD, user_prefix
from pairs import free_port, listening, wait_for

pytestmark = pytest.mark.counted
PATIENCE_S = 60
PAGE = 4096


def hosts_of(two):
    done = two.command_line('host', '--pool', two.pool, '--json')
    assert (done.returncode, done.stderr) == (0, ''), done
    return json.loads(done.stdout)['hosts']


def states(two):
    return [host['state'] for host in hosts_of(two)]


def await_states(two, *wanted):
    wait_for(lambda: states(two) == list(wanted), f'hosts are {wanted}', PATIENCE_S)


def up(two, number, *options):
    return two.command_line('host', 'up', '--pool', two.pool, '--host', number, *options)


def home_of(two, number):
    with open(two.pool[4:], 'rb') as file:
        pool_id, = struct.unpack_from('<Q', file.read(PAGE), 32)
    return f'/dev/shm/weft-{pool_id:016x}-{number}'


@contextlib.contextmanager
def stopped(program):
    """All of a program's processes stand still."""
    os.killpg(program.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(program.process.pid, signal.SIGCONT)


def stays(two, number):
    """`weft host up --stay`, on no Weft of its own."""
    agent = two.start(two.command, 'host', 'up', '--stay', '--pool', two.pool, '--host', number, host='', on_weft=False)
    await_states(two, *('up' if n == number else host['state'] for n, host in enumerate(hosts_of(two))))
    return agent


# ---- What it shows ----


def test_life_of_a_host(two):
    assert states(two) == ['never', 'never']
    done = up(two, 1)
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    never, came = hosts_of(two)
    assert never == {'number': 0, 'name': '', 'life': 0, 'state': 'never', 'members': 0, 'bytes': 0, 'beat_ms': 0}
    assert (came['number'], came['name'], came['life'], came['state'], came['members']) == \
        (1, socket.gethostname()[:40], 1, 'empty', 0)
    program = two.start('ibv_asyncwatch', host='')  # its pool alone says of which host it is
    await_states(two, 'never', 'up')
    assert hosts_of(two)[1]['members'] == 1
    with stopped(program):
        await_states(two, 'never', 'silent')
        assert hosts_of(two)[1]['beat_ms'] >= 3000
    await_states(two, 'never', 'up')
    program.kill()
    assert up(two, 1).returncode == 0  # which also buries it
    assert (states(two), hosts_of(two)[1]['life']) == (['never', 'empty'], 1)


def test_bytes(two):
    """Those of each host's programs are its own."""
    port = free_port()
    server = two.start('ibv_rc_pingpong', '-g', 1, '-p', port, host=0)
    wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
    ours, others = hosts_of(two)
    assert ours['bytes'] > 0 and ours['bytes'] % (16 << 20) == 0 and others['bytes'] == 0


def test_table(two):
    up(two, 0)
    done = two.command_line('host', '--pool', two.pool)
    assert done.stdout.splitlines()[1].split() == ['NUMBER', 'NAME', 'LIFE', 'STATE', 'MEMBERS', 'BYTES', 'BEAT', 'MS']


def test_agent_without_a_program(two):
    agent = stays(two, 0)
    agent.process.send_signal(signal.SIGTERM)
    assert agent.wait(PATIENCE_S).status == 0
    assert states(two) == ['empty', 'never']


@pytest.mark.skipif(not shutil.which('systemd-analyze'), reason='no systemd-analyze')
def test_unit(two, tmp_path):
    """The unit for systemd's user manager: it is one, and what it runs is a host until SIGTERM."""
    text = (BUILD / 'src/cli/weft-host@.service').read_text()
    command = re.search('^ExecStart=(.*)$', text, re.M)[1].split()
    assert command[0].endswith('/bin/weft') and 'EnvironmentFile=%E/weft/host\n' in text
    command[0] = str(two.command)
    unit = tmp_path / 'weft-host@1.service'
    unit.write_text(re.sub('ExecStart=.*', f'ExecStart={" ".join(command)}', text))
    done = subprocess.run(['systemd-analyze', '--user', '--man=no', 'verify', unit], text=True, capture_output=True, check=False,
                          env={'PATH': '/usr/bin:/bin', 'HOME': str(tmp_path), 'XDG_RUNTIME_DIR': str(tmp_path)})
    assert done.returncode == 0 and 'weft-host' not in done.stderr, done
    agent = two.start(*(word.replace('%i', '1') for word in command), host='', on_weft=False, WEFT_POOL=two.pool)
    await_states(two, 'never', 'up')
    agent.process.send_signal(signal.SIGTERM)
    assert agent.wait(PATIENCE_S).status == 0
    assert states(two) == ['never', 'empty']


def test_another_program_goes_on(two):
    """Whichever program of a host was its agent: another is when it has been killed, and buries it."""
    programs = [two.start('ibv_asyncwatch', host=0) for _ in range(2)]
    wait_for(lambda: hosts_of(two)[0]['members'] == 2, 'both are members', PATIENCE_S)
    programs[0].kill()
    await_states(two, 'up', 'never')
    programs[1].kill()
    await_states(two, 'silent', 'never')


# ---- The same by weft info, and what it has of members ----


def running_pair(two):
    """Two programs that send each other messages, on host 0 and 1."""
    port = free_port()
    server = two.start('ibv_rc_pingpong', '-g', 1, '-n', 1 << 30, '-p', port, host=0)
    wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
    client = two.start('ibv_rc_pingpong', '-g', 1, '-n', 1 << 30, '-p', port, '127.0.0.1', host=1)
    await_states(two, 'up', 'up')
    wait_for(lambda: len([qp for qp in two.info()['qps'] if qp['dest_qpn']]) == 2, 'they are connected', PATIENCE_S)
    return server, client


def test_info(two):
    server, client = running_pair(two)
    seen = two.info()
    assert list(seen) == ['pool', 'hosts', 'members', 'qps', 'regions', 'ports', 'totals']
    assert [(host['number'], host['state'], host['members']) for host in seen['hosts']] == [(0, 'up', 1), (1, 'up', 1)]
    assert seen['pool']['path'] == two.pool and seen['pool']['allocated_bytes'] > 0
    assert [(m['host'], m['index'], m['comm'], m['alive']) for m in seen['members']] == \
        [(0, 0, 'ibv_rc_pingpong', True), (1, 512, 'ibv_rc_pingpong', True)]
    [(qpn, dest), other] = [(qp['qpn'], qp['dest_qpn']) for qp in seen['qps']]
    assert other == (dest, qpn)
    assert {region['member'] for region in seen['regions']} == {0, 512}
    wait_for(lambda: two.info()['totals']['ops_send'] > seen['totals']['ops_send'], 'messages are counted', PATIENCE_S)
    # without a home here what is known of its members is what all hosts see
    os.unlink(home_of(two, 1))
    assert two.info()['members'][1]['alive'] is True
    with stopped(client):
        await_states(two, 'up', 'silent')
        seen = two.info()
        assert [host['state'] for host in seen['hosts']] == ['up', 'silent']
        assert [m['alive'] for m in seen['members']] == [True, False]
    server.kill()
    client.kill()
    assert two.info()['members'][0]['alive'] is False


def test_doctor(two):
    def found():
        done = two.command_line('doctor', '--pool', two.pool, '--json')
        assert done.returncode in (0, 1) and not done.stderr, done
        return {check['check']: (check['state'], check['finding']) for check in json.loads(done.stdout)['checks']}

    program = two.start('ibv_asyncwatch', host=1)
    await_states(two, 'never', 'up')
    seen = found()
    assert seen['hosts'] == ('ok', '1 of 2 hosts are up') and seen['pool'][0] == 'ok' and 'leftovers' in seen
    program.kill()
    assert found()['leftovers'][0] == 'note'
    done = two.command_line('doctor', '--pool', two.pool + '-none', '--json')
    assert done.returncode == 1 and 'weft pool create makes one' in done.stdout, done


# ---- What it refuses ----


def nothing(two):
    pass


def another_users(two):
    """Root's where the tests are root's, else one that its own user may not open."""
    assert up(two, 1).returncode == 0
    if os.geteuid() == 0 and not user_prefix():
        pytest.skip('root may open any')
    os.chmod(home_of(two, 1), 0)
    if os.geteuid() == 0:
        os.chown(home_of(two, 1), 0, 0)


def with_home_deleted(two):
    program = two.start('ibv_asyncwatch', host=1)
    await_states(two, 'never', 'up')
    os.unlink(home_of(two, 1))
    return program


NO_HOST = 'WEFT_HOST, or --host: the hosts of the pool are 0 to 1'
ONE_HOST = 'the pool has one host: that of several is shm:PATH, pci:ADDRESS or dax:PATH'
NO_POOL = 'there is no pool yet: weft pool create makes it: No such file or directory'

# {what is wrong: (what is done before, the pool as it is named, number, what is said)}
COMING = {
    'a host too many': (nothing, 'shm:{}', 2, NO_HOST),
    'no number': (nothing, 'shm:{}', 'one', NO_HOST),
    'a file': (nothing, '{}-none', 1, ONE_HOST),
    'no pool': (nothing, 'shm:{}-none', 1, NO_POOL),
    'another user\'s home': (another_users, 'shm:{}', 1, 'the home of the host cannot be opened: Permission denied'),
    'a number that is taken': (with_home_deleted, 'shm:{}', 1, f'{socket.gethostname()[:40]} is host 1, and lives'),
}


@pytest.mark.parametrize('fault', COMING)
def test_coming(two, fault):
    before, name, number, said = COMING[fault]
    name = name.replace('{}', two.pool[4:])
    before(two)
    was = [(host['life'], host['name']) for host in hosts_of(two)]
    done = two.command_line('host', 'up', '--pool', name, '--host', number)
    assert (done.returncode, done.stdout, done.stderr) == (1, '', f'weft host up: {name}: {said}\n')
    assert [(host['life'], host['name']) for host in hosts_of(two)] == was
    assert not glob.glob(f'{two.pool[4:]}-none*')


@pytest.mark.parametrize('name,said', [('{}', ONE_HOST), ('shm:{}-none', NO_POOL)])
def test_showing(two, name, said):
    name = name.replace('{}', two.pool[4:])
    done = two.command_line('host', '--pool', name)
    assert (done.returncode, done.stdout, done.stderr) == (1, '', f'weft host: {name}: {said}\n')


@pytest.mark.parametrize('words', [['up'], ['up', '--host'], ['down'], ['--stay'], ['up', '--host', '1', '--json']])
def test_wrong_usage(two, words):
    done = two.command_line('host', *words)
    assert done.returncode == 2 and done.stdout == '' and done.stderr.startswith('weft host: ')


# ---- Coming again ----


def test_home_deleted(two):
    """Once its programs have gone the host comes again, with a new home and a new life."""
    program = with_home_deleted(two)
    program.kill()
    wait_for(lambda: up(two, 1).returncode == 0, 'nobody beats there', PATIENCE_S)
    assert hosts_of(two)[1]['life'] == 2 and os.path.exists(home_of(two, 1))


def test_pool_made_anew(two):
    """The homes that were here have gone with the pool that they were of."""
    assert up(two, 1).returncode == 0
    home = home_of(two, 1)
    done = two.command_line('pool', 'create', two.pool, '--hosts', 2)
    assert (done.returncode, done.stderr) == (0, '')
    assert states(two) == ['never', 'never'] and not os.path.exists(home)
    assert up(two, 1).returncode == 0
    assert hosts_of(two)[1]['life'] == 1 and home_of(two, 1) != home


# A request that the program begins just then may find its key gone instead of being flushed.
FAILED = re.compile('Failed status (Work Request Flushed|local protection)')


def take_over(two, number, program):
    """While that program stands still, another home gets its host's number, as no beat is to be seen."""
    with stopped(program):
        os.unlink(home_of(two, number))
        wait_for(lambda: up(two, number).returncode == 0, 'nobody beats there', PATIENCE_S)


def test_agent_of_a_host_that_is_anothers(two):
    agent = stays(two, 1)
    take_over(two, 1, agent)
    done = agent.wait(PATIENCE_S)
    assert (done.status, done.stderr) == (
        1, f'weft: host 1 of {two.pool} has another home now: the queue pairs of this process fail\n')


def test_program_of_a_host_that_is_anothers(two):
    """Its queue pairs fail, and it hears of it."""
    client = running_pair(two)[1]
    take_over(two, 1, client)
    done = client.wait(PATIENCE_S)
    assert done.status == 1 and FAILED.search(done.stdout + done.stderr), done
    assert 'has another home now' in done.stderr


# ---- Evicted ----


def evict(two, *words):
    return two.command_line('pool', 'evict', *words, '--pool', two.pool, WEFT_HOST='0')


def test_evicted(two):
    """A machine that was not off after all: its program has lost its connections, says so, and the host comes again."""
    agent = stays(two, 0)
    client = running_pair(two)[1]
    with stopped(client):
        await_states(two, 'up', 'silent')
        done = evict(two, 1, '--yes')
        assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
        assert states(two) == ['up', 'evicted']
        done = up(two, 1)
        assert (done.returncode, done.stderr) == (
            1, f'weft host up: {two.pool}: this host was evicted: it comes again when its programs have ended\n')
    done = client.wait(PATIENCE_S)
    assert done.status == 1 and FAILED.search(done.stdout + done.stderr), done
    assert f'weft: host 1 of {two.pool} was evicted: the queue pairs of this process fail\n' in done.stderr
    assert up(two, 1).returncode == 0
    assert (hosts_of(two)[1]['state'], hosts_of(two)[1]['life']) == ('empty', 2)
    agent.kill()


BEATS = 'that host beats: only one that is off can be evicted'

# {what is wrong: (the words behind `weft pool evict`, status, what is said)}
EVICTING = {
    'it beats': ([1, '--yes'], 1, f'{{}}: {BEATS}'),
    'the own host': ([0, '--yes'], 1, '{}: that host is this machine'),
    'no such host': ([2, '--yes'], 1, '{}: the pool has no such host'),
    'without a word': ([1], 2, "the machine must be off: if it is, say so by '--yes'"),
    'no host': (['--yes'], 2, "evict wants 'HOST --yes'"),
}


@pytest.mark.parametrize('fault', EVICTING)
def test_evicting(two, fault):
    words, status, said = EVICTING[fault]
    stays(two, 1)
    done = evict(two, *words)
    assert (done.returncode, done.stdout) == (status, '')
    assert done.stderr.startswith(f'weft pool{" evict" if status == 1 else ""}: ' + said.replace('{}', two.pool)), done
    assert states(two)[1] == 'up'


# ---- Machines without an address ----


@pytest.mark.skipif(os.geteuid() != 0, reason='wants a mount of its own')
def test_kernels_without_an_address(two, tmp_path):
    """Two kernels give their first network namespace one number; the GIDs of lo and the node's GUID are made of more."""
    seen = set()
    for boot in ('one', 'another'):
        (tmp_path / boot).write_text(boot)
        done = subprocess.run(
            ['unshare', '--mount', '--net', '--', 'sh', '-c', 'ip link set lo up; mount --bind "$0" /proc/sys/kernel/random/boot_id && '
             'exec "$@"', tmp_path / boot, two.command, 'run', '--pool', str(tmp_path / 'pool'), '--', 'ibv_devinfo', '-v'],
            capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done
        seen.add(tuple(line for line in done.stdout.splitlines() if 'fe80' in line or 'node_guid' in line))
    assert len(seen) == 2 and all(len(lines) == 3 for lines in seen), seen
