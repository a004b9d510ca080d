"""Calls under way."""

import ctypes
import itertools
import math
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from . import _library, errors

if TYPE_CHECKING:
    from .communicator import Communicator

#: Requests with a callback, by the number that the library gives back. This also keeps them alive.
_waiting: dict[int, "Request"] = {}
_numbers = itertools.count(1)

#: How long a wait stays inside the library, in seconds: between two stays Python handles signals, such as that of ctrl-C.
_SIGNALS = 0.1


@_library.CALLBACK  # type: ignore[untyped-decorator, unused-ignore]
def _done(status: int, context: int) -> None:
    request = _waiting.pop(context, None)
    if request is not None:
        request._note(status)


class Request:
    """A call that was begun with `wait=False`. It keeps the call's memory alive until the call is over.

    Dropping it gives the result up (the other ranks still get theirs), unless it has a callback or is awaited.
    """

    def __init__(self, communicator: "Communicator", handle: Any, keep: Any) -> None:
        self._communicator = communicator
        self._library: Any = communicator._library
        self._handle = handle
        self._keep = keep
        self._way: str = self._library.rail_request_way(handle).decode(errors="replace")
        self._lock = threading.Lock()
        self._status = _library.PENDING
        self._error: errors.RailError | None = None
        self._callbacks: list[Callable[[Request], object]] = []
        self._watched = False

    @property
    def over(self) -> bool:
        """Whether the call is known to be over; `done` asks the library too."""
        return self._status != _library.PENDING

    def progress(self) -> None:
        """Lets the library go on with the call where nobody waits for it; its outcome is left for whoever asks. Calls nobody back."""
        if self._status == _library.PENDING and not self._watched:
            self._library.rail_request_test(self._handle)

    def done(self) -> bool:
        """Whether the call is over, well or not."""
        if self._status == _library.PENDING:
            self._note(self._library.rail_request_test(self._handle))
        return self._status != _library.PENDING

    @property
    def way(self) -> str:
        """Which way the bytes of operands on GPUs take, and why; empty where there are none."""
        return self._way

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the call is complete. Raises what made it fail, or TimedOut after `timeout` seconds (and the call
        goes on)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._status == _library.PENDING:
            left = _SIGNALS if deadline is None else min(_SIGNALS, deadline - time.monotonic())
            self._note(self._library.rail_request_wait(self._handle, max(1, math.ceil(left * 1000))))
            if self._status == _library.PENDING and deadline is not None and time.monotonic() >= deadline:
                raise errors.TimedOut(f"not complete within {timeout} s; the call goes on")
        if self._error is not None:
            raise self._error

    def exception(self) -> errors.RailError | None:
        """What made the call fail, if it is over and did."""
        self.done()
        return self._error

    def add_done_callback(self, function: "Callable[[Request], object]") -> None:
        """Has `function(request)` called when the call is over: on a thread of the library, or at once if it is."""
        with self._lock:
            over = self._status != _library.PENDING
            watch = not over and not self._watched
            if not over:
                self._callbacks.append(function)
                self._watched = True
        if over:
            function(self)
        if not watch:
            return
        number = next(_numbers)
        _waiting[number] = self
        status = self._library.rail_request_on_done(self._handle, _done, number)
        if status < 0:
            _waiting.pop(number, None)
            self._communicator._check(status)

    def __await__(self) -> Generator[Any, None, None]:
        import asyncio

        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def tell() -> None:
            if not future.done():
                future.set_result(None)

        self.add_done_callback(lambda _: loop.call_soon_threadsafe(tell))
        yield from future.__await__()
        self.wait()

    def _note(self, status: int) -> None:
        """Takes the outcome in, once. No lock is held in calls of the library, which may call back."""
        if status == _library.PENDING:
            return
        with self._lock:
            if self._status != _library.PENDING:
                return
            if status < 0:
                text = self._library.rail_request_error(self._handle).decode(errors="replace")
                self._error = errors.of_status(status, text or f"status {status}")
            self._status = status
            self._keep = None
            callbacks, self._callbacks = self._callbacks, []
        for function in callbacks:
            function(self)

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle is not None and self._communicator._mine():
            self._library.rail_request_free(handle)

