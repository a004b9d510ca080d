#!/usr/bin/env python3
"""Distributed data-parallel training of a small network on made-up data: only --backend differs between runs.

    RANK=... WORLD_SIZE=... MASTER_ADDR=... MASTER_PORT=... python3 ddp.py --backend rail|gloo

Everything is seeded, so two runs with the same number of ranks differ in nothing but the order in which a backend adds.
Rank 0 prints one line of JSON: the loss of every step as an exact hexadecimal float (the mean over ranks, added in rank
order), a hash of the trained parameters, and where the time went. `communication_s` is the time that rank 0 spent inside
training steps waiting for gradients: the step's time less that of the same step without communication, measured in the
same run; `exchange_s` is what the same buckets take when all-reduced alone, without any computing beside it.
"""

import argparse
import datetime
import hashlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("rail", "gloo"), default="rail")
    parser.add_argument("--steps", type=int, default=20, help="training steps that are measured")
    parser.add_argument("--warmup", type=int, default=3, help="training steps before them")
    parser.add_argument("--width", type=int, default=1024, help="neurons of a hidden layer")
    parser.add_argument("--depth", type=int, default=4, help="hidden layers of width x width")
    parser.add_argument("--batch", type=int, default=8, help="samples of one rank in one step")
    parser.add_argument("--bucket-mb", type=float, default=25, help="DDP's bucket_cap_mb")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="where rank 0 writes its JSON as well")
    parser.add_argument("--step-marks", help="a file to which rank 0 appends the number of each finished step")
    return parser.parse_args()


def network(options):
    torch.manual_seed(options.seed)
    layers = [torch.nn.Linear(64, options.width), torch.nn.Tanh()]
    for _ in range(options.depth):
        layers += [torch.nn.Linear(options.width, options.width), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(options.width, 1))


class Data:
    """Endless batches: a smooth function of random points. Every rank has its own stream."""

    def __init__(self, options):
        self._options = options
        self._generator = torch.Generator().manual_seed(options.seed * 1000 + dist.get_rank())
        self._direction = torch.randn(64, 1, generator=torch.Generator().manual_seed(options.seed))

    def batch(self):
        inputs = torch.randn(self._options.batch, 64, generator=self._generator)
        return inputs, torch.sin(inputs @ self._direction)


def step(model, optimizer, data):
    inputs, targets = data.batch()
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.detach()


def timed(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def mean_of_all(loss):
    """The mean over ranks, added in the order of ranks whatever the backend does."""
    every = [torch.empty_like(loss) for _ in range(dist.get_world_size())]
    dist.all_gather(every, loss)
    return sum(value.double().item() for value in every) / len(every)


def train(options):
    model = DistributedDataParallel(network(options), bucket_cap_mb=options.bucket_mb, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data, losses, times = Data(options), [], []
    for number in range(options.warmup + options.steps):
        seconds, loss = timed(lambda: step(model, optimizer, data))
        losses.append(loss)
        times.append(seconds)
        if options.step_marks and dist.get_rank() == 0:
            with open(options.step_marks, "a", encoding="ascii") as marks:
                marks.write(f"{number}\n")
    return model, [mean_of_all(loss) for loss in losses], times[options.warmup :]


def compute_alone(options):
    """What the same steps take without communication."""
    model = network(options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = Data(options)
    dist.barrier()
    return [timed(lambda: step(model, optimizer, data))[0] for _ in range(options.warmup + options.steps)][options.warmup :]


def exchange_alone(options, elements):
    """What all gradients take in buckets of DDP's size, one after the other begun and all waited for, with nothing else."""
    bucket = max(1, int(options.bucket_mb * 2**20) // 4)
    buckets = [torch.ones(min(bucket, elements - at)) for at in range(0, elements, bucket)]
    times = []
    for _ in range(options.warmup + options.steps):
        dist.barrier()
        times.append(timed(lambda: [work.wait() for work in [dist.all_reduce(b, async_op=True) for b in buckets]])[0])
    return times[options.warmup :]


def median(values):
    return sorted(values)[len(values) // 2]


def main():
    options = arguments()
    torch.set_num_threads(1)
    if options.backend == "rail":
        import railyard.torch  # noqa: F401  (not needed where the wheel is installed)
    begin = time.perf_counter()
    dist.init_process_group(options.backend, timeout=datetime.timedelta(minutes=5))
    started = time.perf_counter() - begin
    model, losses, steps = train(options)
    elements = sum(parameter.numel() for parameter in model.parameters())
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().view(torch.uint8).numpy().tobytes())
    hashes = [None] * dist.get_world_size()
    dist.all_gather_object(hashes, digest.hexdigest())
    compute = compute_alone(options)
    exchange = exchange_alone(options, elements)
    report = {
        "backend": options.backend,
        "ranks": dist.get_world_size(),
        "steps": options.steps,
        "parameters": elements,
        "gradient_bytes": elements * 4,
        "loss": [value.hex() for value in losses],
        "parameters_sha256": hashes[0],
        "replicas_equal": len(set(hashes)) == 1,
        "init_s": round(started, 6),
        "step_s": {"median": round(median(steps), 6), "min": round(min(steps), 6), "max": round(max(steps), 6)},
        "step_total_s": round(sum(steps), 6),
        "compute_s": round(sum(compute), 6),
        "communication_s": round(max(0.0, sum(steps) - sum(compute)), 6),
        "exchange_s": round(sum(exchange), 6),
    }
    if dist.get_rank() == 0:
        print(json.dumps(report), flush=True)
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(report, file)
    dist.barrier()
    dist.destroy_process_group()
    return 0 if report["replicas_equal"] else 1


if __name__ == "__main__":
    # PyTorch's own threads would fight with the engines for the cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
