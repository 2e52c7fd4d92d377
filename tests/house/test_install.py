# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`make install PREFIX= DESTDIR=` leaves a tree that runs from where it lies."""
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_install(tmp_path):
    subprocess.run(['make', 'install', f'BUILD={tmp_path}/build', 'PREFIX=/opt/weft',
                    f'DESTDIR={tmp_path}/root'], cwd=ROOT, check=True)
    prefix = tmp_path / 'root/opt/weft'
    assert [p.name for p in (tmp_path / 'root').iterdir()] == ['opt']
    for library in ('libibverbs.so', 'libibverbs.so.1', 'librdmacm.so', 'librdmacm.so.1',
                    'libweft-shim.so'):
        assert list(prefix.glob(f'lib/**/weft/{library}')), library
    done = subprocess.run([prefix / 'bin/weft', 'run', '--private', '--', 'ibv_devices'],
                          check=True, capture_output=True, text=True)
    assert 'weft0' in done.stdout
