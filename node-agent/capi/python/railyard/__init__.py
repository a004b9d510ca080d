"""railyard: collectives over all rails of a job, for Python.

    import array, railyard

    with railyard.Communicator() as ranks:
        numbers = array.array("f", [ranks.rank] * 1000)
        ranks.all_reduce(numbers)
        request = ranks.all_reduce(numbers, wait=False)
        ...
        request.wait()

Needs nothing but the standard library. `railyard.torch` is a backend for PyTorch's distributed package:
`torch.distributed.init_process_group("rail")`.
"""

from .communicator import Communicator, GpuMemory
from .errors import (
    Denied,
    EngineLost,
    Exhausted,
    InternalError,
    InvalidArgument,
    LibraryBug,
    Mismatch,
    NotReady,
    PeerLost,
    ProtocolError,
    RailError,
    RailLost,
    RankLost,
    Stopped,
    TimedOut,
)
from .request import Request

__version__ = "0.1.0"

__all__ = [
    "Communicator",
    "Denied",
    "EngineLost",
    "Exhausted",
    "GpuMemory",
    "InternalError",
    "InvalidArgument",
    "LibraryBug",
    "Mismatch",
    "NotReady",
    "PeerLost",
    "ProtocolError",
    "RailError",
    "RailLost",
    "RankLost",
    "Request",
    "Stopped",
    "TimedOut",
]
