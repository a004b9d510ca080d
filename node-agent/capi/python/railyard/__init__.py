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

`railyard.client` is for programs about jobs, wherever they run: it talks to the controller, and needs no Linux and no librail.so.

    job = railyard.submit("hostname", nodes=2, gpus_per_node=1)
    job.wait()
    print(job.logs())
"""

import importlib
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from . import client as client
    from .client import submit as submit

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


def __getattr__(name: str) -> object:
    """`client` and `submit`, read when they are first used: ranks have no use for them."""
    if name not in ("client", "submit"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    client = importlib.import_module(".client", __name__)
    return client if name == "client" else client.submit
