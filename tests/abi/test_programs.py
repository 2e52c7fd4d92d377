# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's programs and modules load Weft's libraries and list weft0."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fabric import BUILD, free_port, listening, wait_for

LOAD_EACH = '''
import importlib, pkgutil, pyverbs
names = [m.name for m in pkgutil.walk_packages(pyverbs.__path__, 'pyverbs.')]
for name in names:
    importlib.import_module(name)
from pyverbs.device import Context, get_device_list
print(len(names), [d.name.decode() for d in get_device_list()])
context = Context(name='weft0')
print(context.query_gid_type(1, 3), context.query_gid(1, 3))
print(len(context.query_gid_table(256)), context.query_pkey(1, 0))
'''
LOAD_NOW = '''
import ctypes, os, sys
ours = ctypes.CDLL('libibverbs.so.1', os.RTLD_NOW | os.RTLD_GLOBAL)
library = ctypes.CDLL(sys.argv[1], os.RTLD_NOW)
print('libibverbs.so.1' in open('/proc/self/maps').read())
vendor = os.path.basename(sys.argv[1]).split('.')[0][3:]
supported = getattr(library, vendor + 'dv_is_supported', None)
if supported:
    supported.restype = ctypes.c_bool
    ours.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
    print('takes weft0 for its own:', supported(ctypes.c_void_p(ours.ibv_get_device_list(None)[0])))
'''


def vendor_libraries():
    folder = Path('/usr/lib') / f'{os.uname().machine}-linux-gnu'
    return sorted([*folder.glob('libibverbs/lib*-rdmav*.so'), *folder.glob('libmlx[45].so.1'),
                   *folder.glob('libefa.so.1'), *folder.glob('libmana.so.1')])


def test_fi_info(fabric):
    shown = fabric.run('fi_info', '-p', 'verbs').stdout
    assert 'provider: verbs' in shown
    assert 'domain: weft0' in shown


def test_ucx_info(fabric):
    """Some transports of UCX want more than Weft has, and ucx_info says so; it must list the device."""
    program = fabric.start('ucx_info', '-d')
    done = program.wait()
    assert done.status == 0
    assert 'Memory domain: weft0' in done.stdout
    assert 'Device: weft0:1' in done.stdout
    assert program.libraries() and all(fabric.owns(library) for library in program.libraries())


def test_pyverbs(fabric):
    modules, gid, table = fabric.run('/usr/bin/python3', '-c', LOAD_EACH).stdout.splitlines()
    assert int(modules.split()[0]) > 20 and modules.endswith("['weft0']")
    assert gid.startswith('1 ')  # RoCE v2
    assert int(table.split()[0]) >= 4 and table.endswith(' 65535')


@pytest.mark.parametrize('program', ['ib_write_bw', 'ib_send_lat', 'ib_read_bw', 'ib_atomic_lat'])
def test_perftest_takes_the_device(fabric, program):
    """A server that has opened the device waits for its client."""
    port = free_port()
    server = fabric.start(program, '-d', 'weft0', '-p', port)
    wait_for(lambda: listening(port) or server.process.poll() is not None, 'server listens')
    assert server.process.poll() is None, server.trouble('ended')
    assert all(fabric.owns(library) for library in server.libraries())


def test_perftest_refuses_another_device(fabric):
    done = fabric.start('ib_write_bw', '-d', 'mlx5_0').wait()
    assert done.status != 0
    assert 'IB device mlx5_0 not found' in done.stdout + done.stderr


@pytest.mark.quick
@pytest.mark.parametrize('library', vendor_libraries(), ids=lambda path: path.name)
def test_vendor_library_is_satisfied(library):
    """Each library finds all its symbols at once, and does not take Weft's device for its own."""
    done = subprocess.run([sys.executable, '-c', LOAD_NOW, library], capture_output=True, text=True,
                          check=False, env={**os.environ, 'LD_LIBRARY_PATH': str(BUILD),
                                            'LD_BIND_NOW': '1'})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == 'True'
    assert lines[1:] in ([], ['takes weft0 for its own: False'])


def test_there_are_vendor_libraries():
    assert len(vendor_libraries()) > 5
