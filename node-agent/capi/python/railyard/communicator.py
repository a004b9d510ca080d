"""One attached rank."""

import atexit
import ctypes
import multiprocessing.util
import os
import sys
import threading
import weakref
from typing import Any

from . import _library, errors
from .request import Request

#: Formats of the buffer protocol (native order) and what the engine calls them.
_FORMATS = {
    "f": "f32",
    "d": "f64",
    "e": "f16",
    "i": "i32",
    "l": "i64" if ctypes.sizeof(ctypes.c_long) == 8 else "i32",
    "q": "i64",
    # Sums and products of two's complement do not depend on the sign; least and greatest do, and are refused below.
    "I": "i32",
    "L": "i64" if ctypes.sizeof(ctypes.c_long) == 8 else "i32",
    "Q": "i64",
}
_UNSIGNED = "ILQ"


class Communicator:
    """The ranks of this job, of which this process is one. One of it per process; thread-safe.

    Attaches to the engine that the environment names (RAIL_ENGINE_SOCKET, RANK, ...), which whoever starts the ranks sets.
    Every rank must make the same collective calls in the same order. Operands are objects with the buffer protocol:
    array.array, bytearray, memoryview, ctypes arrays, NumPy arrays, `alloc`. The element type follows from their format;
    `dtype` ("f32", "f64", "i32", "i64", "f16", "bf16") says it where the format does not.

    Calls return when they are complete, or with `wait=False` at once, with a `Request`.
    """

    def __init__(self) -> None:
        self._handle: Any = None
        # Notifications are taken and sent on other threads, which must be out of the library before the handle is freed.
        self._notifying = threading.RLock()
        #: Registered memory of GPUs: bytes by address.
        self._on_gpus: dict[int, int] = {}
        self._library: Any = _library.load()
        self._pid = os.getpid()
        handle = ctypes.c_void_p()
        self._check(self._library.rail_init_from_env(ctypes.byref(handle)))
        self._handle = handle
        #: This rank's place in the job.
        self.rank: int = self._number("rank")
        #: Ranks of the job.
        self.size: int = self._number("size")
        #: This rank's place among the ranks of its node.
        self.local_rank: int = self._number("local_rank")
        #: Ranks on this node.
        self.local_size: int = self._number("local_size")
        #: This node's place in the job.
        self.node: int = self._number("node")
        #: Nodes of the job.
        self.nodes: int = self._number("nodes")
        # Before the interpreter is torn down, so that no callback comes too late. Processes that multiprocessing has forked end without
        # it, and do what is left to do by its own list.
        atexit.register(_close, weakref.ref(self))
        multiprocessing.util.Finalize(None, _close, args=(weakref.ref(self),), exitpriority=0)

    def close(self) -> None:
        """Leaves the job; calls under way are given up. Does nothing the second time."""
        if not self._mine():
            # In a forked process, whose copy of the lock may be held for ever.
            self._handle = None
            return
        with self._notifying:
            handle, self._handle = self._handle, None
        # Without the lock: the end waits for callbacks, which may send or take notifications.
        if handle is not None:
            self._check(self._library.rail_finalize(handle))

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def set_timeout(self, seconds: float | None) -> None:
        """Limits each of the calls that follow; None returns to the engine's own limit."""
        milliseconds = 0 if seconds is None else min(max(1, round(seconds * 1000)), 0xFFFFFFFF)
        self._check(self._library.rail_set_timeout_ms(self._live(), milliseconds))

    def alloc(self, size: int) -> memoryview:
        """`size` zeroed bytes that the engine shares: calls on them, or on any part of them, are not copied. Freed when
        nothing refers to it any more."""
        place: Any = ctypes.c_void_p()
        self._check(self._library.rail_alloc(self._live(), max(size, 1), ctypes.byref(place)))
        memory = (ctypes.c_ubyte * size).from_address(place.value)
        weakref.finalize(memory, _free, weakref.ref(self), place.value)
        return memoryview(memory).cast("B")

    def register(self, data: Any) -> "GpuMemory":
        """Registers memory of a GPU: an object with `__cuda_array_interface__` (PyTorch, CuPy, Numba; with ROCm as well), or a
        pointer and a number of bytes. It can be an operand until the `GpuMemory` that comes back is released. The GPU must be done
        with an operand before a call, and leave it alone until the call is over."""
        pointer, size = data if isinstance(data, tuple) else _range_on_gpu(data)
        self._check(self._library.rail_gpu_register(self._live(), pointer, size))
        memory = GpuMemory(self, pointer, size, self.last_way(), data)
        self._on_gpus[pointer] = size
        return memory

    def last_way(self) -> str:
        """Which way the bytes of this thread's latest call on memory of a GPU took, and why: "dma-buf: ..." or "staged: ..."."""
        way: str = self._library.rail_last_way().decode(errors="replace")
        return way

    # Collectives.

    def barrier(self, *, wait: bool = True) -> Any:
        """Nobody goes on before everybody is here."""
        return self.call("barrier", (), None, wait)

    def all_reduce(self, data: Any, out: Any = None, op: str = "sum", *, dtype: str | None = None, wait: bool = True) -> Any:
        """Every rank's `out` (or `data` itself) becomes the reduction of all `data`."""
        source = _Operand(data, dtype, writable=out is None)
        target = source if out is None else _Operand(out, dtype, writable=True)
        _same(source, target, 1)
        arguments = (source.address, target.address, source.count, source.code, source.reduction(op))
        return self.call("all_reduce", arguments, (source, target), wait)

    def all_gather(self, data: Any, out: Any, *, dtype: str | None = None, wait: bool = True) -> Any:
        """Every rank's `out` becomes all `data` in the order of ranks."""
        source, target = _Operand(data, dtype), _Operand(out, dtype, writable=True)
        _same(source, target, self.size)
        arguments = (source.address, target.address, source.count, source.code)
        return self.call("all_gather", arguments, (source, target), wait)

    def reduce_scatter(self, data: Any, out: Any, op: str = "sum", *, dtype: str | None = None, wait: bool = True) -> Any:
        """Rank r's `out` becomes the reduction of block r of all `data`."""
        source, target = _Operand(data, dtype), _Operand(out, dtype, writable=True)
        _same(target, source, self.size)
        arguments = (source.address, target.address, target.count, source.code, source.reduction(op))
        return self.call("reduce_scatter", arguments, (source, target), wait)

    def broadcast(self, data: Any, root: int = 0, *, dtype: str | None = None, wait: bool = True) -> Any:
        """Everybody's `data` becomes that of rank `root`."""
        place = _Operand(data, dtype, writable=self.rank != root)
        return self.call("broadcast", (place.address, place.count, place.code, _unsigned(root)), place, wait)

    def all_to_all(self, data: Any, out: Any, *, dtype: str | None = None, wait: bool = True) -> Any:
        """Block r of `out` becomes this rank's block of rank r's `data`."""
        source, target = _Operand(data, dtype), _Operand(out, dtype, writable=True)
        _same(source, target, 1)
        if source.count % self.size:
            raise errors.InvalidArgument(f"{source.count} elements do not make {self.size} equal blocks")
        arguments = (source.address, target.address, source.count // self.size, source.code)
        return self.call("all_to_all", arguments, (source, target), wait)

    # Messages.

    def send(self, data: Any, to: int, tag: int = 0, *, dtype: str | None = None, wait: bool = True) -> Any:
        """Gives `data` to rank `to`, which receives as much with the same tag."""
        place = _Operand(data, dtype)
        arguments = (place.address, place.count, place.code, _unsigned(to), _unsigned(tag))
        return self.call("send", arguments, place, wait)

    def recv(self, data: Any, sender: int, tag: int = 0, *, dtype: str | None = None, wait: bool = True) -> Any:
        """Gets `data` from rank `sender`, which sends as much with the same tag."""
        place = _Operand(data, dtype, writable=True)
        arguments = (place.address, place.count, place.code, _unsigned(sender), _unsigned(tag))
        return self.call("recv", arguments, place, wait)

    # Notifications.

    @property
    def notifies(self) -> bool:
        """Whether librail.so has notifications: since its ABI version 4."""
        return int(self._library.rail_abi_version()) >= _library.NOTIFICATIONS

    def subscribe(self) -> None:
        """From now on this rank is handed what others notify it of, and must take it: more than 65536 that nobody took break its
        connection. Where the job fails, each later call fails with the cause."""
        self._must_notify()
        self._check(self._library.rail_subscribe(self._live()))

    def notify(self, to: int, words: tuple[int, int, int]) -> bool:
        """Notifies rank `to`, which is not this one, of three numbers below 2**64. It needs no call of that rank: if it has subscribed,
        it gets all of this rank's once and in order. False: the engine takes nothing at the moment; try again later."""
        self._must_notify()
        with self._notifying:
            status = self._check(self._library.rail_notify(self._live(), _unsigned(to), _library.WORDS(*words)))
        return status != _library.PENDING

    def poll_notification(self) -> tuple[int, tuple[int, int, int]] | None:
        """The rank and the numbers of the oldest notification that nobody has taken, without waiting."""
        self._must_notify()
        sender, words = ctypes.c_uint32(), _library.WORDS()
        with self._notifying:
            status = self._check(self._library.rail_poll_notification(self._live(), ctypes.byref(sender), words))
        return None if status == _library.PENDING else (sender.value, (words[0], words[1], words[2]))

    def _must_notify(self) -> None:
        if not self.notifies:
            raise errors.NotReady(f"this librail.so has no notifications: they need ABI version {_library.NOTIFICATIONS}")

    # For those who have addresses.

    def call(self, name: str, arguments: tuple[Any, ...], keep: Any, wait: bool) -> Any:
        """Makes a call of rail.h by its name without `rail_`, with the arguments between the handle and the request as
        numbers. `keep` is referred to until the call is over. Returns None, or a `Request` if it is not to wait."""
        for operand in keep if isinstance(keep, tuple) else (keep,):
            self._must_be_registered(operand)
        if wait:
            self._check(getattr(self._library, f"rail_{name}")(self._live(), *arguments))
            return None
        handle = ctypes.c_void_p()
        self._check(getattr(self._library, f"rail_i{name}")(self._live(), *arguments, ctypes.byref(handle)))
        return Request(self, handle, keep)

    def _must_be_registered(self, operand: Any) -> None:
        """The library knows only registered memory from other memory of GPUs, which it would read as its own."""
        if not isinstance(operand, _Operand) or operand.on_gpu is None:
            return
        size = operand.on_gpu
        ranges = list(self._on_gpus.items())
        if size and not any(at <= operand.address and operand.address + size <= at + n for at, n in ranges):
            raise errors.InvalidArgument(f"{size} bytes of a GPU from {operand.address:#x} are not registered: register() them")

    def _number(self, name: str) -> int:
        return self._check(getattr(self._library, f"rail_{name}")(self._handle))

    def _check(self, status: int) -> int:
        if status < 0:
            text = self._library.rail_last_error() or self._library.rail_strerror(status)
            raise errors.of_status(status, text.decode(errors="replace"))
        return status

    def _live(self) -> Any:
        if self._handle is None:
            raise errors.InvalidArgument("the communicator is closed")
        if not self._mine():
            raise errors.InvalidArgument("a communicator cannot be used after fork(): only the parent may")
        return self._handle

    def _mine(self) -> bool:
        return self._pid == os.getpid()


class _Operand:
    """Memory of an operand: its address, element type and count. Holding it keeps the memory where it is."""

    def __init__(self, data: Any, dtype: str | None = None, writable: bool = False) -> None:
        #: Bytes, where it is on a GPU.
        self.on_gpu: int | None = None
        self.address: Any = None
        if hasattr(data, "__cuda_array_interface__"):
            self._of_gpu(data, dtype, writable)
            return
        try:
            view = memoryview(data)
        except TypeError as error:
            raise errors.InvalidArgument(f"{type(data).__name__} has no buffer: {error}") from error
        if not view.c_contiguous:
            raise errors.InvalidArgument("the memory is not contiguous")
        if writable and view.readonly:
            raise errors.InvalidArgument("the memory is read-only, and the result is to go there")
        self.format = view.format.lstrip("@=")
        name = dtype or _FORMATS.get(self.format)
        if name not in _library.DTYPES:
            known = ", ".join(_library.DTYPES)
            raise errors.InvalidArgument(f"format {view.format!r} is no element type; name one of {known} as dtype")
        self.explicit = dtype is not None
        self.code, element = _library.DTYPES[name], _library.SIZES[name]
        if view.nbytes % element:
            raise errors.InvalidArgument(f"{view.nbytes} bytes are no whole number of {name}")
        self.count = view.nbytes // element
        self._view = view
        self.address = _address(view)

    def _of_gpu(self, data: Any, dtype: str | None, writable: bool) -> None:
        look = data.__cuda_array_interface__
        self.address, self.on_gpu = _range_on_gpu(data)
        if writable and look["data"][1]:
            raise errors.InvalidArgument("the memory is read-only, and the result is to go there")
        kind = look["typestr"]
        self.format = {"<u4": "I", "<u8": "Q"}.get(kind, kind)
        name = dtype or _ON_GPU.get(kind) or _bfloat16(data)
        if name not in _library.DTYPES:
            known = ", ".join(_library.DTYPES)
            raise errors.InvalidArgument(f"type {kind!r} is no element type; name one of {known} as dtype")
        self.explicit = dtype is not None
        self.code, element = _library.DTYPES[name], _library.SIZES[name]
        if self.on_gpu % element:
            raise errors.InvalidArgument(f"{self.on_gpu} bytes are no whole number of {name}")
        self.count = self.on_gpu // element
        self._view = data

    def reduction(self, op: str) -> int:
        if op not in _library.OPS:
            raise errors.InvalidArgument(f"there is no reduction {op!r}; known: {', '.join(_library.OPS)}")
        if not self.explicit and self.format in _UNSIGNED and op in ("min", "max"):
            raise errors.InvalidArgument(f"{op} of unsigned numbers is not supported")
        return _library.OPS[op]


class GpuMemory:
    """Registered memory of a GPU. `direct` says whether NICs can read it there, `way` why or why not."""

    def __init__(self, communicator: Communicator, pointer: int, size: int, way: str, keep: Any) -> None:
        self._communicator: Communicator | None = communicator
        self._keep = keep
        self.pointer, self.size, self.way = pointer, size, way
        self.direct = way.startswith("dma-buf")

    def release(self) -> None:
        """Gives it back; afterwards it may be freed. Raises InvalidArgument while calls use it. Does nothing the second time."""
        owner = self._communicator
        if owner is None:
            return
        if owner._handle is not None and owner._mine():
            owner._check(owner._library.rail_gpu_release(owner._handle, self.pointer))
        owner._on_gpus.pop(self.pointer, None)
        self._communicator = self._keep = None

    def __enter__(self) -> "GpuMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


#: Types of memory on GPUs (`typestr` of the array interface) and what the engine calls them.
_ON_GPU = {"<f4": "f32", "<f8": "f64", "<f2": "f16", "<i4": "i32", "<i8": "i64", "<u4": "i32", "<u8": "i64"}


def _bfloat16(data: Any) -> str | None:
    """"bf16" for a tensor of PyTorch's that says so; the array interface has no code for it, and PyTorch gives two opaque bytes."""
    torch: Any = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(data, torch.Tensor)
    return "bf16" if is_tensor and data.dtype is torch.bfloat16 else None


def _range_on_gpu(data: Any) -> tuple[int, int]:
    """Address and bytes of an object on a GPU."""
    look = getattr(data, "__cuda_array_interface__", None)
    if look is None:
        raise errors.InvalidArgument(f"{type(data).__name__} has no __cuda_array_interface__")
    size = int(look["typestr"][2:])
    strides = look.get("strides")
    expected: list[int] = []
    for length in reversed(look["shape"]):
        expected.insert(0, size)
        size *= length
    if strides is not None and tuple(strides) != tuple(expected):
        raise errors.InvalidArgument("the memory is not contiguous")
    return look["data"][0], size


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def _address(view: memoryview) -> int | None:
    """Where the memory begins. The view itself keeps it there, so the second look can be let go at once."""
    if view.nbytes == 0:
        return None
    look = _PyBuffer()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
    get(view, ctypes.byref(look), 0x18)  # PyBUF_STRIDES: what a contiguous view of any shape can give
    address: int | None = look.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(look))
    return address


def _same(one: _Operand, many: _Operand, times: int) -> None:
    if one.code != many.code:
        raise errors.InvalidArgument("input and output have different element types")
    if one.count * times != many.count:
        raise errors.InvalidArgument(f"{many.count} elements on one side, {one.count} x {times} are needed")


def _unsigned(number: int) -> int:
    if not 0 <= number <= 0xFFFFFFFF:
        raise errors.InvalidArgument(f"{number} is no rank and no tag")
    return number


def _free(communicator: "weakref.ref[Communicator]", address: int) -> None:
    owner = communicator()
    if owner is not None and owner._handle is not None and owner._mine():
        owner._library.rail_free(owner._handle, address)


def _close(communicator: "weakref.ref[Communicator]") -> None:
    owner = communicator()
    if owner is not None:
        try:
            owner.close()
        except errors.RailError:
            pass  # The process ends; there is nobody to tell.
