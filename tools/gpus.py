#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs on hardware the tests of GPU memory that otherwise run on a stand-in for the driver: `make check-gpu` on a machine with a GPU,
`make check-gpu2` on one with two. It needs a build folder, which may come from elsewhere, the driver, and for NCCL a
python3 that has PyTorch; nvcc makes the tests' kernels, without which those that need them are skipped. Prints a table last, and
writes it to docs/gpu.md between markers. Exits 0, or 1 if a bound that is asked for is missed, or a test fails."""
import argparse
import concurrent.futures
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KILLS, KILLS_AT_ONCE, NCCL_SECONDS = 50, 5, 150
SMALL_ROUNDS = 3  # of all-reduces of 8 bytes, over Weft and by sockets
REGISTRATIONS = 10000  # beside copies of other threads
ORDER = [300000, 100000, 3000]  # rounds of 8 bytes, 4 KiB and 16 MiB from each kind of memory
MIB = 1 << 20
PROGRAMS = [('gpu-work', True), ('gpu-peers', True), ('gpu-pinned', False), ('gpu-verbs', False), ('gpu-life', True),
            ('gpu-far', False), ('gpu-services', False), ('gpu-together', False), ('gpu-order', True), ('nic-gpu', False), ('nanet-gpu', True), ('gpu-data', False)]
PATHS = {'gpu-data': 'verbs/test-data'}  # where it is not by its name


@dataclass
class Check:
    build: Path
    gpus: int
    folder: Path
    rows: list = field(default_factory=list)
    log: list = field(default_factory=list)

    def row(self, item, what, figure, limit='', bound='', held=None):
        """held: whether the bound was; None: there is no bound, or it was skipped."""
        words = {True: 'yes', False: '**no**', None: '–'}[held]
        self.rows.append((str(item), what, figure, limit, bound, words))
        print(f'{item}: {what}: {figure} {limit} {bound} {words}', flush=True)

    def run(self, *command, seconds=120, **env):
        done = subprocess.run([str(word) for word in command], env={**os.environ, **env}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace', timeout=seconds, check=False)
        self.log.append(f'$ {" ".join(map(str, command))}\n{done.stdout}\n')
        return done

    def failed(self):
        return any(row[-1] == '**no**' for row in self.rows)


def smi(what):
    try:
        done = subprocess.run(['nvidia-smi', f'--query-gpu={what}', '--format=csv,noheader,nounits'],
                              capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        return []
    return done.stdout.splitlines() if not done.returncode else []


def make_kernels(c):
    """The module of the tests' kernels; None: there is no nvcc."""
    nvcc = shutil.which('nvcc') or shutil.which('/usr/local/cuda/bin/nvcc')
    out = c.folder / 'kernels.cubin'
    if not nvcc:
        return None
    done = c.run(nvcc, '-x', 'cu', '-arch=native', '-cubin', '-I', ROOT / 'src', '-o', out, ROOT / 'tests/gpu/kernels.c')
    return out if not done.returncode else None


def programs(c, kernels):
    for name, wants_kernels in PROGRAMS:
        if wants_kernels and not kernels:
            c.row(3, f'test-{name}', 'skipped: no nvcc')
            continue
        arguments = [kernels] if wants_kernels else ['2000'] if name == 'gpu-verbs' else []
        arguments += ORDER if name == 'gpu-order' else [REGISTRATIONS] if name == 'gpu-pinned' else []
        try:
            done = c.run(c.build / 'tests' / PATHS.get(name, f'{name.split("-")[0]}/test-{name}'), *arguments, seconds=200)
        except subprocess.TimeoutExpired:
            c.row(3, f'test-{name}', 'has not ended', held=False)
            continue
        passed = len(re.findall(r'^\[ +OK \] \w+$', done.stdout, re.M))
        failed, skipped = (sorted(set(re.findall(rf'^\[  {word} +\] (\w+)$', done.stdout, re.M)))
                           for word in ('FAILED', 'SKIPPED'))
        c.row(3, f'test-{name}, unchanged', f'{passed} passed, {len(failed)} failed, {len(skipped)} skipped',
              ' '.join(failed), 'none fails', done.returncode == 0)
        beside = re.search(r'^\d+ registrations, \d+ moved, beside .* copies$', done.stdout, re.M)
        if beside:
            c.row(7, 'registrations beside copies of other threads', beside[0], '', 'no byte differs', done.returncode == 0)


