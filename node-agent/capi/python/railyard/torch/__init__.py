"""PyTorch on all rails: `torch.distributed.init_process_group("rail")`, for tensors on the CPU.

    import torch.distributed as dist
    import railyard.torch

    dist.init_process_group("rail")

With the wheel installed the import is not needed: `import torch` finds the backend by its entry point. Everything that
builds on process groups (DistributedDataParallel, FSDP, object collectives) works as with any other backend.

Results of reductions depend on the tensors and the ranks alone, to the bit: not on rails, faults or timing.
"""

from .backend import RailBackend, calls, register

register()


def communicator():
    """This process's `railyard.Communicator`, for calls beside those of PyTorch: a process has one, so do not make another.
    Its collectives count with those of the process groups: all ranks must call both in the same order."""
    return calls().communicator


__all__ = ["RailBackend", "communicator", "register"]
