# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What Weft sets, and that `eval "$(weft env)"` sets the same in a shell, however often it is run."""
import pytest

pytestmark = pytest.mark.quick

NAMES = ['LD_LIBRARY_PATH', 'LD_PRELOAD', 'PATH', 'NCCL_GIN_TYPE', 'NCCL_IB_GID_INDEX',
         'NCCL_NET_GDR_LEVEL', 'CUDA_MODULE_LOADING', 'WEFT_TELL_DEATHS', 'OMPI_MCA_pml_ucx_devices', 'OMPI_MCA_pml_ucx_tls', 'UCX_RC_VERBS_RX_QUEUE_LEN',
         'UCX_ZCOPY_THRESH', 'ASAN_OPTIONS', 'WEFT_POOL']
USERS_OWN = {'LD_LIBRARY_PATH': "/a b:/it's", 'LD_PRELOAD': 'libm.so.6',
             'PATH': "/usr/bin:/bin:/$x`'\"", 'NCCL_GIN_TYPE': '2', 'NCCL_IB_GID_INDEX': '7',
             'OMPI_MCA_pml_ucx_tls': '', 'WEFT_POOL': '/p\nq',
             'ASAN_OPTIONS': 'verify_asan_link_order=1:detect_leaks=0'}


def variables(text):
    """The variables in the output of `env -0`."""
    pairs = dict(item.split('=', 1) for item in text.split('\0') if '=' in item)
    return {name: pairs.get(name) for name in NAMES}


def by_run(delivery, env, *words):
    return variables(delivery.run(*words, 'env', '-0', env=env).stdout)


def test_values(delivery):
    libs = str(delivery.libs)
    names = ['libibverbs.so.1', 'librdmacm.so.1', 'libweft-shim.so']
    got = by_run(delivery, delivery.env)
    assert got == {'LD_LIBRARY_PATH': libs,
                   'LD_PRELOAD': ':'.join(f'{libs}/{name}' for name in names),
                   'PATH': f'{delivery.rdma.parent}:{delivery.env["PATH"]}',
                   'NCCL_GIN_TYPE': '0', 'NCCL_IB_GID_INDEX': '3', 'NCCL_NET_GDR_LEVEL': None, 'CUDA_MODULE_LOADING': None,
                   'WEFT_TELL_DEATHS': None,
                   'OMPI_MCA_pml_ucx_devices': 'any', 'OMPI_MCA_pml_ucx_tls': 'any', 'UCX_RC_VERBS_RX_QUEUE_LEN': '512',
                   'UCX_ZCOPY_THRESH': '8192', 'ASAN_OPTIONS': 'verify_asan_link_order=0', 'WEFT_POOL': None}


def test_what_the_user_had_stays(delivery):
    libs = str(delivery.libs)
    got = by_run(delivery, {**delivery.env, **USERS_OWN})
    assert got['LD_LIBRARY_PATH'] == f'{libs}:{USERS_OWN["LD_LIBRARY_PATH"]}'
    assert got['LD_PRELOAD'].startswith(f'libm.so.6:{libs}/libibverbs.so.1:')
    assert got['PATH'] == f'{delivery.rdma.parent}:{USERS_OWN["PATH"]}'
    assert got['NCCL_GIN_TYPE'] == '2' and got['NCCL_IB_GID_INDEX'] == '7'
    assert got['OMPI_MCA_pml_ucx_tls'] == ''
    assert got['WEFT_POOL'] == USERS_OWN['WEFT_POOL']
    assert got['ASAN_OPTIONS'] == f'{USERS_OWN["ASAN_OPTIONS"]}:verify_asan_link_order=0'  # the last one counts


@pytest.mark.parametrize('transports, asked', [
    ('all', True), ('rc', True), ('ud,rc_v', True), ('rc_verbs:aux,sm', True), ('ib', True), ('^tcp', True), ('^ud,sm', True),
    ('ud', False), ('ud_v,self', False), ('tcp', False), ('', False), ('rc_x', False), ('^rc', False), ('^ud,ib', False)])
