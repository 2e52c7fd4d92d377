#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Measures on hardware what streams into memory of GPUs are bound to: `make check-stream-gpu`, on a machine with a GPU, in less than
nine minutes. It needs a build folder, which may come from elsewhere, the driver, and nvcc for the tests' kernels.
Prints a table last, and writes it to docs/stream.md between markers. Exits 0, or 1 if a bound is missed or a test fails. With
--soft it runs on the stand-in: that shows that it runs; no bound of speed is asked then."""
import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpus
from gpus import ROOT

MARK = 'streams on a GPU'
ONE_BY_ONE, SEGMENTS = 'one by one', 'segments of 44'
SOURCES, EVENTS_S = 4, 10_000_000
SENDER_SOCKET = 16 << 20


class Check(gpus.Check):
    def bound(self, item, what, sender, figure, limit, bound, held):
        """A bound of speed, which is not asked on the stand-in."""
        self.row(item, f'{what}; {sender}', figure, limit, bound, None if self.soft else held)

    def program(self, *command, seconds):
        try:
            return self.run(*command, seconds=seconds)
        except subprocess.TimeoutExpired as e:
            self.log.append((e.stdout or b'').decode(errors='replace'))
            return None


def make_kernel(c, name, source, *words):
    """One of Weft's kernels, where the build had no nvcc; None: here is none either."""
    nvcc = shutil.which('nvcc') or shutil.which('/usr/local/cuda/bin/nvcc')
    out = c.folder / name
    done = nvcc and c.run(nvcc, '-x', 'cu', '-arch=compute_75', '-ptx', *words, '-I', ROOT / 'src', '-o', out, ROOT / 'src' / source)
    return out if done and not done.returncode else None


def name_kernels(c):
    """Tells the programs where the kernels are. Whether that which stays, and the trigger's, are there."""
    found = []
    for name, variable, source, words in (('pull', 'WEFT_PULL_KERNEL', 'cuda/pull_kernel.c', ()),
                                          ('judge', 'WEFT_JUDGE_KERNEL', 'stream/rich/judge_kernel.c', ('-fmad=false',))):
        kernel = c.build / (f'tests/nanet/{name}.so' if c.soft else f'weft-{name}.ptx')
        if not kernel.exists():
            kernel = make_kernel(c, f'weft-{name}.ptx', source, *words)
        if kernel:
            os.environ[variable] = str(kernel)
        found.append(bool(kernel))
    return found


# ---- Tests ----

def tests(c, kernels):
    runs = [([], 'test-nanet-gpu'), (['faulted'], "test-nanet-gpu, a kernel's fault"),
            (['bytes_packed', c.datagrams], f'test-nanet-gpu, {c.datagrams:,} datagrams, copy engine'),
            (['pulled_packed', c.datagrams], f'test-nanet-gpu, {c.datagrams:,} datagrams, pull kernel')]
    for words, name in runs:
        if not kernels:
            c.row(11, name, 'skipped: no nvcc')
            continue
        done = c.program(c.build / 'tests/nanet/test-nanet-gpu', kernels, *words, seconds=120)
        count = {word: len(re.findall(rf'^\[ +{word} +\] \w+$', done.stdout, re.M)) if done else 0 for word in ('OK', 'SKIPPED')}
        failed = sorted(set(re.findall(r'^\[ +FAILED +\] (\w+)$', done.stdout, re.M))) if done else ['has not ended']
        c.row(11, name, f'{count["OK"]} passed, {len(failed)} failed, {count["SKIPPED"]} skipped', ' '.join(failed), 'none fails',
              bool(done) and done.returncode == 0 and count['OK'] > 0)


