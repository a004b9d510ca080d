"""Operations that compute."""

import torch
from torch._C import _distributed_c10d as c10d

from . import checks, sparse
from .operand import Numbers, check
from .operations import Operations, operation


class Reductions(Operations):
    """All-reduce, reduce and reduce-scatter."""

    @operation("all_reduce")
    def allreduce(self, tensors, opts=None):
        opts = opts or c10d.AllreduceOptions()
        tensor = checks.alone(tensors)
        if tensor.layout != torch.strided:
            return self.allreduce_sparse(tensors, opts)
        return self._all_reduce([tensor], tensors, opts)

    @operation("sparse_all_reduce")
    def allreduce_sparse(self, tensors, opts=None):
        opts = opts or c10d.AllreduceOptions()
        tensor = checks.alone(tensors)
        requests, finish = sparse.all_reduce(self._ranks, tensor, opts.reduceOp, self._seconds(opts))
        return self._work(requests, finish, tensors, opts)

    @operation("all_reduce")
    def allreduce_coalesced(self, tensors, opts=None):
        checks.together(tensors)
        return self._all_reduce(tensors, tensors, opts or c10d.AllreduceCoalescedOptions())

    def _all_reduce(self, tensors, result, opts):
        numbers = [Numbers(tensor, opts.reduceOp, self.size()) for tensor in tensors]
        timeout = self._seconds(opts)
        requests = [request for each in numbers for request in self._ranks.all_reduce(each, timeout)]
        return self._work(requests, lambda: [each.finish() for each in numbers], result, opts)

    @operation("reduce")
    def reduce(self, tensors, opts=None):
        opts = opts or c10d.ReduceOptions()
        root = checks.root(opts, self.size()) == self.rank()
        checks.root_tensor(opts, tensors)
        numbers = Numbers(checks.only(tensors), opts.reduceOp, self.size(), copy=True)
        requests = self._ranks.all_reduce(numbers, self._seconds(opts))
        return self._work(requests, numbers.finish if root else None, tensors, opts)

    @operation("reduce_scatter")
    def reduce_scatter_single(self, output, input, opts=None):
        return self._reduce_scatter([output], [input], opts or c10d.ReduceScatterOptions())

    @operation("reduce_scatter")
    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        return self._reduce_scatter(outputs, inputs, opts or c10d.ReduceScatterOptions())

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
        return self._work(requests, lambda: [n.finish(room, out) for n, room, out in after], list(outputs), opts)

    @operation("reduce_scatter")
    def reduce_scatter(self, output_tensors, input_tensors, opts=None):
        opts = opts or c10d.ReduceScatterOptions()
        output, inputs = checks.only(output_tensors), checks.only(input_tensors)
        self._expect_all(inputs)
        checks.like(inputs, output, sizes=False)
        flat = torch.cat([check(tensor).reshape(-1) for tensor in inputs])
        if len({tensor.numel() for tensor in inputs}) == 1:
            return self._reduce_scatter([output], [flat], opts)
        # Blocks of unequal size: all of it is reduced, as all ranks know.
        numbers = Numbers(flat, opts.reduceOp, self.size())
        first = sum(tensor.numel() for tensor in inputs[: self.rank()])

        def finish():
            numbers.finish()
            output.detach().copy_(flat[first : first + output.numel()].view(output.shape))

        return self._work(self._ranks.all_reduce(numbers, self._seconds(opts)), finish, output_tensors, opts)

    # Names that PyTorch had before 2.15.

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