def test_what_ucx_does_not_ask_for(delivery, transports, asked):
    """UCX 1.18 warns of transports that it is asked for and does not use."""
    got = by_run(delivery, {**delivery.env, 'UCX_TLS': transports})
    assert got['UCX_RC_VERBS_RX_QUEUE_LEN'] == ('512' if asked else None)


ASKED = {'NCCL_P2P_DISABLE': '1', 'NCCL_SHM_DISABLE': '1'}


@pytest.mark.parametrize('env, values', [
    (ASKED, ('SYS', 'EAGER', '1')), ({**ASKED, 'NCCL_SHM_DISABLE': '0'}, (None,) * 3), ({'NCCL_SHM_DISABLE': '1'}, (None,) * 3),
    ({**ASKED, 'NCCL_NET_GDR_LEVEL': 'LOC', 'CUDA_MODULE_LOADING': 'LAZY', 'WEFT_TELL_DEATHS': '0'}, ('LOC', 'LAZY', '0'))])
def test_nccl_that_is_to_use_the_network(delivery, env, values):
    env = {**delivery.env, **env}
    got = by_run(delivery, env)
    assert (got['NCCL_NET_GDR_LEVEL'], got['CUDA_MODULE_LOADING'], got['WEFT_TELL_DEATHS']) == values
    line = f'eval "$({delivery.weft} env)"; /usr/bin/env -0'
    assert variables(delivery.plain('sh', '-c', line, env=env).stdout) == got


def test_empty_elements_mean_the_current_folder_and_stay(delivery):
    got = by_run(delivery, {**delivery.env, 'LD_LIBRARY_PATH': ':/x:', 'PATH': '/usr/bin::/bin:'})
    assert got['LD_LIBRARY_PATH'] == f'{delivery.libs}::/x:'
    assert got['PATH'].endswith(f'{delivery.rdma.parent}:/usr/bin::/bin:')


def test_without_path(delivery):
    env = {k: v for k, v in delivery.env.items() if k != 'PATH'}
    got = variables(delivery.plain('/usr/bin/env', '-u', 'PATH', delivery.weft, 'run', 'env', '-0',
                                   env=env).stdout)
    assert got['PATH'].endswith(':/bin:/usr/bin')


@pytest.mark.parametrize('env', [{}, USERS_OWN], ids=['fresh', 'odd'])
@pytest.mark.parametrize('shell', ['sh', 'bash'])
@pytest.mark.parametrize('times', [1, 2])
def test_eval_is_the_same_as_run(delivery, shell, times, env):
    env = {**delivery.env, **env}
    line = f'set -eu; {times * f"""eval "$({delivery.weft} env)"; """} /usr/bin/env -0'
    done = delivery.plain(shell, '-c', line, env=env)
    assert done.returncode == 0 and not done.stderr
    assert variables(done.stdout) == by_run(delivery, env)


def test_run_in_run(delivery):
    twice = delivery.run('--', delivery.weft, 'run', 'env', '-0').stdout
    assert variables(twice) == by_run(delivery, delivery.env)


def test_pool(delivery):
    for words, pool in ((['--pool', "/p q'"], "/p q'"), (['--pool=rel'], f'{delivery.folder}/rel')):
        quoted = ' '.join(f'"{word}"' for word in words)
        line = f'eval "$({delivery.weft} env {quoted})"; printf %s "$WEFT_POOL"'
        assert delivery.plain('sh', '-c', line).stdout == pool


@pytest.mark.parametrize('words', [['x'], ['--pool'], ['--pool', ''], ['--pool', '--'], ['--private']])
def test_wrong_usage(delivery, words):
    done = delivery.plain(delivery.weft, 'env', *words)
    assert done.returncode == 2 and not done.stdout and 'weft env --help' in done.stderr
