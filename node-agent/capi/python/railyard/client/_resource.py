"""What the classes of the services stand on: calls, lists in pages, streams; each blocking and asynchronous."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar

from ._core import Core, Lines, Operation, Request
from ._http import run
from ._watch import SILENT, Follower
from .errors import ApiError, InternalError

E = TypeVar("E")
#: Rows that are asked for at a time, and pages that a list has at most: a server that never ends one is wrong.
PAGE, MAX_PAGES = 200, 100_000


async def pages(
    core: Core,
    operation: Operation,
    path: Mapping[str, str],
    fields: Mapping[str, object],
    rows: str,
    timeout: float | None,
) -> list[Any]:
    """All rows of a list. `timeout` is for each page."""
    found: list[Any] = []
    token = ""
    for _ in range(MAX_PAGES):
        answer = await core.call(
            operation, path, {**fields, "pageSize": PAGE, "pageToken": token or None}, None, timeout
        )
        found += answer.get(rows, ())
        token = answer.get("nextPageToken", "")
        if not token:
            return found
    raise InternalError("a list does not end", reason="BROKEN_ANSWER", operation=operation.name)


def follower(
    core: Core, operation: Operation, path: Mapping[str, str], fields: Mapping[str, object], timeout: float | None
) -> Follower[Any]:
    """A watch, not yet begun; it begins after the revision that `fields` names."""
    thing = "node" if operation.name == "watchNodes" else "job"

    def request(revision: int) -> Request:
        return core.request(operation, path, {**fields, "afterRevision": revision or None}, None)

    found: Follower[Any] = Follower(core, request, thing, operation.name, timeout)
    begin = fields.get("afterRevision")
    found.resumer.revision = int(str(begin)) if begin else 0
    return found


class Watch(Generic[E]):
    """Events, as they come: an iterator without an end, which `close` or the `timeout` of the watch (WaitTimeout) ends.

    First comes what is, as PUT, then SYNCED, then every change. A lost connection is resumed where it was. `close` may be called in
    another thread than that which waits for an event.
    """

    def __init__(self, follower: Follower[E]) -> None:
        self._follower = follower

    @property
    def revision(self) -> int:
        """Up to here all was given: a later watch goes on behind it with `after_revision`.

        A watch that begins with what is there has 0 before SYNCED. After a change it is the revision before, because more may have changed
        in the same one: a later watch gives that change again.
        """
        return self._follower.resumer.revision

    def __iter__(self) -> Iterator[E]:
        return self

    def __next__(self) -> E:
        event: E | None = run(self._follower.next())
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """Ends the watch."""
        self._follower.close()

    def __enter__(self) -> Watch[E]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncWatch(Generic[E]):
    """The same for an event loop: `async for`."""

    def __init__(self, follower: Follower[E]) -> None:
        self._follower = follower

    @property
    def revision(self) -> int:
        """As `Watch.revision`."""
        return self._follower.resumer.revision

    def __aiter__(self) -> AsyncIterator[E]:
        return self

    async def __anext__(self) -> E:
        event: E | None = await self._follower.next()
        if event is None:
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        """Ends the watch."""
        self._follower.close()

    async def __aenter__(self) -> AsyncWatch[E]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Reading:
    """A stream that ends and is not resumed: begun with the first row, by a call that is tried again until it is answered."""

    def __init__(self, core: Core, request: Request) -> None:
        self.core = core
        self.request = request
        self.lines: Lines | None = None
        self.closed = False

    async def next(self) -> Any:
        """The next row; None at the end. A stream that is silent for five minutes raises DeadlineExceeded."""
        if self.closed:
            return None
        lines = self.lines
        if lines is None:
            lines = await self.core.repeat(self.request.operation.name, True, lambda _: self.core.lines(self.request))
            self.lines = lines
            if self.closed:
                self.close()
                return None
        try:
            row = await lines.next(time.monotonic() + SILENT)
        except BaseException as error:
            ended = self.closed and isinstance(error, ApiError)
            self.close()
            if ended:
                return None
            raise
        if row is None:
            self.close()
        return row

    def close(self) -> None:
        self.closed = True
        lines, self.lines = self.lines, None
        if lines is not None:
            lines.close()


class Records(Generic[E]):
    """The rows of a stream that ends: an iterator."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __iter__(self) -> Iterator[E]:
        return self

    def __next__(self) -> E:
        row: E | None = run(self._reading.next())
        if row is None:
            raise StopIteration
        return row

    def close(self) -> None:
        """Ends the stream."""
        self._reading.close()

    def __enter__(self) -> Records[E]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncRecords(Generic[E]):
    """The same for an event loop: `async for`."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __aiter__(self) -> AsyncIterator[E]:
        return self

    async def __anext__(self) -> E:
        row: E | None = await self._reading.next()
        if row is None:
            raise StopAsyncIteration
        return row

    def close(self) -> None:
        """Ends the stream."""
        self._reading.close()

    async def __aenter__(self) -> AsyncRecords[E]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Resource:
    """The calls of one service, blocking. Each raises ApiError; `timeout` is in seconds, by default the client's."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def _call(
        self,
        operation: Operation,
        path: Mapping[str, str],
        fields: Mapping[str, object],
        body: object,
        timeout: float | None,
    ) -> Any:
        return run(self._core.call(operation, path, fields, body, timeout))

    def _pages(
        self,
        operation: Operation,
        path: Mapping[str, str],
        fields: Mapping[str, object],
        rows: str,
        timeout: float | None,
    ) -> Any:
        return run(pages(self._core, operation, path, fields, rows, timeout))

    def _watch(
        self, operation: Operation, path: Mapping[str, str], fields: Mapping[str, object], timeout: float | None
    ) -> Watch[Any]:
        return Watch(follower(self._core, operation, path, fields, timeout))

    def _records(self, operation: Operation, path: Mapping[str, str], fields: Mapping[str, object]) -> Records[Any]:
        return Records(Reading(self._core, self._core.request(operation, path, fields, None)))


class AsyncResource:
    """The calls of one service, for an event loop. Each raises ApiError; `timeout` is in seconds, by default the client's."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def _call(
        self,
        operation: Operation,
        path: Mapping[str, str],
        fields: Mapping[str, object],
        body: object,
        timeout: float | None,
    ) -> Any:
        return await self._core.call(operation, path, fields, body, timeout)

    async def _pages(
        self,
        operation: Operation,
        path: Mapping[str, str],
        fields: Mapping[str, object],
        rows: str,
        timeout: float | None,
    ) -> Any:
        return await pages(self._core, operation, path, fields, rows, timeout)

    def _watch(
        self, operation: Operation, path: Mapping[str, str], fields: Mapping[str, object], timeout: float | None
    ) -> AsyncWatch[Any]:
        return AsyncWatch(follower(self._core, operation, path, fields, timeout))

    def _records(
        self, operation: Operation, path: Mapping[str, str], fields: Mapping[str, object]
    ) -> AsyncRecords[Any]:
        return AsyncRecords(Reading(self._core, self._core.request(operation, path, fields, None)))
