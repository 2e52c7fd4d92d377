# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Each function that the path shim interposes, for paths of weft0 and for others; and programs that read there what
the kernel would show."""
import ipaddress
import json
import os
import re
import shutil
import subprocess

import pytest

from fabric import BUILD

pytestmark = pytest.mark.quick

PORT = '/sys/class/infiniband/weft0/ports/1'
REAL_PORT = '/sys/devices/weft0/infiniband/weft0/ports/1'
STATE = '4: ACTIVE\\n'

LISTED = subprocess.run([BUILD / 'tests/delivery/probe', 'list'], capture_output=True, text=True,
                        check=False).stdout.split()
# What each function says about a file, a folder, a link and a device node of weft0.
OPEN = (STATE, 'folder', None, 'device')
STAT = (r'file mode 444 size \d+ inode \d+', 'folder', 'folder', 'device')
LSTAT = (*STAT[:2], 'link', 'device')
READLINK = ('EINVAL', 'EINVAL', '../../devices/weft0/infiniband/weft0', 'EINVAL')
LIST = ('ENOTDIR', r'\d+ .*', None, 'ENOTDIR')
ACCESS = ('ok', 'ok', 'ok', 'ok')
XATTR = ('(ENODATA|EOPNOTSUPP|EPERM)',) * 3 + ('(ENODATA|EOPNOTSUPP|EPERM|EACCES)',)
REAL = (f'{REAL_PORT}/state', f'{REAL_PORT}/gids', '/sys/devices/weft0/infiniband/weft0',
        '/dev/infiniband/uverbs0')
PATHS = (f'{PORT}/state', f'{PORT}/gids', '/sys/class/infiniband/weft0', '/dev/infiniband/uverbs0')
GLOB = tuple(f'{path} ' for path in PATHS)


def expected(name):
    """By the name's root: open, __open_2 and openat64 answer alike."""
    for pattern, answers in ((r'_*l(stat|xstat)', LSTAT),
                             (r'_*(f?x?statx?|fstatat|fxstatat)', STAT), ('_*readlink', READLINK),
                             ('_*(realpath|canonicalize)', REAL), ('glob', GLOB),
                             ('(opendir|chdir|scandir)', LIST), ('l?getxattr', XATTR),
                             ('(e|euid|f)?access', ACCESS),
                             ('_*f?(re)?open', OPEN)):
        if re.match(pattern, name):
            return answers
    raise AssertionError(name)


def probe(delivery, run, *words, **options):
    start = delivery.run if run else delivery.plain
    done = start(delivery.program('probe'), *words, **options)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout.rstrip('\n')


def is_answer(got, pattern):
    return re.fullmatch(pattern.replace('\\n', '\\\\n'), got)


def test_every_interposed_function_is_tested():
    symbols = subprocess.run(['nm', '-D', '--defined-only', BUILD / 'libweft-shim.so'],
                             capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in symbols.splitlines()}
    assert exported - {'dlopen'} == set(LISTED)  # dlopen: test_loader.py


@pytest.mark.parametrize('name', LISTED)
def test_our_path(delivery, name):
    for path, answer in zip(PATHS, expected(name)):
        if answer is not None:
            assert is_answer(probe(delivery, True, name, path), answer), path
    assert probe(delivery, True, name, f'{PORT}/no-such-file') == 'ENOENT'


AT = [name for name in LISTED
      if re.match('_*(open|fx?stat|faccess|readlink|scandir)at|statx', name)]


@pytest.mark.parametrize('name', AT)
@pytest.mark.parametrize('base', ['/', '/sys', '/sys/class/infiniband', PORT])
def test_our_path_below_a_descriptor(delivery, name, base):
    """As hwloc reads everything: relative to a descriptor of the root."""
    for path, answer in zip(PATHS, expected(name)):
        if answer is not None and path.startswith(base):
            relative = os.path.relpath(path, base)
            assert is_answer(probe(delivery, True, name, relative, base), answer), path


