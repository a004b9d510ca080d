#!/usr/bin/env python3
"""Data-parallel training with Hugging Face Accelerate on backend rail: as every rank of a job, or under torchrun."""

import railyard.torch  # noqa: F401  (not needed where the wheel is installed)
import torch
import torch.distributed as dist
from accelerate import Accelerator


def main():
    torch.manual_seed(1)
    # Accelerate takes a process group that is there; for tensors on the CPU it would make one of a backend that it knows by name.
    dist.init_process_group("rail")
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    inputs = torch.randn(256, 16)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())
    loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="fork")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(2):
        for samples, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(samples), targets)
            accelerator.backward(loss)
            optimizer.step()
    mean = accelerator.gather(loss.detach().reshape(1)).mean().item()
    accelerator.print(f"accelerate: {accelerator.num_processes} ranks on {dist.get_backend()}, loss {mean:.4f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
