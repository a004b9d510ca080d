"""librail.so through ctypes: where it is, and the signatures of rail.h. ctypes gives the interpreter's lock up in calls."""

import ctypes
import os
import shutil
import sys

from . import errors

#: The least ABI version that this package works with; a newer library will do.
ABI_VERSION = 3
#: The ABI version that has notifications.
NOTIFICATIONS = 4

PENDING = 1

DTYPES = {"f32": 1, "f64": 2, "i32": 3, "i64": 4, "f16": 5, "bf16": 6}
SIZES = {"f32": 4, "f64": 8, "i32": 4, "i64": 8, "f16": 2, "bf16": 2}
OPS = {"sum": 1, "min": 2, "max": 3, "prod": 4}

#: void (*)(int status, void *context)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)

#: Three numbers: what one notification says.
WORDS = ctypes.c_uint64 * 3


def places() -> list[str]:
    """Where librail.so may be, best first: $RAIL_LIBRARY, this package, beside rail-engine, wherever the loader looks."""
    named = os.environ.get("RAIL_LIBRARY")
    if named:
        return [named]
    found = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "librail.so")]
    engine = shutil.which("rail-engine")
    if engine:
        found.append(os.path.join(os.path.dirname(os.path.realpath(engine)), "librail.so"))
    return [place for place in found if os.path.exists(place)] + ["librail.so"]


def load() -> ctypes.CDLL:
    """The library with all signatures set. Raises EngineLost's sibling NotReady if it cannot be found or is too old."""
    if sys.platform != "linux":
        raise errors.NotReady(f"railyard needs Linux, this is {sys.platform}")
    place = places()[0]
    try:
        library = ctypes.CDLL(place)
    except OSError as error:
        raise errors.NotReady(
            f"cannot load {place}: {error}; install a railyard wheel or set RAIL_LIBRARY to the path of librail.so"
        ) from error
    library.rail_abi_version.restype = ctypes.c_uint32
    found = library.rail_abi_version()
    if found < ABI_VERSION:
        raise errors.NotReady(f"{place} has ABI version {found}, this package needs {ABI_VERSION}")
    _sign(library)
    if found >= NOTIFICATIONS:
        library.rail_subscribe.argtypes = [ctypes.c_void_p]
        library.rail_notify.argtypes = [ctypes.c_void_p, ctypes.c_uint32, WORDS]
        library.rail_poll_notification.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), WORDS]
    return library


def _sign(library: ctypes.CDLL) -> None:
    pointer, size, number, unsigned = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint32
    place = ctypes.POINTER(ctypes.c_void_p)
    for name in ("rail_last_error", "rail_strerror", "rail_request_error", "rail_last_way", "rail_request_way"):
        getattr(library, name).restype = ctypes.c_char_p
    library.rail_strerror.argtypes = [number]
    library.rail_request_error.argtypes = [pointer]
    library.rail_init_from_env.argtypes = [place]
    for name in ("finalize", "rank", "size", "local_rank", "local_size", "node", "nodes", "event_fd"):
        getattr(library, f"rail_{name}").argtypes = [pointer]
    library.rail_set_timeout_ms.argtypes = [pointer, unsigned]
    library.rail_alloc.argtypes = [pointer, size, place]
    library.rail_free.argtypes = [pointer, pointer]
    library.rail_gpu_register.argtypes = [pointer, pointer, size]
    library.rail_gpu_release.argtypes = [pointer, pointer]
    library.rail_request_way.argtypes = [pointer]
    library.rail_request_test.argtypes = [pointer]
    library.rail_request_wait.argtypes = [pointer, unsigned]
    library.rail_request_on_done.argtypes = [pointer, CALLBACK, pointer]
    library.rail_request_free.argtypes = [pointer]
    calls = {
        "barrier": [],
        "all_reduce": [pointer, pointer, size, number, number],
        "all_gather": [pointer, pointer, size, number],
        "reduce_scatter": [pointer, pointer, size, number, number],
        "broadcast": [pointer, size, number, unsigned],
        "all_to_all": [pointer, pointer, size, number],
        "send": [pointer, size, number, unsigned, unsigned],
        "recv": [pointer, size, number, unsigned, unsigned],
    }
    for name, arguments in calls.items():
        getattr(library, f"rail_{name}").argtypes = [pointer, *arguments]
        getattr(library, f"rail_i{name}").argtypes = [pointer, *arguments, place]
