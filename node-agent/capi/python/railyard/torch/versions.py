"""What PyTorch has, of versions 1.13 and later: each thing that some of them lack is asked for once, here, by its name."""

import inspect

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

#: The class of works; it had another name in `torch.distributed` before 2.0.
Work = c10d.Work

#: Whether PyTorch's process group asks a backend in Python for operations, under the names that it has since then. Before, a backend in Python
#: has to be the process group.
HAS_BACKENDS = hasattr(c10d.ProcessGroup, "all_gather_single")

#: Whether a backend says which devices it serves (from 2.0 on).
HAS_DEVICES = "devices" in inspect.signature(dist.Backend.register_backend).parameters

#: Whether sparse tensors are checked on demand (from 2.0 on).
_CHECKS_SPARSE = hasattr(torch.sparse, "check_sparse_tensor_invariants")


def work_of(future):
    """PyTorch's own work that is over when `future` is; it needs nothing in Python to be alive."""
    return c10d._create_work_from_future(future)


def recorded(name, tensors):
    """What has profilers know of an event: with the shapes of its tensors, where this version can say them."""
    fast = getattr(torch._C._profiler, "_RecordFunctionFast", None)
    if fast is None:
        return torch.autograd.profiler.record_function(name)
    try:
        return fast(name, tensors)
    except TypeError:
        # The first versions that have it take a name alone.
        return fast(name)


def sparse(indices, values, shape):
    """A sparse tensor of what is known to be one, without a check of each index."""
    named = {"check_invariants": False} if _CHECKS_SPARSE else {}
    return torch.sparse_coo_tensor(indices, values, shape, **named)
