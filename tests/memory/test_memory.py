# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory as whole programs see it: what moves into the pool, and processes that fork."""
from fabric import wait_for

MIB = 1 << 20
POOLED = {'malloc-1M': MIB, 'malloc-1G': 1024 * MIB, 'mmap': 4 * MIB, 'huge-pages': 4 * MIB}
IN_PLACE = {'malloc-64', 'shared', 'file', 'private-file', 'bss', 'data', 'stack', 'thread-stack',
            'thread-local'}

MULTIPROCESSING = '''
import multiprocessing
import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD

def child(queue):
    queue.put(mr.read(8, 0))
    mr.write('childish', 8)

context = Context(name='weft0')
pd = PD(context)
mr = MR(pd, 1 << 20, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
mr.write('parental', 8)
multiprocessing.set_start_method('fork')
for _ in range(10):
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=child, args=(queue,))
    process.start()
    print(queue.get(timeout=20).decode())
    process.join()
    print(process.exitcode)
with multiprocessing.Pool(4) as pool:
    print(sum(pool.map(abs, range(1000))))
print(mr.read(8, 0).decode())
mr.close()
other = MR(pd, 1 << 20, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
'''


def test_kinds(fabric):
    program = fabric.start(fabric.program('kinds'))
    wait_for(lambda: 'ready\n' in program.output().stdout or program.process.poll() is not None,
             'kinds is ready')
    lines = [line.split() for line in program.output().stdout.splitlines() if line != 'ready']
    regions = {region['key']: region for region in fabric.info()['regions']}
    kinds = {name: regions[int(key)] for name, key in lines}
    assert kinds.keys() == POOLED.keys() | IN_PLACE
    assert {name for name, region in kinds.items() if region['kind'] == 'in-place'} == IN_PLACE
    for name, length in POOLED.items():
        # but for the pages at both ends that it may share with others
        assert length - 2 * 4096 <= kinds[name]['pooled_bytes'] <= length, name


def test_container(fabric):
    """Docker forbids userfaultfd: memory moves although the engine thread runs already."""
    program = fabric.start(fabric.program('deny'), 'userfaultfd', fabric.program('shown'))
    wait_for(lambda: 'ready\n' in program.output().stdout or program.process.poll() is not None,
             'shown is ready')
    assert 'ready\n' in program.output().stdout, program.output()
    lines = [line.split() for line in program.output().stdout.splitlines()]
    regions = {region['key']: region for region in fabric.info()['regions']}
    kinds = {words[0]: regions[int(words[1])]['kind'] for words in lines if len(words) == 4}
    assert kinds == {'in-place': 'in-place', 'pooled': 'pooled', 'mixed': 'mixed', 'pieces': 'mixed'}


def test_multiprocessing(fabric):
    out = fabric.run('/usr/bin/python3', '-c', MULTIPROCESSING).stdout
    assert out.split() == ['parental', '0'] * 10 + ['499500', 'parental']
