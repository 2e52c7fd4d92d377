# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory as whole programs see it: what migrates into the pool, and processes that fork."""
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
    print(queue.get(timeout=60).decode())
    process.join()
    print(process.exitcode)
with multiprocessing.Pool(4) as pool:
    print(sum(pool.map(abs, range(1000))))
print(mr.read(8, 0).decode())
mr.close()
other = MR(pd, 1 << 20, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
'''

# A child drops its parent's objects, which their finalizers then end; both processes have objects of their own
# afterwards.
FINALIZERS = '''
import gc, multiprocessing, sys
import pyverbs.enums as e
import pyverbs.cm_enums as ce
from pyverbs.cmid import CMID, AddrInfo
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr

def make():
    context = Context(name='weft0')
    pd = PD(context)
    cq = CQ(context, 10)
    attr = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap())
    info = AddrInfo(src='127.0.0.1', port_space=ce.RDMA_PS_TCP, flags=ce.RAI_PASSIVE)
    cmid = CMID(creator=info, qp_init_attr=QPInitAttr(cap=QPCap()))
    return [context, pd, MR(pd, 1 << 16, e.IBV_ACCESS_LOCAL_WRITE), cq, QP(pd, attr), cmid]

def child(closes):
    global objects
    own = make()
    if closes:
        for object in objects[::-1]:
            object.close()
    objects = None
    gc.collect()
    own[2].write('own', 3)
    make()
    for object in own[::-1]:
        object.close()

multiprocessing.set_start_method('fork')
objects = make()
for closes in (False, True):
    process = multiprocessing.Process(target=child, args=(closes,))
    process.start()
    process.join()
    print(process.exitcode)
make()
for object in objects[::-1]:
    object.close()
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
        # without the pages at both ends that it may share with other memory
        assert length - 2 * 4096 <= kinds[name]['pooled_bytes'] <= length, name


def test_container(fabric):
    """Docker forbids userfaultfd: memory migrates all the same, although the helper runs already."""
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


def test_finalizers(fabric):
    out = fabric.run('/usr/bin/python3', '-c', FINALIZERS)
    assert (out.stdout.split(), out.stderr) == (['0', '0'], '')
