# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`make install PREFIX= DESTDIR=` leaves a tree that runs from where it lies, whatever the folder is
called, and `make uninstall` removes what `make install` has put there and nothing else."""
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.aside

ROOT = Path(__file__).resolve().parents[2]


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob('*'))


def test_install(tmp_path):
    def make(goal):
        return subprocess.run(['make', goal, f'BUILD={tmp_path}/build', 'PREFIX=/opt/weft',
                               f'DESTDIR={root}'], cwd=ROOT, check=False, text=True,
                              stderr=subprocess.PIPE)
    # Without the tests, which are not installed.
    subprocess.run(['meson', 'setup', '-Dtests=false', tmp_path / 'build'], cwd=ROOT, check=True)
    root = tmp_path / "the 'root'"
    assert make('install').returncode == 0
    prefix = root / 'opt/weft'
    assert [p.name for p in root.iterdir()] == ['opt']
    assert {p.name for p in tmp_path.iterdir()} == {'build', root.name}
    for library in ('libibverbs.so', 'libibverbs.so.1', 'librdmacm.so', 'librdmacm.so.1',
                    'libweft-shim.so'):
        assert list(prefix.glob(f'lib/**/weft/{library}')), library
    done = subprocess.run([prefix / 'bin/weft', 'run', '--private', '--', 'ibv_devices'],
                          check=True, capture_output=True, text=True)
    assert 'weft0' in done.stdout

    assert make('install').returncode == 0  # over itself: meson makes no folders then
    (prefix / 'bin/other').write_text('somebody else\'s')
    assert make('uninstall').returncode == 0
    assert files(root) == ['opt', 'opt/weft', 'opt/weft/bin', 'opt/weft/bin/other']
    again = make('uninstall')
    assert again.returncode != 0 and 'nothing to remove' in again.stderr
    assert files(root) == ['opt', 'opt/weft', 'opt/weft/bin', 'opt/weft/bin/other']
