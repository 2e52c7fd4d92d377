# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Two containers that share nothing but the pool file: each has its own user, mount, pid and
network namespace and its own user. A veth pair joins their networks, since programs exchange
their queue pair numbers by TCP."""
import os
import re
import subprocess

import pytest

from fabric import Fabric, Trouble, installed, wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='makes network namespaces: needs root')

USERS = {'weft-a': 64001, 'weft-b': 64002}
ADDRESS = {'weft-a': '10.77.0.1', 'weft-b': '10.77.0.2'}


def ip(*words, check=True):
    subprocess.run(['ip', *words], check=check, capture_output=True)


def remove_hosts():
    for name in USERS:
        ip('netns', 'del', name, check=False)


@pytest.fixture(scope='module', autouse=True)
def hosts():
    remove_hosts()
    for name in USERS:
        ip('netns', 'add', name)
    ip('link', 'add', 'name', 'veth-a', 'netns', 'weft-a', 'type', 'veth', 'peer', 'name', 'veth-b',
       'netns', 'weft-b')
    for name, link in (('weft-a', 'veth-a'), ('weft-b', 'veth-b')):
        ip('-n', name, 'addr', 'add', f'{ADDRESS[name]}/24', 'dev', link)
        ip('-n', name, 'link', 'set', 'lo', 'up')
        ip('-n', name, 'link', 'set', link, 'up')
    yield
    remove_hosts()


class Container:
    def __init__(self, fabric, name, argv, env):
        user = str(USERS[name])
        inside = ('mount -t proc proc /proc; exec "$@"')
        words = ['ip', 'netns', 'exec', name, 'setpriv', f'--reuid={user}', f'--regid={user}',
                 '--clear-groups', 'unshare', '-Urmpf', '--kill-child', 'sh', '-c', inside, 'sh',
                 next(installed().glob('**/bin/weft')), 'run', '--pool', fabric.pool, '--', *argv]
        self.argv = argv
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True,
                                        env={**fabric.env, **env})

    def done(self):
        try:
            out, _ = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Trouble(f'{self.argv}: still running\n{self.process.communicate()[0]}') from None
        if self.process.returncode:
            raise Trouble(f'{self.argv}: status {self.process.returncode}\n{out}')
        return out


def listens(name, port):
    done = subprocess.run(['ip', 'netns', 'exec', name, 'ss', '-Hltn', f'sport = :{port}'],
                          capture_output=True, text=True, check=True)
    return bool(done.stdout.strip())


def pair(argv, **env):
    """The client's output and the counters of the pool that both shared."""
    port = 18515
    with Fabric() as fabric:
        fabric.pool.touch()
        fabric.pool.chmod(0o666)
        server = Container(fabric, 'weft-a', [*argv, '-p', str(port)], env)
        wait_for(lambda: listens('weft-a', port), 'server listens', 20)
        client = Container(fabric, 'weft-b', [*argv, '-p', str(port), ADDRESS['weft-a']], env)
        out = client.done()
        server.done()
        return out, fabric.totals()


@pytest.mark.parametrize('where', ['pooled', 'in place'])
@pytest.mark.parametrize('argv,counter,least', [
    (['ibv_rc_pingpong', '-g', '3', '-n', '200'], 'bytes_send', 400 * 4096),
    (['ibv_rc_pingpong', '-g', '3', '-n', '200', '-e', '-c'], 'bytes_send', 400 * 4096),
    (['ib_write_lat', '-F', '-x', '3', '-n', '200', '-s', '64'], 'bytes_write', 2 * 200 * 64),
    (['ib_read_lat', '-F', '-x', '3', '-n', '200', '-s', '64'], 'bytes_read', 200 * 64),
    (['ib_send_bw', '-F', '-x', '3', '-n', '200', '-s', '65536'], 'bytes_send', 200 * 65536),
    (['ib_atomic_lat', '-F', '-x', '3', '-n', '200'], 'ops_atomic', 200),
], ids=lambda value: value[0] + ('-e' if '-e' in value else '') if isinstance(value, list) else None)
def test_program(argv, counter, least, where):
    out, totals = pair(argv, **({'WEFT_MIGRATE': 'never'} if where == 'in place' else {}))
    assert not re.search(r'\b(error|fail)', out, re.I)
    assert totals[counter] >= least
