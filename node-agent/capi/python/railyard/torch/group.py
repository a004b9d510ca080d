"""The process group of a backend that serves it alone."""

import torch
from torch._C._distributed_c10d import ProcessGroup


class RailGroup(ProcessGroup):
    """A process group that hands out the backend's own works.

    PyTorch wraps works of backends in Python in one of its own, which never says that it is completed and knows no source. So each
    operation goes its usual way (dispatcher, hooks, profiler), and what comes back is the work that the backend has made meanwhile.

    The binding knows a call of the overridden method by the name of the calling function: each has to be written out.
    """

    def __init__(self, store, rank, size, backend):
        super().__init__(store, rank, size)
        self._rail = backend
        self._set_default_backend(ProcessGroup.BackendType.CUSTOM)
        self._register_backend(torch.device("cpu"), ProcessGroup.BackendType.CUSTOM, backend)

    def getBackendName(self):
        return self._rail.getBackendName()

    def _begin(self):
        made = self._rail._made
        made.wanted, made.work = True, None

    def _own(self, work):
        """The backend's work, where the operation came so far. Nothing else keeps it, as it keeps tensors."""
        made = self._rail._made
        own, made.work, made.wanted = made.work, None, False
        return work if own is None else own

    def allreduce(self, *arguments, **named):
        self._begin()
        return self._own(super().allreduce(*arguments, **named))

    def allreduce_coalesced(self, *arguments, **named):
        self._begin()
        return self._own(super().allreduce_coalesced(*arguments, **named))

    def reduce(self, *arguments, **named):
        self._begin()
        return self._own(super().reduce(*arguments, **named))

    def reduce_scatter(self, *arguments, **named):
        self._begin()
        return self._own(super().reduce_scatter(*arguments, **named))

    def reduce_scatter_single(self, *arguments, **named):
        self._begin()
        return self._own(super().reduce_scatter_single(*arguments, **named))

    def reduce_scatter_single_coalesced(self, *arguments, **named):
        self._begin()
        return self._own(super().reduce_scatter_single_coalesced(*arguments, **named))

    def broadcast(self, *arguments, **named):
        self._begin()
        return self._own(super().broadcast(*arguments, **named))

    def allgather(self, *arguments, **named):
        self._begin()
        return self._own(super().allgather(*arguments, **named))

    def allgather_coalesced(self, *arguments, **named):
        self._begin()
        return self._own(super().allgather_coalesced(*arguments, **named))

    def all_gather_single(self, *arguments, **named):
        self._begin()
        return self._own(super().all_gather_single(*arguments, **named))

    def all_gather_single_coalesced(self, *arguments, **named):
        self._begin()
        return self._own(super().all_gather_single_coalesced(*arguments, **named))

    def gather(self, *arguments, **named):
        self._begin()
        return self._own(super().gather(*arguments, **named))

    def gather_single(self, output, input, opts=None):
        """PyTorch asks no backend in Python for it: it is a gather to the rows of one tensor."""
        root = opts is not None and opts.rootRank == self.rank()
        rows = [list(output.view(self.size(), *input.shape).unbind())] if root else []
        return self._rail.gather(rows, [input], opts)

    def scatter(self, *arguments, **named):
        self._begin()
        return self._own(super().scatter(*arguments, **named))

    def all_to_all_single(self, *arguments, **named):
        self._begin()
        return self._own(super().all_to_all_single(*arguments, **named))

    def alltoall(self, *arguments, **named):
        self._begin()
        return self._own(super().alltoall(*arguments, **named))

    def send(self, *arguments, **named):
        self._begin()
        return self._own(super().send(*arguments, **named))

    def recv(self, *arguments, **named):
        self._begin()
        return self._own(super().recv(*arguments, **named))

    def recv_anysource(self, *arguments, **named):
        self._begin()
        return self._own(super().recv_anysource(*arguments, **named))

    def barrier(self, *arguments, **named):
        self._begin()
        return self._own(super().barrier(*arguments, **named))
