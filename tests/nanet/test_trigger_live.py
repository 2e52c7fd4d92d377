# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft stream trigger` of several sources, by several threads, and on a GPU (the stand-in): it decides as it does for a file, and the
primitives of a source leave in the order of its buffers."""
import contextlib
import shutil
import subprocess
import time

import pytest

from fabric import BUILD
from nanet.test_live import await_read, bound, command, free_port, generate, needs_room, receive, sound
from stream.capture import frames, payload, primitives, stream

EVENTS = 6000
SOFT = {'LD_LIBRARY_PATH': BUILD / 'tests/softgpu', 'WEFT_JUDGE_KERNEL': BUILD / 'tests/nanet/judge.so', 'WEFT_JUDGE_WARPS': 2,
        'WEFT_PULL_KERNEL': BUILD / 'tests/nanet/pull.so', 'WEFT_PULL_WARPS': 2}


@pytest.fixture(name='soft')
def the_stand_in(monkeypatch):
    for name, value in SOFT.items():
        monkeypatch.setenv(name, str(value))


def all_primitives(path):
    return [p for _, f in frames(path) for p in primitives(payload(f))]


def decided(folder, seed, *words):
    """The primitives that the trigger makes of a file with those events."""
    stream('generate', '--write', folder / 'x.pcap', '--events', EVENTS, '--seed', seed)
    stream('trigger', '--read', folder / 'x.pcap', '--write', folder / 'p.pcap', *words)
    return all_primitives(folder / 'p.pcap')


def judged_live(folder, sources, *words):
    """What comes back of each source, and the trigger's report."""
    ports, backs = ([free_port() for _ in range(sources)] for _ in range(2))
    more = [word for port in ports[1:] for word in ('--from', f'udp:127.0.0.1:{port}')]
    more += [word for back in backs for word in ('--to', f'udp:127.0.0.1:{back}')]
    with contextlib.ExitStack() as stack:
        for i, back in enumerate(backs):
            stack.enter_context(receive(back, '--socket', 8 << 20, '--write', folder / f'{i}.pcap'))
        report = stack.enter_context(command('trigger', ports[0], '--socket', 8 << 20, '--gather', 256, *more, *words))
        while not all(map(bound, ports)):
            time.sleep(0.01)
        for i, port in enumerate(ports):
            generate(port, '--stamp', '--pace', '1gbe', '--events', EVENTS, '--seed', i + 1)
        for port in ports:
            await_read(port)
    account = report['account']
    sound(account)
    assert account['events'] == report['trigger']['events'] == sources * EVENTS and not account['lost']
    assert report['chain_ns']['count'] == report['chain']['buffers'] > 0 and not report['chain']['changed']
    return [all_primitives(folder / f'{i}.pcap') for i in range(sources)], report


@needs_room
@pytest.mark.parametrize('words', [(), ('--threads', 3)])
def test_here(tmp_path, words):
    got, report = judged_live(tmp_path, 2, '--algorithm', 'taubin', *words)
    assert got == [decided(tmp_path, seed, '--algorithm', 'taubin') for seed in (1, 2)]
    assert report['trigger']['primitives'] == sum(map(len, got))


@needs_room
@pytest.mark.parametrize('words', [(), ('--pull',)])
@pytest.mark.usefixtures('soft')
def test_on_gpu(tmp_path, words):
    got, report = judged_live(tmp_path, 2, '--algorithm', 'crawford', '--drop', '--gpu', 0, *words)
    assert got == [decided(tmp_path, seed, '--algorithm', 'crawford', '--drop') for seed in (1, 2)]
    assert report['trigger']['primitives'] == sum(map(len, got))


@pytest.mark.parametrize('words,said', [
    (('--to', 'udp::1', '--to', 'udp::2'), 'as many --to'),
    (('--from', 'udp::0', '--write', 'x'), 'one source'),
    (('--threads', 2, '--fits', 'x'), 'one thread'),
    (('--threads', 17), 'no such value'),
    (('--gpu', 0, '--threads', 2), '--gpu'),
    (('--gpu', 'x'), 'no such value'),
    (('--pull',), '--pull'),
    (('--from', 'udp::0') * 16, 'no such value'),
])
def test_wrong_usage(words, said):
    done = stream('trigger', '--from', 'udp::0', *words, ok=False)
    assert done.returncode == 2 and said in done.stderr


@pytest.mark.usefixtures('soft')
@pytest.mark.parametrize('gpu,module,said', [(0, '/dev/null', 'weft-judge.ptx'), (9, '', 'no such GPU')])
def test_no_kernel(monkeypatch, gpu, module, said):
    monkeypatch.setenv('WEFT_JUDGE_KERNEL', module)
    done = stream('trigger', '--from', 'udp::0', '--gpu', gpu, ok=False)
    assert done.returncode == 1 and said in done.stderr


def test_no_driver(monkeypatch, tmp_path):
    monkeypatch.setenv('LD_LIBRARY_PATH', str(tmp_path))
    if any((folder / 'libcuda.so.1').exists() for folder in map(type(tmp_path), ('/usr/lib/x86_64-linux-gnu', '/usr/lib64'))):
        pytest.skip('there is a driver')
    assert 'libcuda.so.1' in stream('trigger', '--from', 'udp::0', '--gpu', 0, ok=False).stderr


@pytest.mark.usefixtures('soft')
def test_no_plugin(tmp_path):
    """A `weft` without its libraries beside it."""
    done = subprocess.run([shutil.copy(BUILD / 'weft', tmp_path), 'stream', 'trigger', '--from', 'udp::0', '--gpu', '0'],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and 'the GPU: libweft-cuda.so lies with' in done.stderr
