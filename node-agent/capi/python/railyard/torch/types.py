"""Element types and reductions of PyTorch in terms of the engine."""

from dataclasses import dataclass

import torch
from torch.distributed import ReduceOp

from .. import _library

#: Reduced as they are.
_NATIVE = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
}
#: Reduced as wider numbers and cut afterwards, which wraps as their own arithmetic does.
_WIDENED = {torch.int8, torch.uint8, torch.int16, torch.bool}
#: Complex numbers are reduced as pairs of these.
_COMPLEX = {torch.complex64: torch.float32, torch.complex128: torch.float64}

#: The engine's operation for each of ReduceOp's by name.
_BY_NAME = {"SUM": "sum", "AVG": "sum", "MIN": "min", "MAX": "max", "PRODUCT": "prod"}
_OPS = {getattr(ReduceOp, name): code for name, code in _BY_NAME.items()}
#: Names of operations: those of 1.13 do not say their own.
_NAMES = {getattr(ReduceOp, name): name for name in (*_BY_NAME, "BAND", "BOR", "BXOR")}


#: Looked up, not compared with: of two kinds of objects for one operation only one knows the other (before 2.0).
_AVERAGE = {ReduceOp.AVG}
_SUM = {ReduceOp.SUM}


def kind_of(op):
    """The plain operation of torch.distributed, of whatever stands for one."""
    kind = op.op if hasattr(op, "op") else op
    # PyTorch 1.13 gives a bare number where its C++ side calls.
    return ReduceOp.RedOpType(kind) if isinstance(kind, int) else kind


def is_sum(op):
    """Whether it is the sum."""
    return kind_of(op) in _SUM


@dataclass(frozen=True)
class Reduction:
    """How tensors of one type are reduced: what they become before, and the engine's dtype and operation for it."""

    dtype: torch.dtype
    code: int
    op: int
    average: bool


def reduction(tensor, op) -> Reduction:
    """How `tensor` is reduced by `op` of torch.distributed. Raises TypeError or ValueError where it is not possible."""
    kind = kind_of(op)
    name = _OPS.get(kind)
    said = _NAMES.get(kind, kind)
    if name is None:
        raise ValueError(f"backend rail: {said} is not supported; supported are {', '.join(_BY_NAME)}")
    dtype = tensor.dtype
    if dtype in _COMPLEX:
        if name != "sum":
            raise TypeError(f"backend rail: {said} of {dtype} is not supported, only SUM and AVG")
        dtype = _COMPLEX[dtype]
    elif dtype == torch.bool:
        # As logical or and logical and; a sum of truths is one.
        if kind in _AVERAGE:
            raise TypeError(f"backend rail: {said} of {dtype} is not supported")
        name = {"sum": "max", "prod": "min"}.get(name, name)
        dtype = torch.int32
    elif dtype in _WIDENED:
        dtype = torch.int32
    if dtype not in _NATIVE:
        known = ", ".join(str(known) for known in (*_NATIVE, *sorted(_WIDENED, key=str), *_COMPLEX))
        raise TypeError(f"backend rail: {tensor.dtype} cannot be reduced; supported are {known}")
    return Reduction(dtype, _library.DTYPES[_NATIVE[dtype]], _library.OPS[name], kind in _AVERAGE)


def carrier(nbytes: int) -> tuple[int, int]:
    """Engine dtype and count for moving so many bytes, which are a multiple of 2."""
    for name in ("i64", "i32", "f16"):
        size = _library.SIZES[name]
        if nbytes % size == 0:
            return _library.DTYPES[name], nbytes // size
    raise AssertionError(f"{nbytes} bytes were not padded")
