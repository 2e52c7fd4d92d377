#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""PyTorch on two GPUs, a process each. `train`: DistributedDataParallel, whose data forked processes load; it prints a digest of what was
learned, the same by each network that NCCL may take. `kill` ends one rank by SIGKILL amid what the other sends to it, and prints after
how many seconds that has ended with an error. For tools/gpus.py."""
import hashlib
import os
import signal
import sys
import threading
import time

from nccl import start_ranks

STEPS, KILLED_AFTER_S, PATIENCE_S = 60, 3, 30


def parent():
    # without DUMP_ON_TIMEOUT=0 PyTorch collects traces for a minute before it ends
    ranks = start_ranks(__file__, sys.argv[1:], CUBLAS_WORKSPACE_CONFIG=':4096:8', TORCH_NCCL_DUMP_ON_TIMEOUT='0')
    if sys.argv[1] == 'train':
        return max(rank.wait() for rank in ranks)
    killed = ranks[1].wait()
    begun = time.monotonic()
    try:
        status = ranks[0].wait(PATIENCE_S)
    finally:
        ranks[0].kill()
    print(f'result told {time.monotonic() - begun:.2f}', flush=True)
    return 0 if killed == -signal.SIGKILL and status else 1


def send_until_killed(torch, dist, rank):
    """One that sends has requests under way, which end in error. One that waits for the dead rank's bytes, as in an all-reduce, has none,
    and is told by nobody, as with cards."""
    x = torch.zeros(64 << 20, device='cuda')
    if rank:
        threading.Timer(KILLED_AFTER_S, os.kill, (os.getpid(), signal.SIGKILL)).start()
    while True:
        dist.broadcast(x, 0)
        torch.cuda.synchronize()


def train(torch, dist, rank):
    from torch.nn.parallel import DistributedDataParallel  # pylint: disable=import-outside-toplevel

    class Data(torch.utils.data.Dataset):
        """What a rank learns from: the same in each run."""

        def __len__(self):
            return 64 * STEPS

        def __getitem__(self, i):
            chance = torch.Generator().manual_seed(2 * i + rank)
            x = torch.rand(256, generator=chance)
            return x, x.flip(0)[:64] ** 2

    net = torch.nn.Sequential(torch.nn.Linear(256, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024), torch.nn.ReLU(),
                              torch.nn.Linear(1024, 64)).cuda()
    net = DistributedDataParallel(net, device_ids=[rank])
    learner = torch.optim.SGD(net.parameters(), 0.05)
    loader = torch.utils.data.DataLoader(Data(), 64, num_workers=2, multiprocessing_context='fork', pin_memory=True)
    for step, (x, wanted) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(net(x.cuda(non_blocking=True)), wanted.cuda(non_blocking=True))
        learner.zero_grad()
        loss.backward()
        learner.step()
        torch.cuda.synchronize()
    learned = b''.join(p.detach().cpu().numpy().tobytes() for p in net.parameters())
    print(f'rank {rank}: loss {loss.item():.6f}', flush=True)
    if not rank:
        print(f'result digest {int(hashlib.sha256(learned).hexdigest()[:12], 16)}\nresult steps {step + 1}', flush=True)


def main():
    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel

    rank = int(os.environ['RANK'])
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    torch.cuda.set_device(rank)
    dist.init_process_group('nccl', device_id=torch.device('cuda', rank))
    (train if sys.argv[1] == 'train' else send_until_killed)(torch, dist, rank)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == '__main__':
    sys.exit(main() if 'RANK' in os.environ else parent())