def facts(c, kernels):
    """The facts that the stand-in was made to give, asked of the driver."""
    if not kernels:
        c.row(3, 'facts of the driver', 'skipped: no nvcc')
        return
    done = c.run(c.build / 'tests/gpu/facts', kernels)
    read = lambda text: {line.split('\t')[0]: line.split('\t')[1:] for line in text.splitlines() if '\t' in line}
    wanted, now = read((ROOT / 'tests/gpu/facts.tsv').read_text()), read(done.stdout)
    asked = {fact for fact in wanted if not fact.startswith('#') and (c.gpus > 1 or not fact.startswith('pairs.'))}
    other = sorted(fact for fact in asked if now.get(fact) != wanted[fact])
    c.row(3, 'answers as in facts.tsv', f'{len(asked) - len(other)} of {len(asked)}', ', '.join(other[:5]), 'all',
          not other)


def kills(c):
    """Owners of GPU memory are killed; what the devices have in use is as before."""
    before = smi('memory.used')
    with concurrent.futures.ThreadPoolExecutor(KILLS_AT_ONCE) as pool:
        runs = [pool.submit(c.run, c.build / 'tests/gpu/test-gpu-far', 'is_owner_killed') for _ in range(KILLS)]
        good = sum(run.result().returncode == 0 for run in runs)
    after = smi('memory.used')
    c.row(6, f'{KILLS} owners killed', f'{good} well', f'{", ".join(before)} MiB in use before, {", ".join(after)} after',
          'all; as before', good == KILLS and before == after)


# What speed.c prints: operation, from, word, to, bytes, us, post us, GB/s, 1/s | CUDA's us, GB/s | ratio
LINE = re.compile(r'(WRITE|READ) (\w+) (?:to|from) (\w+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+) \| +([\d.]+) +([\d.]+)')


def speed(c):
    done = c.run(c.build / 'tests/gpu/gpu-speed', seconds=300)
    if done.returncode:
        c.row(17, 'gpu-speed', f'ended with {done.returncode}', held=False)
        return
    at = {}
    for op, one, two, size, us, post, gbs, rate, bare_us, bare in LINE.findall(done.stdout):
        at[op, one, two, int(size)] = dict(us=float(us), post=float(post), gbs=float(gbs), rate=int(rate),
                                          bare_us=float(bare_us), bare=float(bare))
    other = 'the other GPU' if c.gpus > 1 else "another process's GPU"
    directions = [('WRITE', 'host', 'gpu', f'host to {other}'), ('READ', 'host', 'gpu', f'{other} to host, by READ'),
                  ('WRITE', 'gpu', 'host', 'GPU to host'), ('READ', 'gpu', 'host', 'host to own GPU, by READ')]
    for op, one, two, words in directions:
        for size in (2 * MIB, 16 * MIB):
            f = at.get((op, one, two, size))
            if f:
                c.row(17, f'{words}, {size // MIB} MiB', f'{f["gbs"]:.1f} GB/s', f'{f["bare"]:.1f}', '≥ 0.8 ×',
                      f['gbs'] >= 0.8 * f['bare'])
    f = at['WRITE', 'host', 'gpu', 4096]
    c.row(17, f'host to {other}, 4 KiB', f'{f["us"]:.1f} µs', f'{f["bare_us"]:.1f}', '≤ + 6 µs',
          f['us'] <= f['bare_us'] + 6)
    for kind, words in (('gpu', 'to GPU'), ('host', 'to host')):
        f = at['WRITE', 'gpu', kind, 8]
        c.row(17, f'GPU {words}, 8 B', f'{f["us"]:.1f} µs', f'{f["bare_us"]:.1f}')
    if c.gpus > 1:
        for size in (2 * MIB, 16 * MIB):
            f = at['WRITE', 'gpu', 'gpu', size]
            c.row(17, f'GPU to the other GPU, {size // MIB} MiB', f'{f["gbs"]:.0f} GB/s, {f["us"]:.1f} µs')
    for outstanding, count, rate in re.findall(r'^(\d+) WRITEs of 8 bytes outstanding on (\d+) queue pairs: (\d+) a second', done.stdout, re.M):
        c.row(17, f'WRITEs of 8 B, {outstanding} outstanding, {count} queue pairs', f'{int(rate):,} a second', '', '≥ 200,000',
              int(rate) >= 200000)
    posting = re.search(r'^posting 64 MiB: ([\d.]+)', done.stdout, re.M)
    if posting:
        c.row(10, 'posting 64 MiB, host to GPU', f'{posting[1]} µs', '', '≤ 15 µs', float(posting[1]) <= 15)
    register = re.search(r'^registering 64 MiB: ([\d.]+)', done.stdout, re.M)
    if register:
        c.row(4, 'registering 64 MiB of a GPU', f'{register[1]} µs', '', '≤ 300 µs', float(register[1]) <= 300)


