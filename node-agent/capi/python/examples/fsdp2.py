#!/usr/bin/env python3
"""Fully sharded training of a small network on made-up data (FSDP2), with a checkpoint of torch.distributed.checkpoint in the middle.

    python3 fsdp2.py --checkpoint DIR        as every rank of a job, or under torchrun; DIR is a folder that all ranks see

Trains, saves, trains on; then reads the checkpoint back and trains the same steps again: rank 0 says whether each loss is the
same to the bit.
"""

import argparse
import os
import sys

import railyard.torch  # noqa: F401  (not needed where the wheel is installed)
import torch
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)
    )


def sharded(mesh):
    model = network()
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def steps(model, optimizer, first, count):
    losses = []
    for step in range(first, first + count):
        generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
        inputs = torch.randn(8, 64, generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True).sin())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def state(model, optimizer):
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True, help="a folder that all ranks see")
    options = parser.parse_args()
    dist.init_process_group("rail")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model, optimizer = sharded(mesh)
    steps(model, optimizer, 0, 3)
    checkpoint.save(state(model, optimizer), checkpoint_id=options.checkpoint)
    wanted = steps(model, optimizer, 3, 3)

    model, optimizer = sharded(mesh)
    steps(model, optimizer, 50, 1)  # An optimizer has moments once it has made a step.
    kept = state(model, optimizer)
    checkpoint.load(kept, checkpoint_id=options.checkpoint)
    set_state_dict(model, optimizer, model_state_dict=kept["model"], optim_state_dict=kept["optimizer"])
    equal = [None] * dist.get_world_size()
    dist.all_gather_object(equal, steps(model, optimizer, 3, 3) == wanted)
    if dist.get_rank() == 0:
        print(f"fsdp2: {dist.get_world_size()} ranks, losses {wanted}, the same after a checkpoint: {all(equal)}", flush=True)
    dist.destroy_process_group()
    return 0 if all(equal) else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
