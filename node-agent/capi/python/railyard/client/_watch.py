"""Streams: read line by line, and watches that are resumed by revision when the connection is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ._core import Core, Lines, Request
from .errors import (
    ApiError,
    Cancelled,
    DeadlineExceeded,
    Gone,
    InternalError,
    Overloaded,
    Unavailable,
    WaitTimeout,
)

E = TypeVar("E")

#: A connection that cannot be had again for so many seconds ends a watch.
AWAY = 60.0
#: A stream on which nothing came for so many seconds is opened anew: nothing is lost by it.
SILENT = 300.0
#: A stream that lived for so many seconds was a good connection, whether or not something came.
STEADY = 5.0
#: Failures that a new connection may heal.
HEALED = (Unavailable, Overloaded, InternalError, Cancelled, DeadlineExceeded)


class Resumer:
    """When a stream that was lost is opened again, and where it begins."""

    def __init__(
        self, core: Core, doing: str, deadline: float | None, doing_what: Callable[[], object] | None = None
    ) -> None:
        self.core = core
        self.doing = doing
        self.deadline = deadline
        #: The revision of the last event; 0: with the present state.
        self.revision = 0
        self.failures = 0
        self.away_since: float | None = None
        #: Since when there is a stream.
        self.opened_at: float | None = None

    def opened(self) -> None:
        """Notes that there is a stream again."""
        self.opened_at = time.monotonic()

    def arrived(self, revision: int) -> None:
        """Notes that an event of this revision arrived: the connection works."""
        self.failures, self.away_since = 0, None
        self.revision = max(self.revision, revision)

    def until(self) -> float:
        """How long to wait for the next line (`time.monotonic`). Raises WaitTimeout behind the deadline."""
        now = time.monotonic()
        if self.deadline is not None and now >= self.deadline:
            raise WaitTimeout(f"{self.doing}: it did not come in time")
        return now + SILENT if self.deadline is None else min(now + SILENT, self.deadline)

    async def lost(self, error: ApiError | None) -> None:
        """Waits before the next attempt, or raises the error that ends the stream. None: it has ended well."""
        self.until()
        if self.opened_at is not None and time.monotonic() - self.opened_at >= STEADY:
            self.failures, self.away_since = 0, None
        self.opened_at = None
        if isinstance(error, Gone):
            # The revision is too old to be resumed: begin with the present state.
            self.revision = 0
        elif error is not None:
            if not isinstance(error, HEALED):
                raise error
            self.away_since = self.away_since or time.monotonic()
            if time.monotonic() - self.away_since >= AWAY:
                raise error
        self.failures += 1
        ceiling = self.core.retry.ceiling(self.failures)
        seconds = ceiling / 2 + self.core.jitter.uniform(0, ceiling / 2)
        await self.core.transport.sleep(min(seconds, max(self.until() - time.monotonic(), 0)))


class Follower(Generic[E]):
    """Events of a watch, each once: what a resumed watch says again is left out."""

    def __init__(
        self, core: Core, open_: Callable[[int], Request], thing: str, doing: str, timeout: float | None
    ) -> None:
        self.core = core
        self.open = open_
        self.thing = thing
        self.resumer = Resumer(core, doing, None if timeout is None else time.monotonic() + timeout)
        self.lines: Lines | None = None
        self.synced = False
        self.closed = False
        self.seen: dict[str, int] = {}

    def close(self) -> None:
        """Ends the watch: there are no further events."""
        self.closed = True
        if self.lines is not None:
            self.lines.close()
            self.lines = None

    async def next(self) -> Any:
        """The next event that is new; None when the watch was closed. Raises ApiError or WaitTimeout."""
        while not self.closed:
            try:
                if self.lines is None:
                    until = self.resumer.until()
                    seconds = min(self.core.timeout, until - time.monotonic())
                    self.lines = await self.core.lines(self.open(self.resumer.revision), max(seconds, 0.001))
                    self.resumer.opened()
                event, silent = await self.line()
            except ApiError as error:
                self.drop()
                await self.resumer.lost(error)
                continue
            except BaseException:
                self.drop()
                raise
            if silent:
                self.drop()
            elif event is None:
                self.drop()
                await self.resumer.lost(None)
            elif self.fresh(event):
                return event
        return None

    async def line(self) -> tuple[Any, bool]:
        """The next event of the present stream, or that nothing came for long."""
        lines = self.lines
        if lines is None:
            return None, False
        try:
            return await lines.next(self.resumer.until()), False
        except DeadlineExceeded:
            if lines.closed:
                raise
            self.resumer.until()
            return None, True

    def drop(self) -> None:
        if self.lines is not None:
            self.lines.close()
            self.lines = None

    def fresh(self, event: dict[str, Any]) -> bool:
        """Notes an event; False if it says what is known."""
        self.resumer.arrived(int(event.get("revision", 0)))
        kind = event.get("type")
        if kind == "SYNCED":
            known, self.synced = self.synced, True
            return not known
        metadata = event.get(self.thing, {}).get("metadata", {})
        key = f"{metadata.get('tenant', '')}/{metadata.get('name', '')}/{metadata.get('uid', '')}"
        if kind == "DELETE":
            self.seen.pop(key, None)
            return True
        version = int(metadata.get("resourceVersion", 0))
        known_version = self.seen.get(key)
        self.seen[key] = version
        return known_version is None or version == 0 or version > known_version