def judge(c, there):
    """On a million events the kernel decides as the CPU does; of the algorithms that take the CPU long, on fewer."""
    if not there:
        c.row(17, 'decisions on the GPU and here', 'skipped: it was not compiled')
        return
    for name, events in (('odd', 0), ('wrong', 0), ('crawford', c.datagrams), ('dropped', c.datagrams // 4), ('taubin', c.datagrams),
                         ('almagest', c.datagrams // 10), ('histogram', c.datagrams // 10)):
        done = c.program(c.build / 'tests/nanet/test-nanet-judge', events, name, seconds=120)
        found = re.search(r'^(.*): (\d+) events, (\d+) differ, ([\d.]+) ns an event there$', done.stdout, re.M) if done else None
        well = bool(done) and done.returncode == 0
        if found:
            c.row(17, f'decisions on the GPU and here: {found[1]}', f'{int(found[3])} of {int(found[2]):,} differ',
                  f'{float(found[4]):.1f} ns an event there, buffers of 1,024', '≤ 10', well)
        else:
            c.row(17, f'decisions on the GPU and here: {"odd events" if name == "odd" else "buffers that are none"}',
                  'alike' if well else 'not alike', '', 'alike', well)


# ---- Flows and latencies ----

def figures(c, part, seconds):
    """What nanet-gpu-speed has printed: {name: value}."""
    done = c.program(c.build / 'tests/nanet/nanet-gpu-speed', c.seconds, part, seconds=seconds)
    if not done or done.returncode:
        c.row(12, f'nanet-gpu-speed {part}', f'ended with {done.returncode}' if done else 'has not ended', held=False)
        return {}
    return {name: float(value) for name, value in re.findall(r'^result (\S+) (\S+)$', done.stdout, re.M)}


WAYS = [('engine', 'copy engine'), ('pull', 'pull kernel')]


def flows(c):
    f = figures(c, 'segments', 120)
    for way, words in WAYS:
        if f'segments.{way}' not in f:
            continue
        gpu, host = f[f'segments.{way}'], f['segments.host']
        c.bound(12, f'one flow into GPU memory, {words}', SEGMENTS, f'{gpu:.2f} GB/s', f'into host memory {host:.2f}', '≥ 0.85 ×',
                gpu >= 0.85 * host)
        c.bound(12, f'the same, {words}', SEGMENTS, f'{gpu:.2f} GB/s', '', '≥ 5 GB/s', gpu >= 5)
    f = figures(c, 'singles', 120)
    for way, words in [('host', 'host memory'), *WAYS]:
        if f'singles.{way}' in f:
            here, bare = f[f'singles.{way}'], f['singles.bare']
            c.bound(12, f'one flow into GPU memory, {words}' if way != 'host' else 'one flow into host memory', ONE_BY_ONE,
                    f'{here * 1e6 / 1472:.0f} thousand a second, {here:.2f} GB/s', f'a bare loop {bare:.2f}', '≥ 0.95 ×',
                    here >= 0.95 * bare)


def pull_alone(c):
    f = figures(c, 'pull', 60)
    if 'pull.alone' in f:
        c.bound(12, 'pull kernel alone', 'buffers of 259,072 bytes in registered memory', f'{f["pull.alone"]:.1f} GB/s', '', '≥ 40 GB/s',
                f['pull.alone'] >= 40)
    else:
        c.row(12, 'pull kernel alone', 'skipped: it was not compiled')


def one_packet(c):
    f = figures(c, 'one', 60)
    if not f:
        return
    c.row(12, 'one packet, send → in host memory, known to the CPU; one at a time',
          f'{f["one.host.p50"]:.1f} µs, p99 {f["one.host.p99"]:.1f}')
    for way, words in WAYS:
        if f'one.{way}.p50' in f:
            p50, p99 = f[f'one.{way}.p50'], f[f'one.{way}.p99']
            c.bound(12, f'one packet, send → in GPU memory, known to the CPU, {words}', 'one at a time',
                    f'{p50:.1f} µs, p99 {p99:.1f}', f'into host memory {f["one.host.p50"]:.1f}, {f["one.host.p99"]:.1f}',
                    '≤ 7 µs, p99 ≤ 12', p50 <= 7 and p99 <= 12)


def latency(c):
    f = figures(c, 'latency', 240)
    for load, what in ('slow', '10⁴ datagrams/s'), ('fast', '0.8 of the full rate'):
        for way, words in WAYS:
            name = f'{load}.{way}'
            if f'{name}.p50' not in f:
                continue
            at = {q: f[f'{name}.{q}'] for q in ('p50', 'p90', 'p99', 'p99.9', 'max', 'gaps', 'rate', 'count', 'lost')}
            c.bound(13, f'UDP → GPU, {what} ({at["rate"]:,.0f}/s), {words}', ONE_BY_ONE,
                    f'p99.9 {at["p99.9"]:.1f} µs; p50 {at["p50"]:.1f}, p90 {at["p90"]:.1f}, p99 {at["p99"]:.1f}, max {at["max"]:.0f}; '
                    f'{at["count"]:,.0f} datagrams, {at["lost"]:.0f} lost',
                    f'gaps\' p99.9 {at["gaps"]:.1f}', "≤ gaps' + 20 µs", at['p99.9'] <= at['gaps'] + 20)


# ---- The chain ----

def free_ports(count):
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for one in sockets:
        one.bind(('127.0.0.1', 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


GENERATORS = 2  # processors of each generator: one sends, one takes primitives
PROCESSORS = sorted(os.sched_getaffinity(0))
FITTING = max(2, len(PROCESSORS) // SOURCES - GENERATORS - 3)  # two processors of each source's are the system's
# Beside a receiving thread the trigger has as many threads for each source.
CHAINS = {'cpu': (f'on the CPU, {FITTING} threads fit each source', ('--threads', FITTING), FITTING),
          'pull': ('on the GPU, pull kernel', ('--gpu', 0, '--pull'), 1),
          'engine': ('on the GPU, copy engine', ('--gpu', 0), 1)}


def chain(c, way, gather, seconds):
    """From the generators' sources through a trigger, which has a receiving thread for each, and back."""
    where, words, threads = CHAINS[way]
    apart = SOURCES * (GENERATORS + 1 + threads) <= len(PROCESSORS)
    weft = c.build / 'weft'
    rate = (EVENTS_S if not c.soft else EVENTS_S / 1000) / SOURCES
    started, ports = [], free_ports(2 * SOURCES)

    def start(processors, *words):
        os.sched_setaffinity(0, processors if apart else PROCESSORS)
        process = subprocess.Popen([str(word) for word in (weft, 'stream', *words, '--json')], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        os.sched_setaffinity(0, PROCESSORS)
        started.append(process)
        return process

    def report(process, what):
        out, err = process.communicate(timeout=60)
        c.log.append(f'{what}\n{out}{err}\n')
        return json.loads(out)

    try:
        places = [word for i in range(SOURCES) for word in ('--from', f'udp:127.0.0.1:{ports[i]}',
                                                            '--to', f'udp:127.0.0.1:{ports[SOURCES + i]}')]
        trigger = start(PROCESSORS[SOURCES * GENERATORS:], 'trigger', *places, *words, '--algorithm', 'crawford', '--gather', gather,
                        '--socket', SENDER_SOCKET, '--spin', 0 if c.soft else 1000)
        time.sleep(1 if way == 'cpu' else 2 if c.soft else 10)  # the driver compiles the kernels for its GPU
        generators = [start(PROCESSORS[i * GENERATORS:(i + 1) * GENERATORS], 'generate', '--to', f'udp:127.0.0.1:{ports[i]}', '--rate', rate,
                            '--seconds', seconds, '--stamp', '--seed', i + 1, '--back', f'127.0.0.1:{ports[SOURCES + i]}')
                      for i in range(SOURCES)]
        sent = [generator.communicate(timeout=seconds + 120)[0] for generator in generators]
        time.sleep(0.5)
        trigger.send_signal(2)
        sent, got = [json.loads(text) for text in sent], report(trigger, f'trigger {where}, {gather}')
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as e:
        c.row(19, f'the chain {where}, buffers of {gather} events', f'{type(e).__name__}', held=False)
        return
    finally:
        for process in started:
            process.kill()
            process.wait()
    c.log += [json.dumps(one) for one in sent]
    datagrams = sum(one['sent']['datagrams'] for one in sent)
    lost = datagrams - got['account']['placed']
    events = sum(one['generate']['events'] for one in sent)
    took_s = max(one['sent']['took_ns'] for one in sent) / 1e9
    worst = {q: max(one['back_ns'][q] for one in sent) / 1e3 for q in ('p50', 'p99', 'p99_9', 'max')}
    c.bound(19, f'the chain {where}, {SOURCES} sources, buffers of {gather} events', ONE_BY_ONE,
            f'{lost:,} of {datagrams:,} datagrams lost; {events / took_s / 1e6:.2f} MEvents/s for {took_s:.0f} s; p99.9 '
            f'{worst["p99_9"]:.0f} µs, p50 {worst["p50"]:.0f}, p99 {worst["p99"]:.0f}, max {worst["max"]:.0f}',
            f'the sender was late by {max(one["late_ns"]["p99_9"] for one in sent) / 1e3:.0f} µs (p99.9)',
            '10 MEvents/s, none lost, p99.9 < 1,000 µs',
            not lost and events / took_s >= 0.99 * EVENTS_S and worst['p99_9'] < 1000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', type=Path, default=ROOT / 'build')
    parser.add_argument('--page', type=Path, default=ROOT / 'docs/stream.md')
    parser.add_argument('--log', type=Path, help='what the programs have printed')
    parser.add_argument('--soft', action='store_true', help='on the stand-in, and short')
    parser.add_argument('only', nargs='*', help='tests, judge, flows, pull, one, latency, chain')
    args = parser.parse_args()
    if not args.soft and not gpus.smi('name'):
        sys.exit('stream_gpus.py: nvidia-smi names no GPU; --soft runs on the stand-in')
    with tempfile.TemporaryDirectory() as folder:
        c = Check(args.build.resolve(), 1, Path(folder))
        c.soft, c.seconds, c.datagrams = args.soft, 0.1 if args.soft else 3, 2000 if args.soft else 1_000_000
        if args.soft:
            os.environ.update(LD_LIBRARY_PATH=str(c.build / 'tests/softgpu'), WEFT_PULL_WARPS='2', WEFT_JUDGE_WARPS='2')
        pulls, judges = name_kernels(c)
        kernels = c.build / 'tests/gpu/kernels.so' if args.soft else gpus.make_kernels(c)
        wanted = lambda name: not args.only or name in args.only
        if wanted('tests'):
            tests(c, kernels)
        if wanted('judge'):
            judge(c, judges)
        if wanted('flows'):
            flows(c)
        if wanted('pull'):
            pull_alone(c)
        if wanted('one'):
            one_packet(c)
        if wanted('latency'):
            latency(c)
        if wanted('chain'):
            for way in CHAINS:
                if way != 'cpu' and not (judges and pulls):
                    c.row(19, f'the chain {CHAINS[way][0]}', 'skipped: its kernels were not compiled')
                    continue
                for gather, seconds in ((128, 1),) if args.soft else ((512, 10),) if way == 'engine' else ((128, 10), (512, 60), (1024, 10)):
                    chain(c, way, gather, seconds)
        if args.log:
            args.log.write_text(''.join(c.log))
        gpus.write_table(c, args.page, MARK)
        return 1 if c.failed() else 0


if __name__ == '__main__':
    sys.exit(main())
