#!/usr/bin/env python3
"""Data-parallel training with Lightning on backend rail: as every rank of a job, or under torchrun.

Each rank is one of Lightning's nodes, with one process.
"""

import os

import lightning
import railyard.torch  # noqa: F401  (not needed where the wheel is installed)
import torch
import torch.distributed as dist
from lightning.pytorch.plugins.environments import LightningEnvironment
from lightning.pytorch.strategies import DDPStrategy


class Network(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))

    def training_step(self, batch, _):
        samples, targets = batch
        loss = torch.nn.functional.mse_loss(self.layers(samples), targets)
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    lightning.seed_everything(1)
    # The job's numbers are Lightning's: each rank is a node with one process.
    os.environ["NODE_RANK"] = os.environ["RANK"]
    inputs = torch.randn(256, 16)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        num_nodes=int(os.environ["WORLD_SIZE"]),
        strategy=DDPStrategy(process_group_backend="rail", cluster_environment=LightningEnvironment()),
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Network(), torch.utils.data.DataLoader(data, batch_size=8))
    if trainer.is_global_zero:
        loss = trainer.callback_metrics["loss"].item()
        print(f"lightning: {trainer.world_size} ranks on {dist.get_backend()}, loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
