"""Calls: connections that are kept, deadlines, and calls tried again where that is safe and can help."""

from __future__ import annotations

import json
import os
import random
import ssl
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from . import errors
from ._http import MAX_ANSWER, Answer, Connection, ConnectionLost, Transport, left
from .config import Settings
from .errors import ApiError, ConfigError, DeadlineExceeded, InternalError, TlsError, Unavailable

T = TypeVar("T")

#: Seconds that a connection may take to be made, to one address.
CONNECT = 5.0
#: Connections that wait for the next call, and seconds after which one is not used again: the controller may end it.
IDLE, IDLE_FOR = 4, 8.0
#: Names of parameters that carry a request id: a call that has one may be repeated.
REQUEST_ID = "requestId"


@dataclass(frozen=True)
class Operation:
    """One call of the API."""

    #: Its `operationId` in the OpenAPI document.
    name: str
    method: str
    #: With `{field}` for what the path carries.
    path: str
    #: Done twice it is as if done once, so that it is repeated where the answer was lost.
    repeatable: bool
    #: The field that is the tenant's name where the caller gives none.
    tenant: str = ""
    #: It takes a request id, which is made here where the caller gives none.
    request_id: bool = False
    #: The fields are the body, not parameters.
    whole: bool = False
    #: The body is a document that says of which tenant it is.
    owned: bool = False


@dataclass(frozen=True)
class RetryPolicy:
    """How often, how soon and for how long a call is repeated; times are seconds.

    Repeated are calls that nobody answered (UNAVAILABLE), and those that the controller asks to be repeated later. A call without a
    request id that changes something is repeated only where it surely was not sent.
    """

    #: Calls in all, the first included.
    attempts: int = 5
    #: The longest first wait; it doubles with every attempt.
    first: float = 0.1
    #: The longest wait of all.
    longest: float = 2.0
    #: No call starts later than this after the first.
    within: float = 15.0

    def ceiling(self, made: int) -> float:
        """The backoff before jitter, after `made` attempts."""
        return min(self.first * 2.0 ** min(max(made - 1, 0), 32), self.longest)

    def wait(self, made: int, elapsed: float, error: ApiError, jitter: random.Random) -> float | None:
        """Seconds before the next attempt; None if the error must be given to the caller."""
        late = error.retry_after
        again = isinstance(error, Unavailable) or (late is not None and error.status == "RESOURCE_EXHAUSTED")
        if made >= self.attempts or not again:
            return None
        ceiling = self.ceiling(made)
        seconds = ceiling / 2 + jitter.uniform(0, ceiling / 2) if late is None else late + jitter.uniform(0, ceiling)
        return seconds if elapsed + seconds <= self.within else None


