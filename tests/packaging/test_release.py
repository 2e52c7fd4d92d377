# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`make check-dist`: what `make dist-bin` and `make deb` made, in fresh systems of Debian 12 and 13.

The systems are made once, in the folder of the tarball. Each test has one for itself, whose changes
go to a layer in memory: that shows what the test has left."""
import os
import re
import shutil
import stat
import statistics
import subprocess
from pathlib import Path

import pytest

from fabric import BUILD
from suite import play
from suite.test_suite import differences, expected, table

ROOT = Path(__file__).resolve().parents[2]
DIST = BUILD.with_name(f'{BUILD.name}-dist')
DEB = BUILD.with_name(f'{BUILD.name}-deb')
# A server and a client, run by an ordinary user; the status is that of the first command that fails.
PINGPONG = '''set -e
{weft} run -- ibv_devices | grep weft0
{weft} run -- ibv_rc_pingpong -g 3 &
for i in 1 2 3 4 5 6 7 8 9 10; do
	sleep 1
	{weft} run -- ibv_rc_pingpong -c -g 3 127.0.0.1 && break
done
wait $!
'''
# rdma-core's own tests, run by an ordinary user.
SUITE = '''cd /tmp
HOME=/tmp /mnt/weft-*/bin/weft run -- python3 /mnt/play.py --dev weft0 2>/dev/null
'''
# The packages that the systems have beside those of Debian's smallest.
PACKAGES = {'bookworm': 'ibverbs-utils', 'trixie': 'ibverbs-utils,python3-pyverbs,rdma-core,iproute2'}
# A project with a test that needs a device.
PROJECT = {
    'Cargo.toml': '[package]\nname = "project"\nversion = "0.1.0"\nedition = "2021"\n',
    'src/lib.rs': '''
#[cfg(test)]
#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(n: *mut i32) -> *mut *mut u8;
}
#[test]
fn a_device() {
    let mut n = 0;
    unsafe { ibv_get_device_list(&mut n) };
    assert_eq!(n, 1);
}
'''}
# What dpkg writes whenever it does anything.
OWN = ('var/lib/dpkg/', 'var/log/', 'var/cache/', 'etc/ld.so.cache', 'dev/shm', 'tmp/', 'mnt/')

pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which('debootstrap'), reason='needs root and debootstrap')]


def mirror():
    """Where most of this machine's package lists come from."""
    done = subprocess.run(['apt-get', 'indextargets', '--format', '$(REPO_URI)'], check=True,
                          capture_output=True, text=True)
    return statistics.mode(done.stdout.split())


def made_system(suite):
    folder = DIST / f'debian-{suite}'
    ready = folder / 'ready'
    if not ready.exists() or ready.read_text() != PACKAGES[suite]:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(['debootstrap', '--variant=minbase', f'--include={PACKAGES[suite]}', suite, folder,
                        os.environ.get('MIRROR') or mirror()], check=True)
        ready.write_text(PACKAGES[suite])
    return folder


class System:
    """A Debian of which only the layer of changes is written."""

    def __init__(self, base, folder):
        self.base, self.folder, self.root = base, folder, folder / 'root'
        for name in ('root', 'layer'):
            (folder / name).mkdir()
        self.mount('-t', 'tmpfs', 'tmpfs', folder / 'layer')
        for name in ('changes', 'work'):
            (folder / 'layer' / name).mkdir()
        self.mount('-t', 'overlay', 'overlay', '-o', f'lowerdir={base},upperdir={folder}/layer/changes,'
                   f'workdir={folder}/layer/work', self.root)

    @staticmethod
    def mount(*words):
        subprocess.run(['mount', *words], check=True)

    def close(self):
        subprocess.run(['umount', self.root], check=True)
        subprocess.run(['umount', self.folder / 'layer'], check=True)

    def run(self, script, user=0, seconds=120):
        words = ['unshare', '--mount', '--pid', '--fork', '--kill-child', 'sh', '-ec',
                 'mount -t proc proc "$0/proc"; mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"; '
                 f'exec chroot "$0" setpriv --reuid={user} --regid={user} --clear-groups sh -c "$1"',
                 self.root, script]
        done = subprocess.run(words, env={'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LANG': 'C.UTF-8',
                                         'HOME': '/root'},
                              text=True, capture_output=True, check=False, timeout=seconds)
        assert done.returncode == 0, f'{done.stdout}\n{done.stderr}'
        return done.stdout

    def changes(self):
        """The files that are new, changed or removed, but for dpkg's own."""
        layer = self.folder / 'layer/changes'
        files = {str(p.relative_to(layer)) for p in layer.rglob('*')
                 if not stat.S_ISDIR(p.lstat().st_mode) or not (self.base / p.relative_to(layer)).exists()}
        return {name for name in files if not f'{name}/'.startswith(OWN)}


