"""The backend that process groups call."""

import secrets
import threading
import zlib

import torch
import torch.distributed as dist

from .. import errors
from ..communicator import Communicator
from . import versions
from .messages import Messages
from .moves import Moves
from .ranks import Calls, Part, Whole
from .reductions import Reductions

NAME = "rail"
#: Accelerators that PyTorch's own backends serve.
_KNOWN = (None, "cuda", "xpu", "mps")

_lock = threading.Lock()
_calls = None
#: Backends of groups that are not ours: PyTorch keeps the C++ part of a backend alive, and not what is in Python.
_alive = set()


def calls():
    """This process's attachment to its engine, made once: process groups come and go, the rank stays."""
    global _calls
    with _lock:
        if _calls is None or _calls.communicator._handle is None:
            try:
                _calls = Calls(Communicator())
            except errors.RailError as error:
                raise RuntimeError(f"backend rail: {error}") from error
        return _calls


def register():
    """Makes PyTorch know the backend; once is enough, twice is no harm."""
    if not dist.is_available() or hasattr(dist.Backend, NAME.upper()):
        return
    named = {"devices": ["cpu"]} if versions.HAS_DEVICES else {}
    dist.Backend.register_backend(NAME, _create, extended_api=True, **named)


def _create(options, _):
    """What init_process_group and new_group call on each member."""
    ranks, size = list(options.global_ranks_in_group), options.group_size
    # PyTorch makes the default group before it says that there is one.
    default = not dist.is_initialized()
    name = f"{options.group_id}/{_nonce(options.store, size)}"
    backend = RailBackend(options.group_rank, size, ranks, name, options.timeout, default, options.store)
    if isinstance(backend._ranks, Whole) and not isinstance(backend._ranks, Part):
        calls().meet(options.store, size, options.timeout)
    if not versions.HAS_BACKENDS:
        return backend
    if _is_alone(options):
        return RailGroup(options.store, options.group_rank, size, backend)
    _alive.add(backend)
    return backend


def _nonce(store, size):
    """What tells this group from an earlier one of the same name on the same store; the same on all its ranks."""
    turn = (store.add("rail/members", 1) - 1) // size
    return store.compare_set(f"rail/nonce/{turn}", "", secrets.token_hex(8)).decode()


def _is_alone(options):
    """Whether the group has this backend and no other one, and nobody wraps it: then it can be the group itself."""
    group = getattr(options, "process_group", None)
    accelerator = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else None
    return (
        group is not None
        and group._get_backend_name() == "custom"
        and (accelerator and accelerator.type) in _KNOWN
        and dist.get_debug_level() != dist.DebugLevel.DETAIL
    )


class Rail(Reductions, Moves, Messages):
    """The operations of one process group over the engine: see `railyard.torch`."""

    def _open(self, rank, size, members=(), name="", timeout=None, default=False):
        """Takes the ranks of the group. Raises RuntimeError where the engine cannot serve them."""
        self._calls = calls()
        world = self._calls.communicator
        members = list(members) or list(range(size))
        if members == list(range(world.size)):
            if rank != world.rank:
                raise RuntimeError(
                    f"backend rail: this process is rank {world.rank} of the job, not {rank}: leave the numbers to "
                    f"the environment that the job sets, or pass rank={world.rank}"
                )
            self._ranks = Whole(self._calls, rank, size, "" if default else name)
        elif max(members) < world.size and world.rank in members:
            self._ranks = Part(self._calls, rank, members, name)
        else:
            raise RuntimeError(
                f"backend rail: a group of ranks {members} in a job of {world.size} ranks, of which this process is "
                f"{world.rank}: world_size must be {world.size}"
            )
        self._group = zlib.crc32(name.encode())
        self._limit = timeout
        self._number = 0
        #: For each thread the operation that is beginning, and its work where the group wants it (`RailGroup`).
        self._made = threading.local()

    def getBackendName(self):
        return NAME

    def shutdown(self):
        """The group is destroyed; the rank stays attached."""
        self._calls.mail.forget(self._group)
        _alive.discard(self)

    def set_timeout(self, timeout):
        """Limits calls from now on that name no limit of their own."""
        self._limit = timeout

    def _set_sequence_number_for_group(self):
        """Nothing: numbers begin at 0 on every rank."""

    def _get_sequence_number_for_group(self):
        """How many collectives this rank has begun in the group: where ranks differ, they are out of step."""
        return self._number


if versions.HAS_BACKENDS:
    from torch._C._distributed_c10d import Backend

    from .group import RailGroup

    class RailBackend(Rail, Backend):
        """What serves a process group of PyTorch's."""

        def __init__(self, rank, size, members=(), name="", timeout=None, default=False, _=None):
            Backend.__init__(self, rank, size)
            self._open(rank, size, members, name, timeout, default)
            self._options = Backend.Options(NAME, timeout) if timeout is not None else Backend.Options(NAME)

        # PyTorch asks the class for these; without an answer of ours its binding asks itself for ever.
        supports_splitting = False
        supports_coalescing = False
        supports_shrinking = False
        supports_reconfigure = False
        supports_window = False
        supports_abort_hooks = False
        supports_completion_hooks = False
        _supports_time_estimate = False

        @property
        def options(self):
            return self._options

else:
    from torch._C._distributed_c10d import ProcessGroup

    from .older import OlderGroup

    class RailBackend(OlderGroup, Rail, ProcessGroup):
        """The process group itself, and what serves it."""

        def __init__(self, rank, size, members=(), name="", timeout=None, default=False, store=None):
            self._begin_group(store, rank, size)
            self._open(rank, size, members, name, timeout, default)