class Core:
    """The way to the controllers of one cluster. Threads may share one; tasks of one event loop as well."""

    def __init__(self, settings: Settings, transport: Transport, timeout: float, retry: RetryPolicy) -> None:
        self.settings = settings
        self.transport = transport
        self.timeout = timeout
        self.retry = retry
        self.jitter = random.Random()
        self.lock = threading.Lock()
        self.idle: list[Connection] = []
        #: Which endpoint is tried first: the last one that took a connection.
        self.first = 0
        self.closed = False
        self._tls: tuple[tuple[int, ...], ssl.SSLContext] | None = None

    def close(self) -> None:
        """Ends the connections that wait; calls under way go on."""
        with self.lock:
            self.closed = True
            idle, self.idle = self.idle, []
        for connection in idle:
            connection.close()

    def tls(self) -> ssl.SSLContext:
        """What is trusted and shown; files that were renewed are read again. Raises ConfigError if they were never good."""
        settings = self.settings
        with self.lock:
            kept = self._tls
        try:
            files = [name for name in (settings.ca, settings.cert, settings.key) if name]
            versions = tuple(os.stat(name).st_mtime_ns for name in files)
            if kept is not None and kept[0] == versions:
                return kept[1]
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_verify_locations(settings.ca)
            context.set_alpn_protocols(["http/1.1"])
            if settings.cert:
                context.load_cert_chain(settings.cert, settings.key)
        except (OSError, ssl.SSLError) as error:
            if kept is not None:
                # Files that are renewed one after the other do not fit together until the last one is there: what was good goes on,
                # and the next connection looks again.
                return kept[1]
            raise ConfigError(f"credentials: {error}") from error
        with self.lock:
            self._tls = (versions, context)
        return context

    async def connection(self, reuse: bool, deadline: float) -> Connection:
        """One that waits, or a new one to the first controller that takes it."""
        while reuse:
            with self.lock:
                if not self.idle:
                    break
                connection = self.idle.pop()
            if time.monotonic() - connection.idle_since < IDLE_FOR:
                return connection
            connection.close()
        tls, endpoints, failures = self.tls(), self.settings.controller, list[ApiError]()
        for step in range(len(endpoints)):
            at = (self.first + step) % len(endpoints)
            try:
                until = min(deadline, time.monotonic() + CONNECT)
                stream = await self.transport.dial(endpoints[at], tls, until)
            except (Unavailable, TlsError, DeadlineExceeded) as error:
                failures.append(error)
                continue
            self.first = at
            return Connection(stream, endpoints[at])
        left(deadline)
        if all(isinstance(error, TlsError) for error in failures):
            raise failures[0]
        raise Unavailable("; ".join(error.message for error in failures), reason="UNREACHABLE")

    def give_back(self, connection: Connection, answer: Answer) -> None:
        """Keeps a connection for the next call, if it can carry one."""
        connection.idle_since = time.monotonic()
        with self.lock:
            if not (answer.closes or connection.waiting or self.closed or len(self.idle) >= IDLE):
                self.idle.append(connection)
                return
        connection.close()

    async def call(
        self,
        operation: Operation,
        path: Mapping[str, str],
        fields: Mapping[str, object],
        body: object = None,
        timeout: float | None = None,
    ) -> Any:
        """The answer of a call. `fields` are parameters, or the body if that is the whole request. Raises ApiError."""
        request = self.request(operation, path, fields, body)
        seconds = self.timeout if timeout is None else timeout

        async def once(attempt: int) -> Any:
            # A connection that waited may be closed already: what may not be repeated gets a new one, and so does what failed.
            reuse = request.repeatable and attempt == 1
            await self.transport.enter()
            try:
                return await self.exchange(request, reuse, time.monotonic() + seconds)
            finally:
                self.transport.leave()

        return await self.repeat(operation.name, request.repeatable, once)

    async def repeat(self, operation: str, repeatable: bool, once: Callable[[int], Awaitable[T]]) -> T:
        """Tries until an answer comes that trying again would not change; bounded by the policy."""
        began, made = time.monotonic(), 0
        while True:
            made += 1
            try:
                return await once(made)
            except ApiError as error:
                # Nobody took a connection, or it was too much at once: then nothing was done.
                surely_not = error.reason == "UNREACHABLE" or error.status == "RESOURCE_EXHAUSTED"
                error.operation = error.operation or operation
                wait = self.retry.wait(made, time.monotonic() - began, error, self.jitter)
                if wait is None or not (repeatable or surely_not):
                    raise
                await self.transport.sleep(wait)

    def request(
        self, operation: Operation, path: Mapping[str, str], fields: Mapping[str, object], body: object
    ) -> Request:
        """A call as it is sent, with what the client fills in: the tenant, and a request id."""
        given = {name: value for name, value in fields.items() if value is not None}
        if operation.tenant and operation.tenant not in given and self.settings.tenant:
            given[operation.tenant] = self.settings.tenant
        if operation.request_id:
            given.setdefault(REQUEST_ID, str(uuid.uuid4()))
        target = operation.path
        for name, value in path.items():
            if not value:
                raise ConfigError(f"{operation.name}: {name} is empty")
            target = target.replace("{" + name + "}", quote(value, safe=""))
        if operation.whole:
            # A tenant that is named empty is as if it were not there.
            content: object = {name: value for name, value in given.items() if value != "" or name != operation.tenant}
        else:
            content = self.owned(body) if operation.owned else body
            query = {name: value for name, parameter in given.items() if (value := written(parameter))}
            target += f"?{urlencode(query)}" if query else ""
        try:
            data = None if content is None else json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{operation.name}: the request is no JSON: {error}") from error
        return Request(operation, target, data, operation.repeatable or operation.request_id)

    def owned(self, document: object) -> object:
        """A document of the client's tenant, where it names none."""
        if not isinstance(document, Mapping) or not self.settings.tenant:
            return document
        metadata = document.get("metadata") or {}
        if not isinstance(metadata, Mapping) or metadata.get("tenant"):
            return document
        return {**document, "metadata": {**metadata, "tenant": self.settings.tenant}}

    async def open(self, request: Request, reuse: bool, deadline: float, plain: bool) -> tuple[Connection, Answer]:
        """Sends a request; the answer's body is still to be read, unless it is an error, which is raised."""
        connection = await self.connection(reuse, deadline)
        method, target = request.operation.method, request.target
        reused = not connection.fresh
        try:
            headers = {"accept": "application/x-ndjson" if plain else "application/json"}
            if not plain:
                headers["accept-encoding"] = "gzip"
                headers["grpc-timeout"] = f"{min(max(int(left(deadline) * 1000), 1), 99_999_999)}m"
            if self.settings.token:
                headers["authorization"] = f"Bearer {self.settings.token}"
            try:
                answer = await connection.ask(method, target, headers, request.body, deadline)
            except ConnectionLost as lost:
                if not reused or lost.answered:
                    raise
                # It was closed while it waited: a new one, at once.
                connection.close()
                connection = await self.connection(False, deadline)
                answer = await connection.ask(method, target, headers, request.body, deadline)
            refusal = None if answer.code < 300 else await connection.whole(answer, deadline)
        except BaseException:
            connection.close()
            raise
        if refusal is None:
            return connection, answer
        self.give_back(connection, answer)
        raise errors.of_answer(readable(refusal), answer.code, request.operation.name)

    async def exchange(self, request: Request, reuse: bool, deadline: float) -> Any:
        """One attempt of a call."""
        connection, answer = await self.open(request, reuse, deadline, False)
        try:
            body = await connection.whole(answer, deadline)
        except BaseException:
            connection.close()
            raise
        self.give_back(connection, answer)
        value = readable(body)
        if value is None:
            raise InternalError("the answer is no JSON", reason="BROKEN_ANSWER", operation=request.operation.name)
        return value

    async def lines(self, request: Request, timeout: float | None = None) -> Lines:
        """A stream of JSON, begun; one attempt. `timeout` seconds are for its first byte."""
        seconds = self.timeout if timeout is None else timeout
        connection, answer = await self.open(request, False, time.monotonic() + seconds, True)
        return Lines(connection, answer, request.operation.name)