@pytest.fixture(params=['bookworm', 'trixie'])
def system(request, tmp_path):
    made = System(made_system(request.param), tmp_path)
    yield made
    made.close()


def test_tarball(system):
    [tarball] = DIST.glob(f'weft-*-linux-{os.uname().machine}.tar.xz')
    place = system.root / 'mnt/any place'
    place.mkdir()
    subprocess.run(['tar', '-xf', tarball, '-C', place], check=True)
    out = system.run(PINGPONG.format(weft='"/mnt/any place"/weft-*/bin/weft'), user=65534)
    assert out.count('1000 iters') == 2


@pytest.mark.parametrize('system', ['trixie'], indirect=True)
def test_suite_of_rdma_core(system):
    """rdma-core's own tests, but for those of vendors: each that does not pass has its reason in a table."""
    [tarball] = DIST.glob(f'weft-*-linux-{os.uname().machine}.tar.xz')
    subprocess.run(['tar', '-xf', tarball, '-C', system.root / 'mnt'], check=True)
    shutil.copy(play.__file__, system.root / 'mnt')
    found = table(system.run(SUITE, user=65534, seconds=600))
    assert not differences(found, expected('expected-56.tsv'))


def test_deb(system):
    [deb] = DEB.glob('weft_*.deb')
    shutil.copy(deb, system.root / 'mnt')
    before = system.run('dpkg -V')
    system.run('dpkg -i /mnt/weft_*.deb')
    assert any(name.endswith('weft/libibverbs.so.1') for name in system.changes())
    assert system.run('dpkg -V') == before  # no file of any other package has changed
    # Without `weft run`, programs have the system's libraries.
    assert '/weft/' not in system.run('ldd /usr/bin/ibv_devices')
    assert system.run(PINGPONG.format(weft='weft'), user=65534).count('1000 iters') == 2
    system.run('dpkg --purge weft')
    assert not system.changes()


@pytest.mark.parametrize('system', ['trixie'], indirect=True)
def test_workflow(system):
    """What examples/github.yml would have GitHub run, in a Debian with nothing else in it."""
    project = system.root / 'mnt/project'
    for name, text in PROJECT.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / 'weft').mkdir()
    subprocess.run(['sh', '-c', 'git ls-files -z | tar --null -T - -c | tar -x -C "$0"', project / 'weft'],
                   cwd=ROOT, check=True)
    workflow = (ROOT / 'examples/github.yml').read_text()
    steps = re.findall(r'^ {8}run: (?:\|\n((?: {10}.*\n)+)|(.+)\n)', workflow, re.M)
    out = system.run('cd /mnt/project\n' + '\n'.join(map(''.join, steps)), seconds=900)
    assert out.count('1000 iters') == 2 and 'test a_device ... ok' in out


def test_lintian():
    [changes] = DEB.glob('weft_*.changes')
    done = subprocess.run(['lintian', '--allow-root', '--fail-on', 'warning', changes],
                          text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout


def test_version():
    """The package and the tarball are of the same version, which is written in two files."""
    [deb], [tarball] = DEB.glob('weft_*.deb'), DIST.glob(f'weft-*-linux-{os.uname().machine}.tar.xz')
    assert deb.name.split('_')[1] == Path(tarball).name.split('-')[1]
