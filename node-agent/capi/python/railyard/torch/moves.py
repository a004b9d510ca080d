"""Operations that move what there is."""

import torch
from torch._C import _distributed_c10d as c10d

from . import checks
from .operand import Bytes, check, raw, store
from .operations import Operations, operation


class Moves(Operations):
    """Broadcast, gathers, scatter and all-to-all."""

    @operation("broadcast")
    def broadcast(self, tensors, opts=None):
        opts = opts or c10d.BroadcastOptions()
        root = checks.root(opts, self.size()) == self.rank()
        checks.root_tensor(opts, tensors)
        data = Bytes(checks.alone(tensors), read=root, write=not root)
        requests = self._ranks.broadcast(data.address, data.nbytes, opts.rootRank, data, self._seconds(opts))
        return self._work(requests, data.finish, tensors, opts)

    @operation("all_gather")
    def all_gather_single(self, output, input, opts=None):
        return self._all_gather([output], [input], opts or c10d.AllgatherOptions())

    @operation("all_gather")
    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        return self._all_gather(outputs, inputs, opts or c10d.AllgatherOptions())

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
        return self._work(requests, lambda: [function() for function in after], list(outputs), opts)

    def _gather_into(self, source, output, opts):
        data, target = Bytes(source, read=True), check(output)
        if data.nbytes == data.size and target.is_contiguous():
            keep = (data, target)
            return self._ranks.all_gather(data.address, target.data_ptr(), data.nbytes, keep, self._seconds(opts)), []
        begun, room = self._gather_rows(data, opts)
        return begun, [lambda: store(target, room[:, : data.size].reshape(-1))]

    def _gather_rows(self, data, opts):
        """Begins to gather everybody's bytes, a row for each rank."""
        room = torch.empty((self.size(), data.nbytes), dtype=torch.uint8)
        begun = self._ranks.all_gather(data.address, room.data_ptr(), data.nbytes, (data, room), self._seconds(opts))
        return begun, room

    @operation("all_gather")
    def allgather(self, output_tensors, input_tensors, opts=None):
        opts = opts or c10d.AllgatherOptions()
        checks.lists(output_tensors, input_tensors, "allgather", self.size())
        outputs, source = checks.only(output_tensors), checks.only(input_tensors)
        checks.like(outputs, source, sizes=False)
        if len({tensor.numel() for tensor in outputs}) > 1:
            data = Bytes(source, read=True)
            return self._exchange([data] * self.size(), [Bytes(t, write=True) for t in outputs], output_tensors, opts)
        if outputs[0].numel() != source.numel():
            raise ValueError(
                f"backend rail: invalid tensor size at index 0 (expected {tuple(source.shape)}, got {tuple(outputs[0].shape)})"
            )
        requests, finish = self._gather_list(outputs, source, opts)
        return self._work(requests, finish, output_tensors, opts)

    def _gather_list(self, outputs, source, opts):
        data = Bytes(source, read=True)
        requests, room = self._gather_rows(data, opts)

        def finish():
            for tensor, row in zip(outputs, room, strict=True):
                store(check(tensor), row[: data.size])

        return requests, finish

    @operation("all_gather")
    def allgather_coalesced(self, output_lists, input_tensors, opts=None):
        opts = opts or c10d.AllgatherOptions()
        checks.together(input_tensors)
        if len(output_lists) != self.size():
            raise ValueError(f"backend rail: output lists should be equal to world size, got {len(output_lists)} of {self.size()}")
        for at, outputs in enumerate(output_lists):
            if len(outputs) != len(input_tensors):
                raise ValueError(
                    f"backend rail: invalid output size: (expected length {len(input_tensors)}, got {len(outputs)}) at index {at}"
                )
            for output, source in zip(outputs, input_tensors):
                checks.like([output], source)
        requests, after = [], []
        for outputs, source in zip(zip(*output_lists), input_tensors):
            begun, finish = self._gather_list(outputs, source, opts)
            requests += begun
            after.append(finish)
        return self._work(requests, lambda: [finish() for finish in after], output_lists, opts)

    @operation("gather")
    def gather(self, output_tensors, input_tensors, opts=None):
        opts = opts or c10d.GatherOptions()
        root = checks.root(opts, self.size())
        source = checks.single(input_tensors, "input")
        outputs = checks.on_root(output_tensors, "output", self.rank(), root, self.size())
        sends, receives = [None] * self.size(), [None] * self.size()
        sends[root] = Bytes(source, read=True)
        if outputs is not None:
            checks.like(outputs, source)
            receives = [Bytes(tensor, write=True) for tensor in outputs]
        return self._exchange(sends, receives, output_tensors, opts)

    @operation("scatter")
    def scatter(self, output_tensors, input_tensors, opts=None):
        opts = opts or c10d.ScatterOptions()
        root = checks.root(opts, self.size())
        output = checks.single(output_tensors, "output")
        inputs = checks.on_root(input_tensors, "input", self.rank(), root, self.size())
        sends, receives = [None] * self.size(), [None] * self.size()
        receives[root] = Bytes(output, write=True)
        if inputs is not None:
            checks.like(inputs, output)
            sends = [Bytes(tensor, read=True) for tensor in inputs]
        return self._exchange(sends, receives, output_tensors, opts)

    @operation("all_to_all")
    def alltoall(self, output_tensors, input_tensors, opts=None):
        self._expect_all(output_tensors)
        self._expect_all(input_tensors)
        sends = [Bytes(tensor, read=True) for tensor in input_tensors]
        receives = [Bytes(tensor, write=True) for tensor in output_tensors]
        return self._exchange(sends, receives, output_tensors, opts or c10d.AllToAllOptions())

    @operation("all_to_all")
    def all_to_all_single(self, output, input, output_split_sizes=(), input_split_sizes=(), opts=None):
        opts = opts or c10d.AllToAllOptions()
        if output.dtype != input.dtype:
            raise ValueError("backend rail: all_to_all between different types: tensors are not equal in size or data type")
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
            return self._work(requests, None, [output], opts)
        nbytes = part + part % 2
        padded = torch.zeros((size, nbytes), dtype=torch.uint8)
        padded[:, :part] = raw(source).view(size, part)
        room = torch.empty((size, nbytes), dtype=torch.uint8)
        requests = self._ranks.all_to_all(
            padded.data_ptr(), room.data_ptr(), nbytes, (padded, room), self._seconds(opts)
        )
        return self._work(requests, lambda: store(target, room[:, :part].reshape(-1)), [output], opts)

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

        return self._work(requests, finish, result, opts)

    # Names that PyTorch had before 2.15.

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    alltoall_base = all_to_all_single
