"""One rank of torch's Gloo in the engine's bench: does what each line of its pipe says, answers with one line of JSON.

The lines are those of `bench-rank --serve`. `split=4` makes four calls of a quarter each, in flight at once: Gloo sends
successive calls over successive interfaces, so this is how a caller uses four rails by hand.
"""

import datetime
import json
import os
import time

import torch
import torch.distributed as dist

LIMIT = datetime.timedelta(seconds=float(os.environ.get("BENCH_GLOO_TIMEOUT", "1800")))


def all_reduce(parts):
    if len(parts) == 1:
        dist.all_reduce(parts[0])
        return
    for work in [dist.all_reduce(part, async_op=True) for part in parts]:
        work.wait()


def perform(bytes, iterations, warmup, verify, split, **_):
    rank, size = dist.get_rank(), dist.get_world_size()
    count = bytes // 4
    values = torch.zeros(count)
    parts = list(values.chunk(split)) if split > 1 and count >= split else [values]
    pattern = (torch.arange(count) % 97 + 1).float() if verify else None
    answer = {"start": [], "end": [], "bad": 0}
    try:
        for _ in range(warmup):
            all_reduce(parts)
        dist.barrier()
        used = time.process_time_ns()
        for i in range(iterations):
            if verify:
                values.copy_(pattern).add_(i % 5).mul_(rank + 1)
            start = time.monotonic_ns()
            all_reduce(parts)
            answer["end"].append(time.monotonic_ns())
            answer["start"].append(start)
            if verify:
                answer["bad"] += int((values != (pattern + i % 5) * (size * (size + 1) // 2)).sum())
        answer["cpu_ns"] = time.process_time_ns() - used
    except RuntimeError as error:
        answer["error"] = str(error)[:300]
    return answer


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=LIMIT)
    folder, rank = os.environ["BENCH_FOLDER"], os.environ["RANK"]
    with open(f"{folder}/in.{rank}") as tasks, open(f"{folder}/out.{rank}", "w", buffering=1) as answers:
        print("ready", file=answers)
        while line := tasks.readline():
            task = dict(word.split("=") for word in line.split())
            print(json.dumps(perform(**{key: int(value) for key, value in task.items()})), file=answers)


main()
