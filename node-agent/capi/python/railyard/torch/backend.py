"""The backend that process groups call."""

import threading

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend

from .. import errors
from ..communicator import Communicator
from .operand import Bytes, Numbers, check, only, raw, store
from .ranks import Calls, Part, Whole
from .work import RailWork

NAME = "rail"

_lock = threading.Lock()
_calls = None


def calls():
    """This process's attachment to its engine, made once: process groups come and go, the rank stays."""
    global _calls
    with _lock:
        if _calls is None or _calls.communicator._handle is None:
            try:
                _calls = Calls(Communicator())
            except errors.RailError as error:
                raise RuntimeError(f"backend rail: {error}") from error
        return _calls


def register():
    """Makes PyTorch know the backend; once is enough, twice is no harm."""
    if dist.is_available() and not hasattr(dist.Backend, NAME.upper()):
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])


def _create(options, _):
    """What init_process_group and new_group call on each member."""
    ranks = list(options.global_ranks_in_group)
    return RailBackend(options.group_rank, options.group_size, ranks, str(options.group_id), options.timeout)


class RailBackend(Backend):
    """A process group over the engine: see `railyard.torch`."""

    def __init__(self, rank, size, members=(), name="", timeout=None):
        super().__init__(rank, size)
        self._calls = calls()
        world = self._calls.communicator
        members = list(members) or list(range(size))
        if members == list(range(world.size)):
            if rank != world.rank:
                raise RuntimeError(
                    f"backend rail: this process is rank {world.rank} of the job, not {rank}: leave the numbers to "
                    f"the environment that the job sets, or pass rank={world.rank}"
                )
            self._ranks = Whole(self._calls, rank, size)
        elif max(members) < world.size and world.rank in members:
            self._ranks = Part(self._calls, rank, members, name)
        else:
            raise RuntimeError(
                f"backend rail: a group of ranks {members} in a job of {world.size} ranks, of which this process is "
                f"{world.rank}: world_size must be {world.size}"
            )
        self._limit = timeout
        self._options = Backend.Options(NAME, timeout) if timeout is not None else Backend.Options(NAME)

    # PyTorch asks the class for these; without an answer of ours its binding asks itself for ever.
    supports_splitting = False
    supports_coalescing = False
    supports_shrinking = False
    supports_reconfigure = False
    supports_window = False
    supports_abort_hooks = False
    supports_completion_hooks = False
    _supports_time_estimate = False

    def getBackendName(self):
        return NAME

    @property
    def options(self):
        return self._options

    # Reductions.

    def allreduce(self, tensors, opts=None):
        return self._all_reduce([only(tensors)], tensors, opts or dist.AllreduceOptions())

    def allreduce_coalesced(self, tensors, opts=None):
        return self._all_reduce(tensors, tensors, opts or dist.AllreduceCoalescedOptions())

    def _all_reduce(self, tensors, result, opts):
        numbers = [Numbers(tensor, opts.reduceOp, self.size()) for tensor in tensors]
        timeout = self._seconds(opts)
        requests = [request for each in numbers for request in self._ranks.all_reduce(each, timeout)]
        return _work(requests, lambda: [each.finish() for each in numbers], result, opts)

    def reduce(self, tensors, opts=None):
        opts = opts or dist.ReduceOptions()
        tensor = only(tensors)
        numbers = Numbers(tensor, opts.reduceOp, self.size(), copy=True)
        requests = self._ranks.all_reduce(numbers, self._seconds(opts))
        root = self.rank() == opts.rootRank
        return _work(requests, numbers.finish if root else None, tensors, opts)

    def reduce_scatter_single(self, output, input, opts=None):
        return self._reduce_scatter([output], [input], opts or dist.ReduceScatterOptions())

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        return self._reduce_scatter(outputs, inputs, opts or dist.ReduceScatterOptions())

    def _reduce_scatter(self, outputs, inputs, opts):
        requests, after = [], []
        for output, source in zip(outputs, inputs, strict=True):
            if output.numel() * self.size() != source.numel() or output.dtype != source.dtype:
                raise ValueError(
                    f"backend rail: reduce_scatter of {source.numel()} x {source.dtype} to {output.numel()} x "
                    f"{output.dtype} on {self.size()} ranks"
                )
            numbers = Numbers(source, opts.reduceOp, self.size())
            direct = output.dtype == numbers.how.dtype and output.is_contiguous()
            count = numbers.count // self.size()
            room = check(output).view(-1) if direct else numbers.empty(count)
            requests += self._ranks.reduce_scatter(numbers, room, self._seconds(opts))
            after.append((numbers, room, output))
        return _work(requests, lambda: [n.finish(room, out) for n, room, out in after], list(outputs), opts)

    def reduce_scatter(self, output_tensors, input_tensors, opts=None):
        opts = opts or dist.ReduceScatterOptions()
        output, inputs = only(output_tensors), only(input_tensors)
        self._expect_all(inputs)
        flat = torch.cat([check(tensor).reshape(-1) for tensor in inputs])
        if len({tensor.numel() for tensor in inputs}) == 1:
            return self._reduce_scatter([output], [flat], opts)
        # Blocks of unequal size: all of it is reduced, as all ranks know.
        numbers = Numbers(flat, opts.reduceOp, self.size())
        first = sum(tensor.numel() for tensor in inputs[: self.rank()])

        def finish():
            numbers.finish()
            output.detach().copy_(flat[first : first + output.numel()].view(output.shape))

        return _work(self._ranks.all_reduce(numbers, self._seconds(opts)), finish, output_tensors, opts)

    # Moves.

    def broadcast(self, tensors, opts=None):
        opts = opts or dist.BroadcastOptions()
        root = opts.rootRank == self.rank()
        data = Bytes(only(tensors), read=root, write=not root)
        requests = self._ranks.broadcast(data.address, data.nbytes, opts.rootRank, data, self._seconds(opts))
        return _work(requests, data.finish, tensors, opts)

    def all_gather_single(self, output, input, opts=None):
        return self._all_gather([output], [input], opts or dist.AllgatherOptions())

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        return self._all_gather(outputs, inputs, opts or dist.AllgatherOptions())

    def _all_gather(self, outputs, inputs, opts):
        requests, after = [], []
        for output, source in zip(outputs, inputs, strict=True):
            if source.numel() * self.size() != output.numel() or output.dtype != source.dtype:
                raise ValueError(
                    f"backend rail: all_gather of {source.numel()} x {source.dtype} to {output.numel()} x "
                    f"{output.dtype} on {self.size()} ranks"
                )
            begun, finish = self._gather_into(source, output, opts)
            requests += begun
            after += finish
        return _work(requests, lambda: [function() for function in after], list(outputs), opts)

    def _gather_into(self, source, output, opts):
        data, target = Bytes(source, read=True), check(output)
        if data.nbytes == data.size and target.is_contiguous():
            keep = (data, target)
            return self._ranks.all_gather(data.address, target.data_ptr(), data.nbytes, keep, self._seconds(opts)), []
        room = torch.empty((self.size(), data.nbytes), dtype=torch.uint8)
        begun = self._ranks.all_gather(data.address, room.data_ptr(), data.nbytes, (data, room), self._seconds(opts))
        return begun, [lambda: store(target, room[:, : data.size].reshape(-1))]

    def allgather(self, output_tensors, input_tensors, opts=None):
        opts = opts or dist.AllgatherOptions()
        outputs, source = only(output_tensors), only(input_tensors)
        self._expect_all(outputs)
        if any(tensor.dtype != source.dtype for tensor in outputs):
            raise ValueError("backend rail: all_gather between different types")
        if len({tensor.numel() for tensor in outputs}) > 1:
            data = Bytes(source, read=True)
            return self._exchange([data] * self.size(), [Bytes(t, write=True) for t in outputs], output_tensors, opts)
        if outputs[0].numel() != source.numel():
            raise ValueError(f"backend rail: all_gather of {source.numel()} elements to {outputs[0].numel()} each")
        data = Bytes(source, read=True)
        room = torch.empty((self.size(), data.nbytes), dtype=torch.uint8)
        requests = self._ranks.all_gather(data.address, room.data_ptr(), data.nbytes, (data, room), self._seconds(opts))

        def finish():
            for tensor, row in zip(outputs, room, strict=True):
                store(check(tensor), row[: data.size])

        return _work(requests, finish, output_tensors, opts)

    def allgather_coalesced(self, output_lists, input_tensors, opts=None):
        raise NotImplementedError("backend rail: all_gather_coalesced is deprecated; use all_gather_into_tensor")

    def gather(self, output_tensors, input_tensors, opts=None):
        opts = opts or dist.GatherOptions()
        source = Bytes(only(input_tensors), read=True)
        sends, receives = [None] * self.size(), [None] * self.size()
        sends[opts.rootRank] = source
        if self.rank() == opts.rootRank:
            outputs = only(output_tensors)
            self._expect_all(outputs)
            receives = [Bytes(tensor, write=True) for tensor in outputs]
        return self._exchange(sends, receives, output_tensors, opts)

    def scatter(self, output_tensors, input_tensors, opts=None):
        opts = opts or dist.ScatterOptions()
        sends, receives = [None] * self.size(), [None] * self.size()
        receives[opts.rootRank] = Bytes(only(output_tensors), write=True)
        if self.rank() == opts.rootRank:
            inputs = only(input_tensors)
            self._expect_all(inputs)
            sends = [Bytes(tensor, read=True) for tensor in inputs]
        return self._exchange(sends, receives, output_tensors, opts)

    def alltoall(self, output_tensors, input_tensors, opts=None):
        self._expect_all(output_tensors)
        self._expect_all(input_tensors)
        sends = [Bytes(tensor, read=True) for tensor in input_tensors]
        receives = [Bytes(tensor, write=True) for tensor in output_tensors]
        return self._exchange(sends, receives, output_tensors, opts or dist.AllToAllOptions())

    def all_to_all_single(self, output, input, output_split_sizes=(), input_split_sizes=(), opts=None):
        opts = opts or dist.AllToAllOptions()
        if output.dtype != input.dtype:
            raise ValueError("backend rail: all_to_all between different types")
        if not output_split_sizes and not input_split_sizes:
            return self._all_to_all_equal(output, input, opts)
        target = check(output)
        room = target if target.is_contiguous() else torch.empty_like(target, memory_format=torch.contiguous_format)
        sends = [Bytes(part, read=True) for part in self._split(input.detach().contiguous(), input_split_sizes)]
        receives = [Bytes(part, write=True) for part in self._split(room, output_split_sizes)]
        copy = None if room is target else lambda: target.copy_(room)
        return self._exchange(sends, receives, [output], opts, copy)

    def _all_to_all_equal(self, output, input, opts):
        size = self.size()
        for tensor in (output, input):
            if tensor.numel() % size:
                raise ValueError(f"backend rail: all_to_all of {tensor.numel()} elements among {size} ranks")
        if output.numel() != input.numel():
            raise ValueError(f"backend rail: all_to_all of {input.numel()} elements to {output.numel()}")
        target, source = check(output), check(input)
        part = source.numel() // size * source.element_size()
        if part % 2 == 0 and target.is_contiguous():
            source = source.contiguous()
            requests = self._ranks.all_to_all(
                source.data_ptr(), target.data_ptr(), part, (source, target), self._seconds(opts)
            )
            return _work(requests, None, [output], opts)
        nbytes = part + part % 2
        padded = torch.zeros((size, nbytes), dtype=torch.uint8)
        padded[:, :part] = raw(source).view(size, part)
        room = torch.empty((size, nbytes), dtype=torch.uint8)
        requests = self._ranks.all_to_all(
            padded.data_ptr(), room.data_ptr(), nbytes, (padded, room), self._seconds(opts)
        )
        return _work(requests, lambda: store(target, room[:, :part].reshape(-1)), [output], opts)

    def _split(self, tensor, sizes):
        if not sizes:
            if tensor.size(0) % self.size():
                raise ValueError(f"backend rail: {tensor.size(0)} rows among {self.size()} ranks")
            sizes = [tensor.size(0) // self.size()] * self.size()
        if len(sizes) != self.size() or sum(sizes) != tensor.size(0):
            raise ValueError(f"backend rail: split sizes {list(sizes)} of {tensor.size(0)} rows on {self.size()} ranks")
        return tensor.split(list(sizes))

    def _exchange(self, sends, receives, result, opts, after=None):
        def spans(operands):
            return [None if each is None else (each.address, each.nbytes) for each in operands]

        requests = self._ranks.exchange(spans(sends), spans(receives), (sends, receives), self._seconds(opts))

        def finish():
            for each in receives:
                if each is not None:
                    each.finish()
            if after is not None:
                after()

        return _work(requests, finish, result, opts)

    # Messages and the rest.

    def send(self, tensors, dst, tag=0):
        data = Bytes(only(tensors), read=True)
        return RailWork(self._ranks.send(data.address, data.nbytes, dst, tag, data, self._seconds()), None, tensors, True)

    def recv(self, tensors, src, tag=0):
        data = Bytes(only(tensors), write=True)
        requests = self._ranks.recv(data.address, data.nbytes, src, tag, data, self._seconds())
        return RailWork(requests, data.finish, tensors, True)

    def recv_anysource(self, tensors, tag=0):
        raise NotImplementedError("backend rail: recv needs a source: the engine has a queue for each sender")

    def barrier(self, opts=None):
        opts = opts or dist.BarrierOptions()
        return _work(self._ranks.barrier(self._seconds(opts)), None, [], opts)

    def set_timeout(self, timeout):
        """Limits calls from now on that name no limit of their own."""
        self._limit = timeout

    def _seconds(self, opts=None):
        """The limit of one call: its own, or else the group's. Beyond the engine's own it has no effect."""
        for timeout in (getattr(opts, "timeout", None), self._limit):
            if timeout is not None and timeout.total_seconds() > 0:
                return timeout.total_seconds()
        return None

    def _expect_all(self, tensors):
        if len(tensors) != self.size():
            raise ValueError(f"backend rail: {len(tensors)} tensors for {self.size()} ranks")

    # Names that PyTorch had before 2.15.

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


def _work(requests, finish, result, opts):
    return RailWork(requests, _without_gradients(finish), result, getattr(opts, "asyncOp", True))


def _without_gradients(function):
    if function is None:
        return None

    def run():
        with torch.no_grad():
            function()

    return run