def bench(c):
    """`weft bench --gpu`, whose tables go to the log."""
    out = c.folder / 'bench.json'
    done = c.run(c.build / 'weft', 'bench', '--gpu', '--json', out, seconds=240)
    if done.returncode or not out.exists():
        c.row(16, 'weft bench --gpu', f'ended with {done.returncode}', held=False)
        return
    result = json.loads(out.read_text())
    rows = result['rows']
    c.row(16, 'weft bench --gpu', f'{len(rows)} figures', f'beside {sum("limit" in row for row in rows)} of CUDA or memcpy',
          'on hardware', not result['standin'])
    for one, two in (('host', 'gpu'), ('gpu', 'host'), ('gpu', 'gpu'), ('gpu', 'other gpu')):
        for row in rows:
            if (row['verb'], row['from'], row['to'], row['size']) == ('write', one, two, 16 * MIB):
                c.row(16, f'weft bench --gpu: WRITE, {one} to {two}, 16 MiB', f'{row["mib_s"] / 1024:.1f} GiB/s',
                      f'{row["limit_mib_s"] / 1024:.1f}')


def run_ranks(c, what, *command, **env):
    """None, and a row that says so: it has not ended in time."""
    try:
        return c.run(*command, seconds=NCCL_SECONDS, **env)
    except subprocess.TimeoutExpired as e:
        c.log.append((e.stdout or b'').decode(errors='replace'))
        c.row(14, what, 'has not ended', held=False)
        return None


def results(done):
    """What it has printed as `result NAME VALUE`."""
    return dict(re.findall(r'^result (\S+) ([\d.]+)', done.stdout, re.M))


def nccl(c):
    """The figures that tests/gpu/nccl.py prints: `name value unit`."""
    ways = [('over Weft', {'NCCL_P2P_DISABLE': '1', 'NCCL_SHM_DISABLE': '1'}, True),
            ('staged by NCCL', {'NCCL_P2P_DISABLE': '1', 'NCCL_SHM_DISABLE': '1', 'NCCL_NET_GDR_LEVEL': 'LOC'}, True),
            *((f'over Weft, {proto}', {'NCCL_P2P_DISABLE': '1', 'NCCL_SHM_DISABLE': '1', 'NCCL_PROTO': proto}, True)
              for proto in ('LL', 'LL128', 'Simple')),
            ("NCCL's SHM", {'NCCL_P2P_DISABLE': '1'}, False),
            ('sockets', {'NCCL_P2P_DISABLE': '1', 'NCCL_SHM_DISABLE': '1', 'NCCL_NET': 'Socket'}, False)]
    found = {}

    def run_way(name, env, by_weft, *words):
        command = ([c.build / 'weft', 'run'] if by_weft else []) + ['python3', ROOT / 'tests/gpu/nccl.py', *words]
        return run_ranks(c, f'NCCL {name}', *command, **{**env, 'NCCL_DEBUG': 'INFO', 'WEFT': str(c.build / 'weft')})

    for name, env, by_weft in ways:
        done = run_way(name, env, by_weft, *(['--all'] if name == 'over Weft' else []))
        if not done:
            continue
        found[name] = results(done)
        used = {how for how in ('NET/IB/0/GDRDMA', 'NET/IB', 'NET/Socket', 'SHM') if how in done.stdout}
        wants = {'over Weft': 'NET/IB/0/GDRDMA', 'staged by NCCL': 'NET/IB', "NCCL's SHM": 'SHM', 'sockets': 'NET/Socket'}[name.split(',')[0]]
        c.row(14, f'NCCL {name}', f'{found[name].get("checked", 0)} results right', ' '.join(sorted(used)), wants,
              done.returncode == 0 and wants in used)
    ours, shm = (float(found.get(name, {}).get('allreduce_64MiB', 0)) for name in ('over Weft', "NCCL's SHM"))
    c.row(14, 'all-reduce of 64 MiB', f'{ours:.1f} GB/s', f'SHM {shm:.1f}', '≥ 1.0 ×', ours >= shm > 0)
    small = {name: [float(found.get(name, {}).get('allreduce_8B', 0))] for name in ('over Weft', 'sockets')}
    for name, env, by_weft in (way for _ in range(SMALL_ROUNDS - 1) for way in ways if way[0] in small):
        done = run_way(name, env, by_weft)
        small[name].append(float(results(done).get('allreduce_8B', 0)) if done else 0)
    ours, sockets = (statistics.median(each) for each in small.values())
    c.row(14, f'all-reduce of 8 B, the middle of {SMALL_ROUNDS} by turns', f'{ours:.0f} µs', f'sockets {sockets:.0f}', '≤ 1.0 ×',
          all(all(each) for each in small.values()) and ours <= sockets)
    grown = float(found.get('over Weft', {}).get('counted', 0)) / max(1.0, float(found.get('over Weft', {}).get('moved', 1)))
    c.row(14, "Weft's counters", f'{grown:.2f} of the bytes that a ring moves', '', '≥ 1', grown >= 1)