@pytest.mark.parametrize('name', LISTED)
def test_foreign_path(delivery, name):
    """Exactly as without the shim, errors included."""
    folder = delivery.folder / 'foreign infiniband weft0'
    if not folder.exists():
        folder.mkdir()
        (folder / 'file').write_text('text\n')
        (folder / 'closed').write_text('')
        (folder / 'closed').chmod(0)
        (folder / 'link').symlink_to('file')
        (folder / 'loop').symlink_to('loop')
    paths = ['/etc/passwd', '/sys/class/net', '/dev/zero', '', 'x' * 300, 'y/' * 2500, '..', '.',
             '/sys/class/net/../infiniban', '/dev/infinibandit/uverbs0', '/sys/class/misc',
             '/dev/..',
             *(str(folder / f) for f in ('', 'file', 'closed', 'link', 'loop', 'none', 'file/x'))]
    for path in paths:
        assert probe(delivery, True, name, path) == probe(delivery, False, name, path), path
    for path in ('file', 'none', 'link', '/etc/passwd'):
        with_shim, without = (probe(delivery, run, name, path, folder) for run in (True, False))
        assert with_shim == without, path


def test_modes_of_new_files(delivery):
    folder = delivery.folder / 'modes'
    for run in (True, False):
        folder.mkdir()
        folder.chmod(0o777)
        modes = probe(delivery, run, 'create', folder).split()
        assert modes == ['641', 'EEXIST', '642', '643', '644']
        shutil.rmtree(folder)


@pytest.mark.parametrize('path', ['/sys//class///infiniband/./weft0/ports/1/state',
                                  '/sys/class/net/../infiniband/weft0/ports/1/state',
                                  '//sys/./class/infiniband_verbs/uverbs0/device/infiniband/weft0/'
                                  'ports/1/state',
                                  '/sys/class/infiniband/weft0/ports/../ports/1/state',
                                  f'{REAL_PORT}/state'])
def test_other_spellings(delivery, path):
    assert probe(delivery, True, 'open', path) == STATE


def shell(delivery, line, **options):
    done = delivery.run('bash', '-c', line, **options)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout


def test_read_only(delivery):
    for user in (True, False):  # root, too
        done = delivery.run('sh', '-c', f'echo 1 > {PORT}/state', user=user)
        assert done.returncode != 0 and 'ermission denied' in done.stderr
        done = delivery.run('sh', '-c', 'echo 1 > /sys/class/infiniband/new', user=user)
        assert done.returncode != 0
    assert shell(delivery, f'cat {PORT}/state') == '4: ACTIVE\n'


def test_gids(delivery):
    """The table of the namespace in the kernel's layout; unused entries are as the kernel has them."""
    lines = shell(delivery, f'cd {PORT}; for i in 0 1 2 3; do cat gids/$i gid_attrs/types/$i '
                            'gid_attrs/ndevs/$i; done').splitlines()
    gids, types, devs = lines[0::3], lines[1::3], lines[2::3]
    assert types == ['IB/RoCE v1', 'RoCE v2'] * 2
    assert gids[0] == gids[1] and gids[0].startswith('fe80:0000:0000:0000:')
    assert gids[2] == gids[3] and gids[2].startswith('0000:0000:0000:0000:0000:ffff:')
    assert len(set(devs)) == 1 and os.path.exists(f'/sys/class/net/{devs[0]}')
    assert shell(delivery, f'cat {PORT}/gids/255') == ':'.join(['0000'] * 8) + '\n'
    assert len(shell(delivery, f'ls {PORT}/gids').split()) == 256
    for attr in ('types', 'ndevs'):
        done = delivery.run('cat', f'{PORT}/gid_attrs/{attr}/255')
        assert done.returncode == 1 and 'Invalid argument' in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason='needs a network namespace')
def test_gids_are_of_the_namespace(delivery):
    line = f'{delivery.weft} run cat {PORT}/gids/3 {PORT}/gid_attrs/ndevs/3'
    done = delivery.plain('unshare', '-n', 'sh', '-c', f'ip link set lo up && {line}', user=False)
    assert done.stdout == '0000:0000:0000:0000:0000:ffff:7f00:0001\nlo\n'


def test_relative_to_the_current_folder(delivery):
    absolute = shell(delivery, f'cat {PORT}/gids/0 {PORT}/gids/3')
    assert shell(delivery, f'cd {PORT}/gids && cat 0 3') == absolute
    assert shell(delivery, f'cd {PORT} && sh -c "cd gids; cat 255"').startswith('0000:')
    assert shell(delivery, 'cd /sys/class && cat infiniband/weft0/node_type') == '1: CA\n'


