"""Tensors as memory that the engine can work on."""

import torch

from . import types


def check(tensor):
    """Raises where the engine cannot reach the tensor's memory."""
    if tensor.device.type != "cpu":
        raise ValueError(f"backend rail works on tensors on the CPU, not on {tensor.device}")
    if tensor.layout != torch.strided:
        raise ValueError(f"backend rail works on dense tensors, not on {tensor.layout}")
    if tensor.is_quantized:
        raise TypeError(f"backend rail cannot move quantized tensors ({tensor.dtype}); move their integers")
    return tensor.detach()


class Bytes:
    """A tensor that is moved and not looked into: at `address`, `nbytes` of it, which is a multiple of 2 on all ranks."""

    def __init__(self, tensor, read=False, write=False):
        self._tensor = tensor = check(tensor)
        self.size = tensor.numel() * tensor.element_size()
        self.nbytes = self.size + self.size % 2
        self.direct = tensor.is_contiguous() and self.size == self.nbytes
        self._write = write
        if self.direct:
            self._memory = tensor
        else:
            self._memory = torch.empty(self.nbytes, dtype=torch.uint8)
            if read:
                self._memory[: self.size] = raw(tensor)
        self.address = self._memory.data_ptr()

    def finish(self):
        """Brings what was received to where it belongs."""
        if self._write and not self.direct:
            store(self._tensor, self._memory[: self.size])


def raw(tensor):
    """The bytes of a tensor in the order of its elements."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def store(tensor, bytes_):
    """Makes a tensor have these bytes in the order of its elements."""
    if bytes_.storage_offset() % tensor.element_size():
        bytes_ = bytes_.clone()
    tensor.copy_(bytes_.view(tensor.dtype).reshape(tensor.shape))


class Numbers:
    """A tensor that is reduced: `memory` is contiguous and of a type that the engine computes with."""

    def __init__(self, tensor, op, size, *, copy=False):
        self._tensor = tensor = check(tensor)
        self.how = types.reduction(tensor, op)
        self._size = size
        real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
        self.memory = real.to(self.how.dtype, memory_format=torch.contiguous_format, copy=copy).contiguous()
        self.count = self.memory.numel()
        self.address = self.memory.data_ptr()

    def empty(self, count):
        """Room for so many results of this kind."""
        return torch.empty(count, dtype=self.how.dtype)

    def finish(self, memory=None, tensor=None):
        """Brings the result, which is in `memory`, to `tensor`; both are this operand's own unless given."""
        memory = self.memory if memory is None else memory
        tensor = self._tensor if tensor is None else check(tensor)
        if self.how.average:
            rounding = None if memory.is_floating_point() else "trunc"
            memory.div_(self._size, rounding_mode=rounding)
        if memory.data_ptr() == tensor.data_ptr() and memory.dtype == tensor.dtype and tensor.is_contiguous():
            return
        if tensor.is_complex():
            memory = torch.view_as_complex(memory.view(*tensor.shape, 2))
        tensor.copy_(memory.view(tensor.shape))
