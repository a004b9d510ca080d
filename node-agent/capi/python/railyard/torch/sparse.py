"""Sums of sparse tensors: all ranks get the indices and values of all, and add them in the order of ranks."""

import torch

from . import types, versions
from .operand import Bytes


def all_reduce(ranks, tensor, op, timeout):
    """Begins it for ranks of a group: what to wait for, and what to do then. Waits for all ranks to come, as nobody knows before how much
    they have."""
    if not types.is_sum(op):
        raise ValueError(f"backend rail: unsupported reduction operation for sparse tensors: {types.kind_of(op)}, only SUM")
    if tensor.layout != torch.sparse_coo or tensor.device.type != "cpu":
        raise ValueError(f"backend rail: invalid tensor layout or device: {tensor.layout} on {tensor.device}")
    mine = tensor.detach().coalesce()
    count = torch.tensor([mine._nnz()], dtype=torch.int64)
    counts = torch.zeros(ranks.size, dtype=torch.int64)
    for request in ranks.all_gather(count.data_ptr(), counts.data_ptr(), 8, (count, counts), timeout):
        request.wait(timeout)
    most = int(counts.max())
    indices, every_index = _gathered(ranks, mine.indices().t(), most, timeout)
    values, every_value = _gathered(ranks, mine.values(), most, timeout)

    def finish():
        total = None
        for each, (at, value) in enumerate(zip(every_index(), every_value(), strict=True)):
            stored = int(counts[each])
            part = versions.sparse(at[:stored].t(), value[:stored], tensor.shape)
            total = part.coalesce() if total is None else (total + part).coalesce()
        # Not to what `detach` gives: that shares the values it has now, and gets new ones alone.
        tensor.copy_(total)

    return indices + values, finish


def _gathered(ranks, rows, most, timeout):
    """Begins to gather rows of all ranks, as many as one of them has at most: what to wait for, and who gives each rank's."""
    padded = rows.new_zeros((most, *rows.shape[1:]))
    padded[: rows.shape[0]] = rows
    data = Bytes(padded, read=True)
    if not data.nbytes:
        return [], lambda: [padded] * ranks.size
    room = torch.empty((ranks.size, data.nbytes), dtype=torch.uint8)
    requests = ranks.all_gather(data.address, room.data_ptr(), data.nbytes, (data, room), timeout)
    shape = padded.shape
    return requests, lambda: [row[: data.size].clone().view(rows.dtype).view(shape) for row in room]
