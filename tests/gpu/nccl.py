#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""NCCL as it comes with PyTorch, between two GPUs, a process each: every collective and point to point, results compared, then the
speed of all-reduce. Which network it takes is said by the environment (NCCL_P2P_DISABLE, NCCL_SHM_DISABLE). Prints `result NAME
VALUE`; 0 if all was right. For tools/gpus.py."""
import json
import os
import random
import socket
import subprocess
import sys
import time

RANDOM_SIZES = 300
SEED = int(os.environ.get('SEED', '20'))


def totals():
    """Bytes that Weft has carried, of all kinds."""
    done = subprocess.run([os.environ['WEFT'], 'info', '--json'], capture_output=True, text=True, check=False)
    if done.returncode:
        return 0
    return sum(value for key, value in json.loads(done.stdout)['totals'].items() if key.startswith('bytes_'))


def start_ranks(program, words, stderr=None, **env):
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    return [subprocess.Popen([sys.executable, program, *words], stderr=stderr, text=True,
                             env={**os.environ, **env, 'RANK': str(i), 'WORLD_SIZE': '2', 'MASTER_ADDR': '127.0.0.1',
                                  'MASTER_PORT': str(port)}) for i in (0, 1)]


def parent():
    return max(rank.wait() for rank in start_ranks(__file__, sys.argv[1:]))


def main():
    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel

    rank = int(os.environ['RANK'])
    torch.cuda.set_device(rank)
    dist.init_process_group('nccl', device_id=torch.device('cuda', rank))
    checked = 0

    def values(n, of=rank, salt=0):
        return ((torch.arange(n, device='cuda') * 7 + of * 3 + salt) % 101).float()

    def same(tensor, wanted, what):
        nonlocal checked
        if not torch.equal(tensor, wanted):
            print(f'rank {rank}: {what} of {tensor.numel()} is wrong', flush=True)
            os._exit(1)
        checked += 1

    def all_reduce(n):
        x = values(n)
        dist.all_reduce(x)
        same(x, values(n, 0) + values(n, 1), 'all-reduce')

    def broadcast(n):
        x = values(n)
        dist.broadcast(x, 1)
        same(x, values(n, 1), 'broadcast')

    def reduce(n):
        x = values(n)
        dist.reduce(x, 0)
        if not rank:
            same(x, values(n, 0) + values(n, 1), 'reduce')

    def all_gather(n):
        out = torch.empty(2 * n, device='cuda')
        dist.all_gather_into_tensor(out, values(n))
        same(out, torch.cat([values(n, 0), values(n, 1)]), 'all-gather')

    def reduce_scatter(n):
        out = torch.empty(n, device='cuda')
        dist.reduce_scatter_tensor(out, values(2 * n))
        same(out, (values(2 * n, 0) + values(2 * n, 1))[rank * n:][:n], 'reduce-scatter')

    def all_to_all(n):
        out = torch.empty(2 * n, device='cuda')
        dist.all_to_all_single(out, values(2 * n))
        same(out, torch.cat([values(2 * n, r)[rank * n:][:n] for r in (0, 1)]), 'all-to-all')

    def point_to_point(n):
        x = values(n)
        (dist.send if not rank else dist.recv)(x, 1 - rank)
        same(x, values(n, 0), 'send')

    def gather(n):
        out = [torch.empty(n, device='cuda') for _ in (0, 1)] if not rank else None
        dist.gather(values(n), out)
        if not rank:
            same(torch.cat(out), torch.cat([values(n, 0), values(n, 1)]), 'gather')

    calls = [all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, point_to_point, gather]
    chance = random.Random(SEED)
    for call in calls:
        call(1000)
    if '--all' in sys.argv:
        for _ in range(RANDOM_SIZES):
            chance.choice(calls)(int(2 ** chance.uniform(0, 23)))
    torch.cuda.synchronize()

    before, moved = totals() if not rank else 0, 0
    for name, size in (('8B', 8), ('64KiB', 1 << 16), ('1MiB', 1 << 20), ('64MiB', 64 << 20), ('256MiB', 256 << 20)):
        x = torch.zeros(size // 4, device='cuda')
        rounds = 200 if size < 1 << 20 else 20
        for _ in range(3):
            dist.all_reduce(x)
        torch.cuda.synchronize()
        dist.barrier()
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            for _ in range(rounds // 5):
                dist.all_reduce(x)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begun) / (rounds // 5))
        moved += 2 * size * (rounds + 3)  # of a ring of two, both ranks
        each = sorted(times)[2]
        if not rank:
            print(f'result allreduce_{name} {each * 1e6 if size < 1 << 20 else size / each / 1e9:.2f}', flush=True)
    if not rank:
        print(f'result moved {moved}\nresult counted {totals() - before}\nresult checked {checked}', flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == '__main__':
    sys.exit(main() if 'RANK' in os.environ else parent())
