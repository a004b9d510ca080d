"""Failures as exceptions: one class for each status of rail.h, all of them a RailError."""


class RailError(RuntimeError):
    """A call of librail failed. `status` is the negative number that rail.h names, the text says what to do."""

    status = 0

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        if status is not None:
            self.status = status


class InvalidArgument(RailError, ValueError):
    """An argument or the environment makes no sense; nothing was begun."""

    status = -1


class Mismatch(RailError):
    """Ranks made different calls."""

    status = -2


class Denied(RailError, PermissionError):
    """The engine does not serve this process."""

    status = -3


class Exhausted(RailError):
    """A limit was reached: buffers, bytes, calls under way. Nothing was begun."""

    status = -4


class TimedOut(RailError, TimeoutError):
    """Not complete in time."""

    status = -5


class RankLost(RailError):
    """Another rank of the job ended."""

    status = -6


class PeerLost(RailError):
    """Another node of the job is gone."""

    status = -7


class RailLost(RailError):
    """Rails to another node are gone."""

    status = -8


class Stopped(RailError):
    """The job is being stopped."""

    status = -9


class NotReady(RailError):
    """The engine is not ready."""

    status = -10


class ProtocolError(RailError):
    """Library and engine do not understand each other."""

    status = -11


class InternalError(RailError):
    """The engine failed."""

    status = -12


class EngineLost(RailError, ConnectionError):
    """The engine is gone, or was never there."""

    status = -13


class LibraryBug(RailError):
    """librail itself failed."""

    status = -100


_BY_STATUS: dict[int, type[RailError]] = {
    kind.status: kind
    for kind in (
        InvalidArgument,
        Mismatch,
        Denied,
        Exhausted,
        TimedOut,
        RankLost,
        PeerLost,
        RailLost,
        Stopped,
        NotReady,
        ProtocolError,
        InternalError,
        EngineLost,
        LibraryBug,
    )
}


def of_status(status: int, text: str) -> RailError:
    """The exception for a negative status; a status that is newer than this package becomes a plain RailError."""
    return _BY_STATUS.get(status, RailError)(text, status)
