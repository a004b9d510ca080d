"""Streams: read line by line, and watches that are resumed by revision when the connection is lost."""

from __future__ import annotations

import time
from collections import deque
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
        #: All changes up to this revision were given, so that a stream may go on behind it; 0: with the present state.
        self.revision = 0
        self.failures = 0
        self.away_since: float | None = None
        #: Since when there is a stream.
        self.opened_at: float | None = None

    def opened(self) -> None:
        """Notes that there is a stream again."""
        self.opened_at = time.monotonic()

    def arrived(self, forward: bool = True) -> None:
        """Notes that something arrived: the connection works. `forward`: the next stream will go on behind it, and not say it again."""
        self.away_since = None
        if forward:
            self.failures = 0

    def reached(self, revision: int) -> None:
        """Notes that all changes up to this revision were given."""
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
    """Events of a watch, each once: what a resumed watch says again is left out, and what it does not say is added.

    A stream that begins with revision 0 first gives a snapshot: what is, in the order of names, each with the revision of its own last
    change. Only SYNCED says that all of it has come, so a stream that is lost before begins anew. What vanished between two snapshots
    has no event of the server's: its DELETE is made here, when the later snapshot is complete.
    """

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
        #: What there is, as it was told: uid and version by tenant and name.
        self.seen: dict[str, tuple[str, int]] = {}
        #: What the present snapshot has told so far; None behind its SYNCED.
        self.snapshot: set[str] | None = None
        #: The revision of the last change, and of what it was told: one revision may change many things.
        self.last: tuple[int, set[str]] = (0, set())
        #: Events that came, or follow from what came, and were not given yet.
        self.due: deque[dict[str, Any]] = deque()

    def close(self) -> None:
        """Ends the watch: there are no further events. Whoever waits for one, in another thread, is woken."""
        self.closed = True
        self.drop()

    async def next(self) -> Any:
        """The next event that is new; None when the watch was closed. Raises ApiError or WaitTimeout."""
        while not self.closed:
            if self.due:
                event = self.due.popleft()
                if self.fresh(event):
                    return event
                continue
            try:
                came, silent = await self.line()
            except ApiError as error:
                self.drop()
                if not self.closed:
                    await self.resumer.lost(error)
                continue
            except BaseException:
                self.drop()
                raise
            if came is not None:
                self.due.extend(self.with_deleted(came))
                continue
            self.drop()
            if not (silent or self.closed):
                await self.resumer.lost(None)
        self.drop()
        return None

    async def line(self) -> tuple[Any, bool]:
        """The next event of the present stream, or of a new one (None: it ended), and whether nothing came for long."""
        lines = self.lines
        if lines is None:
            seconds = min(self.core.timeout, self.resumer.until() - time.monotonic())
            lines = await self.core.lines(self.open(self.resumer.revision), max(seconds, 0.001))
            self.snapshot = None if self.resumer.revision else set()
            self.lines = lines
            self.resumer.opened()
            if self.closed:
                return None, False
        try:
            return await lines.next(self.resumer.until()), False
        except DeadlineExceeded:
            if lines.closed:
                raise
            self.resumer.until()
            return None, True

    def drop(self) -> None:
        lines, self.lines = self.lines, None
        if lines is not None:
            lines.close()

    def about(self, event: dict[str, Any]) -> tuple[str, str, int]:
        """What an event is about: tenant and name, uid, and version."""
        metadata = event.get(self.thing, {}).get("metadata", {})
        key = f"{metadata.get('tenant', '')}/{metadata.get('name', '')}"
        return key, str(metadata.get("uid", "")), int(metadata.get("resourceVersion", 0))

    def with_deleted(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """An event that came, behind the DELETEs that follow from it where it is of a snapshot."""
        last = event.get("type") == "SYNCED"
        self.resumer.arrived(last or self.snapshot is None)
        if self.snapshot is None:
            return [event]
        if last:
            gone = [key for key in self.seen if key not in self.snapshot]
        else:
            # Another thing of the same name: the one that was told of is not there any more.
            key, uid, _ = self.about(event)
            gone = [key] if key in self.seen and self.seen[key][0] != uid else []
        return [*(self.deleted(key, event.get("revision", "0")) for key in gone), event]

    def deleted(self, key: str, revision: object) -> dict[str, Any]:
        """The DELETE of what is known, as the server gives it where it does not know the last value, and with uid and version."""
        tenant, _, name = key.partition("/")
        uid, version = self.seen[key]
        metadata = {"name": name, "tenant": tenant, "uid": uid, "resourceVersion": str(version) if version else ""}
        thing = {"metadata": {field: value for field, value in metadata.items() if value}}
        return {"type": "DELETE", self.thing: thing, "revision": revision}

    def fresh(self, event: dict[str, Any]) -> bool:
        """Notes an event; False if it says what is known."""
        kind, revision = event.get("type"), int(event.get("revision", 0))
        if kind == "SYNCED":
            self.snapshot = None
            self.resumer.reached(revision)
            known, self.synced = self.synced, True
            return not known
        key, uid, version = self.about(event)
        if self.snapshot is not None:
            self.snapshot.add(key)
        elif revision > 0:
            # Further changes of this revision may follow, so that a stream which goes on must give it again.
            self.resumer.reached(revision - 1)
            if revision != self.last[0]:
                self.last = (revision, set())
            if key in self.last[1]:
                return False
            self.last[1].add(key)
        if kind == "DELETE":
            self.seen.pop(key, None)
            return True
        before = self.seen.get(key)
        self.seen[key] = (uid, version)
        return before is None or before[0] != uid or version == 0 or version > before[1]