@pytest.mark.parametrize('enter', ['base = os.open(gids, os.O_RDONLY)',
                                   'dir = ctypes.c_void_p(libc.opendir(gids.encode())); '
                                   'base = libc.dirfd(dir)',
                                   'os.chdir(gids); base = None'],
                         ids=['open', 'opendir', 'chdir'])
def test_relative_after_others(delivery, enter):
    """A process that had no paths of weft0 gets some by another way."""
    code = ('import ctypes, os\n'
            'libc = ctypes.CDLL(None); libc.opendir.restype = ctypes.c_void_p\n'
            f'gids = "{PORT}/gids"\n'
            'os.access("elsewhere", os.F_OK)\n'
            f'{enter}\n'
            'print(os.read(os.open("3", os.O_RDONLY, dir_fd=base), 100).decode(), end="")\n')
    done = delivery.run('/usr/bin/python3', '-c', code)
    assert done.stdout == shell(delivery, f'cat {PORT}/gids/3') and not done.stderr


def test_cpus(delivery):
    device = '/sys/class/infiniband/weft0/device'
    with open('/sys/devices/system/cpu/online', encoding='ascii') as file:
        online = file.read()
    assert shell(delivery, f'cat {device}/local_cpulist') == online
    ranges = [[int(n) for n in part.split('-')] for part in online.split(',')]
    mask = sum(1 << cpu for r in ranges for cpu in range(r[0], r[-1] + 1))
    assert int(shell(delivery, f'cat {device}/local_cpus').replace(',', ''), 16) == mask


@pytest.mark.skipif(not shutil.which('ibv_devinfo'), reason='needs ibv_devinfo')
def test_same_as_the_verbs_say(delivery):
    """sysfs and libibverbs tell the same of the device."""
    text = shell(delivery, f'WEFT_POOL={delivery.pool} ibv_devinfo -v -d weft0')
    info = dict(re.findall(r'^\s*(\w+):\s+(.+?)\s*$', text, re.M))

    def read(*files):
        return shell(delivery, f'cd {PORT} && cat {" ".join(files)}').splitlines()
    names = ('fw_ver', 'node_guid', 'sys_image_guid')
    assert [info[name] for name in names] == read(*(f'../../{name}' for name in names))
    assert (info['state'], info['phys_state']) == ('PORT_ACTIVE (4)', 'LINK_UP (5)')
    assert read('state', 'phys_state') == ['4: ACTIVE', '5: LinkUp']
    assert read('link_layer', 'cap_mask') == [info['link_layer'], info['port_cap_flags']]
    assert info['active_width'].startswith('4X') and info['active_speed'].startswith('25.0 Gbps')
    assert read('rate') == ['100 Gb/sec (4X EDR)']
    assert info['gid_tbl_len'] == str(len(shell(delivery, f'ls {PORT}/gids').split()))
    assert info['pkey_tbl_len'] == str(len(shell(delivery, f'ls {PORT}/pkeys').split()))
    [gid] = re.findall(r'GID\[\s*3\]:\s+(\S+),', text)
    [sysfs_gid] = read('gids/3')
    assert ipaddress.ip_address(gid) == ipaddress.ip_address(sysfs_gid)


def test_shell_tools(delivery):
    listing = shell(delivery, 'ls -l /sys/class/infiniband')
    assert listing.endswith(' weft0 -> ../../devices/weft0/infiniband/weft0\n')
    assert shell(delivery, f'find {PORT}/ -name state -exec cat {{}} +') == '4: ACTIVE\n'
    assert shell(delivery, 'echo /sys/class/infiniband/*/ports/*/st*') == f'{PORT}/state\n'
    driver = shell(delivery, 'realpath /sys/class/infiniband/weft0/device/driver')
    assert driver == '/sys/bus/weft/drivers/weft\n'
    assert shell(delivery, 'stat -c %F /dev/infiniband/uverbs0') == 'character special file\n'
    assert shell(delivery, 'test -c /dev/infiniband/rdma_cm && exec 3<>/dev/infiniband/uverbs0'
                           ' && echo opened') == 'opened\n'


