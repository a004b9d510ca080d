#!/usr/bin/env python3
"""A rank in plain Python: prints what it was told, joins a barrier, sums a small vector with all other ranks.

Needs nothing but the standard library and librail.so, which is looked for in $RAIL_LIBRARY, beside rail-engine on $PATH,
and in the build folder of a checkout. Ends with 0 only if the sum is right.
"""

import ctypes
import os
import shutil
import sys

NAMES = (
    "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT RAIL_JOB RAIL_JOB_UID RAIL_TENANT "
    "RAIL_ATTEMPT RAIL_RANK_MAP RAIL_ENGINE_SOCKET"
).split()

RAIL_F32 = 1  # rail.h: enum rail_dtype
RAIL_SUM = 1  # rail.h: enum rail_op


def library_path():
    """Where librail.so is, or what the system's loader makes of its name."""
    places = []
    if "RAIL_LIBRARY" in os.environ:
        places.append(os.environ["RAIL_LIBRARY"])
    engine = shutil.which("rail-engine")
    if engine:
        places.append(os.path.join(os.path.dirname(os.path.realpath(engine)), "librail.so"))
    checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(checkout, "target"))
    places += [os.path.join(target, profile, "librail.so") for profile in ("release", "debug")]
    return next((place for place in places if os.path.exists(place)), "librail.so")


class Rail:
    """The few calls of rail.h that this program needs."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.rail_last_error.restype = ctypes.c_char_p
        self.library.rail_strerror.restype = ctypes.c_char_p
        handle = ctypes.POINTER(ctypes.c_void_p)
        self.library.rail_init_from_env.argtypes = [handle]
        for name in ("rail_rank", "rail_size", "rail_barrier", "rail_finalize"):
            getattr(self.library, name).argtypes = [ctypes.c_void_p]
        self.library.rail_all_reduce.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_int,
        ]
        self.handle = ctypes.c_void_p()
        self.call("rail_init_from_env", ctypes.byref(self.handle))

    def call(self, name, *arguments):
        """Calls one entry; a negative status becomes an exception with the library's text."""
        status = getattr(self.library, name)(*arguments)
        if status < 0:
            cause = self.library.rail_last_error().decode() or self.library.rail_strerror(status).decode()
            raise RuntimeError(f"{name}: {cause} (status {status})")
        return status

    def all_reduce_sum(self, values):
        """The element-wise sum of all ranks' values."""
        data = (ctypes.c_float * len(values))(*values)
        self.call("rail_all_reduce", self.handle, data, data, len(values), RAIL_F32, RAIL_SUM)
        return list(data)


def main():
    for name in NAMES:
        print(f"{name}={os.environ.get(name, '')}")
    for name in sorted(os.environ):
        if name.startswith("NCCL_"):
            print(f"{name}={os.environ[name]}")

    rail = Rail(library_path())
    rank, size = rail.call("rail_rank", rail.handle), rail.call("rail_size", rail.handle)
    rail.call("rail_barrier", rail.handle)
    print(f"rank {rank} of {size}: through the barrier")

    found = rail.all_reduce_sum([float(rank + place) for place in range(8)])
    expected = [float(sum(range(size)) + size * place) for place in range(8)]
    rail.call("rail_finalize", rail.handle)
    right = found == expected
    print(f"rank {rank} of {size}: all-reduce {'verified' if right else f'WRONG: {found}, not {expected}'}")
    return 0 if right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        print(f"barrier.py: {error}", file=sys.stderr)
        sys.exit(1)