@dataclass(frozen=True)
class Request:
    """A call as it is sent."""

    operation: Operation
    target: str
    body: bytes | None
    repeatable: bool


class Lines:
    """A stream of JSON objects, one on each line."""

    def __init__(self, connection: Connection, answer: Answer, operation: str) -> None:
        self.connection = connection
        self.answer = answer
        self.operation = operation
        self.waiting = bytearray()
        self.searched = 0
        self.closed = False

    def close(self) -> None:
        """Ends the stream."""
        self.closed = True
        self.connection.close()

    async def next(self, deadline: float) -> Any:
        """The next object; None at a good end. Raises ApiError, also for an error that is the stream's last line.

        After a DeadlineExceeded of its own, in which it stays open, it may be asked again.
        """
        while (end := self.waiting.find(b"\n", self.searched)) < 0:
            self.searched = len(self.waiting)
            if len(self.waiting) > MAX_ANSWER:
                raise InternalError("a line of a stream is too long", reason="BROKEN_ANSWER", operation=self.operation)
            data, _ = await self.connection.part(self.answer, None, deadline)
            if not data:
                self.close()
                return None
            self.waiting += data
        line = bytes(self.waiting[:end])
        del self.waiting[: end + 1]
        self.searched = 0
        value = readable(line)
        if not isinstance(value, dict):
            raise InternalError("a line of a stream is no JSON", reason="BROKEN_ANSWER", operation=self.operation)
        if isinstance(value.get("error"), dict):
            self.close()
            raise errors.of_error(value["error"], 0, self.operation)
        return value


def readable(body: bytes) -> Any:
    """The JSON of a body; None if it is none."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def written(value: object) -> str:
    """A parameter as it stands in a query."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(written(one) for one in value)
    return str(value)
