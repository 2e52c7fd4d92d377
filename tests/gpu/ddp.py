#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""PyTorch on two GPUs, a process each. `train`: DistributedDataParallel, whose data forked processes load; it prints a digest of what was
learned, the same by each network that NCCL may take. `kill COLLECTIVE` ends one rank by SIGKILL amid collectives of that kind, and prints
after how many seconds the other has reported an error. For tools/gpus.py."""
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

from nccl import start_ranks

STEPS, KILLED_AFTER_S, PATIENCE_S = 60, 3, 30


def parent():
    ranks = start_ranks(__file__, sys.argv[1:], stderr=None if sys.argv[1] == 'train' else subprocess.PIPE,
                        CUBLAS_WORKSPACE_CONFIG=':4096:8')
    if sys.argv[1] == 'train':
        return max(rank.wait() for rank in ranks)
    killed = ranks[1].wait()
    begun = time.monotonic()
    patience = threading.Timer(PATIENCE_S, ranks[0].kill)
    patience.start()
    # PyTorch collects traces for a minute behind that line
    for line in ranks[0].stderr:
        sys.stderr.write(line)
        if 'NCCL error' in line:
            print(f'result told {time.monotonic() - begun:.2f}', flush=True)
            patience.cancel()
            ranks[0].kill()
            return 0 if killed == -signal.SIGKILL else 1
    return 1


def exchange_until_killed(torch, dist, rank):
    """The survivor waits for what the dead rank is to send, or for its grants, mostly with no request under way that could fail."""
    x = torch.zeros(64 << 20, device='cuda')
    exchange = {'broadcast': lambda: dist.broadcast(x, 0), 'all_reduce': lambda: dist.all_reduce(x)}[sys.argv[2]]
    if rank:
        threading.Timer(KILLED_AFTER_S, os.kill, (os.getpid(), signal.SIGKILL)).start()
    while True:
        exchange()
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
    (train if sys.argv[1] == 'train' else exchange_until_killed)(torch, dist, rank)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == '__main__':
    sys.exit(main() if 'RANK' in os.environ else parent())
