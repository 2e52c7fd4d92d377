# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The engine at both ends of a veth between two network namespaces, over a wire that link/fault spoils: across.c
compares every byte after each step, and what atomics have counted. Up to 5 % nothing fails."""
import re
import subprocess

import pytest

from fabric import BUILD

ENGINE = BUILD / 'tests/wire/across-engine'
OF = 65536
KINDS = ('lost', 'doubled', 'late', 'corrupted')
# The arguments: the command of the end that listens, in the second namespace, then that of the end that connects.
SPACES = '''
unshare -n sleep 600 & second=$!
trap 'kill $second $there 2>/dev/null || true' EXIT
ip link set lo up
ip link add w0 mtu 9000 type veth peer name w1 mtu 9000
while [ "$(readlink /proc/$second/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link set w1 netns $second
ip address add 192.0.2.1/24 dev w0
ip address add 2001:db8::1/64 dev w0 nodad
ip link set w0 up
nsenter -n -t $second sh -ec 'ip link set lo up; ip address add 192.0.2.2/24 dev w1
    ip address add 2001:db8::2/64 dev w1 nodad; ip link set w1 up'
nsenter -n -t $second $1 & there=$!
$2
wait $there
'''


@pytest.fixture(scope='module')
def spaces():
    if subprocess.run(['unshare', '-Urn', 'true'], capture_output=True, check=False).returncode:
        pytest.skip('this user may make no network namespaces')


def figures(said):
    return {k: int(v) for k, v in re.findall(r'(\w+)=(\d+)', said)}


def play(shares, seed, *options, six=False, seconds=60):
    """Both sides' figures; shares: of KINDS, in percent."""
    faults = ','.join(str(round(share * OF / 100)) for share in shares)
    addresses = ('2001:db8::1', '2001:db8::2') if six else ('192.0.2.1', '192.0.2.2')
    common = ' '.join([str(ENGINE), '-s', str(seed), *options, '-f', faults])
    done = subprocess.run(['unshare', '-Urn', 'sh', '-ec', SPACES, 'sh', f'{common},{2 * seed + 2} {addresses[1]}',
                           f'{common},{2 * seed + 1} {addresses[0]} {addresses[1]}'],
                          capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sides = done.stdout.split(' steps\n')[1:]
    assert len(sides) == 2, done.stdout
    return [figures(side) for side in sides]


def check(sides, shares):
    for side, peer in (sides, sides[::-1]):
        assert side['went'] > 300, sides
        for kind, share in zip(KINDS, shares):
            assert (side[kind] > 0) == (share > 0), sides
        # each corrupted packet that has come was refused
        refused = side['wrong_icrc'] + side['foreign']
        assert refused <= peer['corrupted'] and (refused > 0) == (peer['corrupted'] > 0), sides


@pytest.mark.parametrize('shares', [(0, 0, 0, 0), (5, 5, 5, 5)], ids=lambda s: '-'.join(map(str, s)))
def test_faults(spaces, shares):
    check(play(shares, 7, '-n', '30', '-l', '100000'), shares)


def test_faults_six(spaces):
    shares = (1, 1, 1, 1)
    check(play(shares, 8, '-n', '30', '-l', '100000', '-m', '4096', six=True), shares)


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(20))
@pytest.mark.parametrize('share', [0.1, 1, 5])
def test_long(spaces, share, seed):
    play((share,) * 4, seed, '-n', '400', '-l', '1000000', six=bool(seed % 2), seconds=900)
