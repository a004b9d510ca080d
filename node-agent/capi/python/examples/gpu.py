"""Two ranks on two servers with a GPU each: rank 0 sends its GPU's memory to rank 1 and back, which finds every bit as it was.

Run it as a job of two servers with PyTorch; it says which way the bytes took and how fast they were. What it proves on real hardware,
and how to look at it meanwhile, is in docs/gpu-memory.md of the repository.
"""

import argparse
import time

import torch

import railyard

options = argparse.ArgumentParser()
options.add_argument("--bytes", type=int, default=256 << 20)
options.add_argument("--rounds", type=int, default=20)
options = options.parse_args()

with railyard.Communicator() as ranks:
    torch.cuda.set_device(ranks.local_rank)
    count = options.bytes // 4
    sent = torch.arange(count, dtype=torch.int32, device="cuda") * 7 + 1
    got = torch.zeros_like(sent)
    torch.cuda.synchronize()
    with ranks.register(sent) as memory, ranks.register(got):
        print(f"rank {ranks.rank}: {memory.way}")
        start = time.monotonic()
        for _ in range(options.rounds):
            if ranks.rank == 0:
                ranks.send(sent, 1)
                way = ranks.last_way()
                ranks.recv(got, 1)
            elif ranks.rank == 1:
                ranks.recv(got, 0)
                ranks.send(got, 0)
                way = ranks.last_way()
        seconds = time.monotonic() - start
        if ranks.rank < 2:
            assert torch.equal(sent, got), f"rank {ranks.rank}: wrong bits"
            rate = 2 * options.rounds * options.bytes * 8 / seconds / 1e9
            print(f"rank {ranks.rank}: {rate:.2f} Gbit/s there and back, every bit right; {way}")
        ranks.barrier()