def test_descriptor_flags(delivery):
    code = ('import os, fcntl\n'
            f'for path in ("{PORT}/state", "{PORT}/gids/0", "/etc/passwd"):\n'
            '    for flag in (0, os.O_CLOEXEC):\n'
            '        fd = os.open(path, flag)\n'
            '        import ctypes; n = ctypes.CDLL(None).open(path.encode(), flag)\n'
            '        print(bool(fcntl.fcntl(n, fcntl.F_GETFD)), n - fd)\n'
            '        os.close(n); os.close(fd)\n')
    assert delivery.run('/usr/bin/python3', '-c', code).stdout == 'False 1\nTrue 1\n' * 3


def test_threads(delivery):
    code = ('import threading\n'
            'def work():\n'
            '    for i in range(50):\n'
            f'        assert open("{PORT}/gids/3").read().startswith("0000:")\n'
            f'        assert open("{PORT}/state").read() == "4: ACTIVE\\n"\n'
            'threads = [threading.Thread(target=work) for _ in range(8)]\n'
            '[t.start() for t in threads]; [t.join() for t in threads]\n')
    done = delivery.run('/usr/bin/python3', '-c', code)
    assert done.returncode == 0 and not done.stderr


def test_rdma_command(delivery):
    [link] = json.loads(delivery.run('rdma', 'link', 'show', '-j').stdout)
    netdev = shell(delivery, f'cat {PORT}/gid_attrs/ndevs/0').strip()
    index = int(open(f'/sys/class/net/{netdev}/ifindex', encoding='ascii').read())
    assert link == {'ifindex': 0, 'ifname': 'weft0', 'port': 1, 'state': 'ACTIVE',
                    'physical_state': 'LINK_UP', 'netdev': netdev, 'netdev_index': index}
    text = f'link weft0/1 state ACTIVE physical_state LINK_UP netdev {netdev} \n'
    for words in (['link'], ['link', 'show'], ['l', 'sh', 'weft0/1'], ['link', 'list', '-d']):
        assert delivery.run('rdma', *words).stdout == text
    [dev] = json.loads(delivery.run('rdma', '-j', 'dev').stdout)
    guid = shell(delivery, 'cat /sys/class/infiniband/weft0/node_guid').strip()
    assert (dev['ifname'], dev['node_type'], dev['node_guid']) == ('weft0', 'ca', guid)
    text = delivery.run('rdma', 'dev', 'show', 'weft0').stdout
    assert text.startswith('0: weft0: node_type ca fw ') and guid in text


def test_rdma_command_passes_on(delivery):
    fake = delivery.folder / 'system'
    fake.mkdir()
    (fake / 'rdma').write_text('#!/bin/sh\necho "system: $*"; exit 5\n')
    (fake / 'rdma').chmod(0o755)
    env = {**delivery.env, 'PATH': f'{fake}:/usr/bin:/bin'}
    for words in (['system', 'show'], ['link', 'show', 'mlx5_0'], ['-V'],
                  ['link', 'show', 'weft0', 'x']):
        done = delivery.run('rdma', *words, env=env)
        assert (done.returncode, done.stdout) == (5, f'system: {" ".join(words)}\n')
    # without the shim there is no weft0, and everything is the system's
    done = delivery.plain(delivery.rdma, 'link', env=env)
    assert done.stdout == 'system: link\n'


@pytest.mark.skipif(os.geteuid() != 0, reason='needs a mount namespace')
def test_rdma_command_without_the_systems(delivery):
    folders = ('/usr/local/bin', '/usr/bin', '/usr/sbin', '/bin', '/sbin')
    found = {os.path.realpath(f'{f}/rdma') for f in folders if os.path.exists(f'{f}/rdma')}
    hide = ' && '.join(f'mount --bind /dev/null {path}' for path in found) or 'true'
    done = delivery.plain('unshare', '-m', 'sh', '-c', f'{hide} && {delivery.weft} run rdma system',
                          user=False)
    assert done.returncode == 127 and 'install iproute2' in done.stderr


@pytest.mark.skipif(not shutil.which('ucx_info'), reason='needs ucx_info')
def test_ucx_lists_weft0(delivery):
    done = delivery.run('--pool', delivery.pool, '--', 'ucx_info', '-d')
    assert done.returncode == 0 and 'Device: weft0:1' in done.stdout, done


@pytest.mark.skipif(not shutil.which('lstopo-no-graphics'), reason='needs lstopo')
def test_hwloc_lists_weft0(delivery):
    done = delivery.run('lstopo-no-graphics', '--whole-io')
    assert done.returncode == 0 and 'weft0' in done.stdout, done
