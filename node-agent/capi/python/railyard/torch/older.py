"""Process groups of versions that ask no backend in Python for anything: the group is PyTorch's, and all of its operations are ours."""

import sys

import torch
from torch._C import _distributed_c10d as c10d
from torch._C._distributed_c10d import ProcessGroup
from torch.distributed import ReduceOp

from . import versions

#: The module whose functions are what programs call.
_ASKS = "torch.distributed.distributed_c10d"

#: What the group is asked for; the binding looks for these names, as programs do.
_OPERATIONS = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
    "broadcast",
    "allgather",
    "allgather_coalesced",
    "_allgather_base",
    "allgather_into_tensor_coalesced",
    "gather",
    "scatter",
    "alltoall_base",
    "alltoall",
    "send",
    "recv",
    "recv_anysource",
    "barrier",
)


class OlderGroup:
    """What such a group has beside the operations of `Rail` and PyTorch's own class, which it comes before.

    What PyTorch's C++ side is handed must not depend on an object in Python that nobody holds: it gets a work of PyTorch's own, made of the
    future of ours. Functions of `torch.distributed` get ours, which knows more.
    """

    def _begin_group(self, store, rank, size):
        try:
            ProcessGroup.__init__(self, rank, size)
        except TypeError:
            ProcessGroup.__init__(self, store, rank, size)
        self._place = rank, size
        self._named = self._described = ""

    def rank(self):
        return self._place[0]

    def size(self):
        return self._place[1]

    # Names under which the C++ side asks for these.

    getRank, getSize = rank, size

    def name(self):
        return self.getBackendName()

    def _set_default_timeout(self, timeout):
        self.set_timeout(timeout)

    def getGroupName(self):
        return self._named

    def setGroupName(self, name):
        self._named = name

    def getGroupDesc(self):
        return self._described

    def setGroupDesc(self, text):
        self._described = text

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name, group_desc = property(getGroupName), property(getGroupDesc)

    @property
    def _device_types(self):
        return [torch.device("cpu")]

    def _get_backend(self, device):
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"backend rail: it serves the CPU alone, not {device}")
        return self

    def _get_backend_name(self):
        return self.getBackendName()


def _options(kind, **values):
    options = kind()
    for name, value in values.items():
        setattr(options, name, value)
    return options


def _listed(tensors):
    return [tensors] if torch.is_tensor(tensors) else tensors


#: The short forms of operations, which the binding has beside those with lists and options, in terms of these.
_SHORT = {
    "broadcast": lambda tensor, root: ([tensor], _options(c10d.BroadcastOptions, rootRank=root)),
    "allreduce": lambda tensors, op=ReduceOp.SUM: (_listed(tensors), _options(c10d.AllreduceOptions, reduceOp=op)),
    "reduce": lambda tensor, root, op=ReduceOp.SUM: ([tensor], _options(c10d.ReduceOptions, rootRank=root, reduceOp=op)),
    "allgather": lambda outputs, tensor: ([outputs], [tensor]),
    "gather": lambda outputs, tensor, root: ([outputs], [tensor], _options(c10d.GatherOptions, rootRank=root)),
    "scatter": lambda tensor, inputs, root: ([tensor], [inputs], _options(c10d.ScatterOptions, rootRank=root)),
    "reduce_scatter": lambda tensor, inputs, op=ReduceOp.SUM: (
        [tensor],
        [inputs],
        _options(c10d.ReduceScatterOptions, reduceOp=op),
    ),
}


def _is_short(arguments, named):
    kinds = (torch.Tensor, ReduceOp, type(ReduceOp.SUM))
    return "op" in named or "root" in named or any(isinstance(each, kinds) for each in arguments[:2])


def _asked_by_torch():
    """Whether a function of `torch.distributed` asks the caller of this."""
    try:
        return sys._getframe(2).f_globals.get("__name__") == _ASKS
    except ValueError:
        # A thread of C++ asks, with nothing of Python below.
        return False


def _shared(name):
    short = _SHORT.get(name)

    def call(self, *arguments, **named):
        if short is not None and _is_short(arguments, named):
            arguments, named = short(*arguments, **named), {}
        work = getattr(super(OlderGroup, self), name)(*arguments, **named)
        if _asked_by_torch():
            return work
        return versions.work_of(work.get_future())

    call.__name__ = name
    return call


for _name in _OPERATIONS:
    setattr(OlderGroup, _name, _shared(_name))