def ddp(c):
    """PyTorch's training, by Weft and by shared memory of NCCL's; and one rank killed in it."""
    found = {}
    killed = {'NCCL_SHM_DISABLE': '1', 'NCCL_IB_TIMEOUT': '14'}
    for name, words, env in (('over Weft', ['train'], {'NCCL_SHM_DISABLE': '1'}), ("NCCL's SHM", ['train'], {}),
                             ('broadcast', ['kill', 'broadcast'], killed), ('all_reduce', ['kill', 'all_reduce'], killed)):
        command = ([c.build / 'weft', 'run'] if env else []) + ['python3', ROOT / 'tests/gpu/ddp.py', *words]
        done = run_ranks(c, f'DDP with forked loaders, {name}', *command, NCCL_P2P_DISABLE='1', NCCL_DEBUG='INFO',
                         WEFT=str(c.build / 'weft'), **env)
        if not done:
            continue
        found[name] = results(done)
        found[name]['right'] = done.returncode == 0 and (not env or 'NET/IB/0/GDRDMA' in done.stdout)
    ours, shm = found.get('over Weft', {}), found.get("NCCL's SHM", {})
    c.row(14, 'DDP with forked loaders over Weft', f'{ours.get("steps", 0)} steps, digest {ours.get("digest")}',
          f'SHM {shm.get("digest")}', 'the same', bool(ours.get('right') and shm.get('right') and ours.get('digest') == shm.get('digest')))
    for name in ('broadcast', 'all_reduce'):
        told = found.get(name, {})
        c.row(14, f'SIGKILL of a rank amid {name}: the other has reported an error', f'after {told.get("told")} s', 'NCCL_IB_TIMEOUT=14',
              '≤ 5 s', bool(told.get('right')) and float(told.get('told', 99)) <= 5)


def write_table(c, path, mark):
    name = smi('name,driver_version')
    lines = [f'{len(name)} × {name[0].split(",")[0] if name else "?"}, driver {name[0].split(",")[1].strip() if name else "?"}, '
             f'Linux {platform.release()}, {os.cpu_count()} processors, {datetime.date.today()}.', '',
             '| item | what | figure | limit in the same run | bound | held |', '|---|---|---|---|---|---|']
    lines += ['| ' + ' | '.join(row) + ' |' for row in c.rows]
    text = '\n'.join(lines)
    print('\n' + text)
    begin, end = f'<!-- {mark} -->', f'<!-- end of {mark} -->'
    page = path.read_text()
    first, rest = page.split(begin)
    path.write_text(first + begin + '\n' + text + '\n' + end + rest.split(end)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', type=Path, default=ROOT / 'build')
    parser.add_argument('--gpus', type=int, choices=(1, 2), default=1)
    parser.add_argument('--page', type=Path, default=ROOT / 'docs/gpu.md')
    parser.add_argument('--log', type=Path, help='what the programs have printed')
    parser.add_argument('only', nargs='*', help='programs, facts, kills, speed, bench, nccl, ddp')
    args = parser.parse_args()
    if len(smi('name')) < args.gpus:
        sys.exit(f'gpus.py: nvidia-smi names {len(smi("name"))} GPUs, and {args.gpus} are asked for')
    with tempfile.TemporaryDirectory() as folder:
        c = Check(args.build.resolve(), args.gpus, Path(folder))
        kernels = make_kernels(c)
        wanted = lambda name: not args.only or name in args.only
        if wanted('programs'):
            programs(c, kernels)
        if wanted('facts'):
            facts(c, kernels)
        if wanted('speed'):
            speed(c)
        if wanted('bench'):
            bench(c)
        if wanted('kills'):
            kills(c)
        if wanted('nccl') and args.gpus > 1:
            nccl(c)
        if wanted('ddp') and args.gpus > 1:
            ddp(c)
        if args.log:
            args.log.write_text(''.join(c.log))
        write_table(c, args.page, f'gpus: {c.gpus}')
        return 1 if c.failed() else 0


if __name__ == '__main__':
    sys.exit(main())
