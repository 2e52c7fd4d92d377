# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""An installed Weft, in a folder that it was not configured for, works as the build folder does."""
import json
import shutil
import subprocess

import pytest

from fabric import BUILD

pytestmark = pytest.mark.quick
NODE_TYPE = '/sys/class/infiniband/weft0/node_type'


def found_libraries(delivery, weft):
    """What the doctor says of Weft's libraries."""
    checks = json.loads(delivery.plain(weft, 'doctor', '--json').stdout)['checks']
    return next(check['state'] for check in checks if check['check'] == 'libraries')


def test_installation(delivery):
    place = delivery.folder / 'staging'
    subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', place],
                   check=True, capture_output=True, timeout=120)
    [weft] = place.rglob('bin/weft')
    done = delivery.plain(weft, 'run', 'sh', '-c',
                          f'cat {NODE_TYPE}; rdma link; echo $LD_LIBRARY_PATH')
    assert done.returncode == 0 and not done.stderr, done
    node_type, link, libs = done.stdout.splitlines()
    assert node_type == '1: CA' and link.startswith('link weft0/1 state ACTIVE')
    assert libs.startswith(str(place)) and libs.endswith('/weft')
    # no library of Weft's is where the loader or a compiler would find it without being told
    ours = [p for p in place.rglob('lib*.so*') if p.parent.name != 'weft']
    assert not ours
    pages = {p.name for p in place.rglob('man1/*')}
    assert {'weft.1', 'weft-run.1', 'weft-env.1'} <= pages
    installed = weft.parent.parent
    for name in ('moved', "an 'odd' name, ü"):
        installed = shutil.move(installed, delivery.folder / name)
        weft = installed / 'bin/weft'
        assert delivery.plain(weft, 'run', 'cat', NODE_TYPE).stdout == '1: CA\n'
        assert found_libraries(delivery, weft) == 'ok'
    installed = shutil.move(installed, delivery.folder / 'with:colon')
    assert found_libraries(delivery, installed / 'bin/weft') == 'problem'
