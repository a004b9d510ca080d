"""HTTP/1.1 over TLS 1.3, as little of it as the API needs, over streams that block or that an event loop drives.

All of it is written as coroutines. Those of a blocking stream never wait for an event loop, so that `run` carries them through.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from .config import Endpoint
from .errors import DeadlineExceeded, InternalError, Overloaded, TlsError, TooLarge, Unavailable

T = TypeVar("T")

#: Bytes of an answer's head, of an answer (unpacked), and of one line of a stream that are taken at most.
MAX_HEAD = 64 * 1024
MAX_ANSWER = 64 * 1024 * 1024
#: Bytes that are read at a time.
READ = 64 * 1024
#: Calls of one client that are under way at a time; others wait, threads at most so many seconds. Streams are not counted.
CALLS, QUEUED = 32, 600.0
#: A peer that is gone without a word is known after some 50 s: seconds idle, between probes, and their number.
KEEPALIVE = (20, 10, 3)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Carries a coroutine through whose streams block."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a blocking call waits for an event loop")


def left(deadline: float) -> float:
    """Seconds until `deadline` (`time.monotonic`). Raises DeadlineExceeded if there are none."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise DeadlineExceeded("the call took longer than it may", reason="DEADLINE_EXCEEDED")
    return seconds


class ConnectionLost(Unavailable):
    """A connection broke. `answered` says whether a part of an answer had come."""

    answered = False


class Stream(Protocol):
    """Bytes to and from a controller, inside of TLS."""

    async def read(self, deadline: float) -> bytes:
        """Some bytes; none at the end."""

    async def write(self, data: bytes, deadline: float) -> None:
        """Sends all of it."""

    def close(self) -> None:
        """Ends the connection at once."""


class Transport(Protocol):
    """How streams are opened, and how time passes."""

    async def dial(self, endpoint: Endpoint, tls: ssl.SSLContext, deadline: float) -> Stream:
        """A stream to an endpoint. Raises Unavailable, TlsError or DeadlineExceeded."""

    async def sleep(self, seconds: float) -> None:
        """Waits."""

    async def enter(self) -> None:
        """Waits until less than `CALLS` calls are under way. Threads raise Overloaded after `QUEUED` seconds."""

    def leave(self) -> None:
        """Says that a call which has entered is over."""


def refused(endpoint: Endpoint, error: OSError) -> Unavailable | TlsError:
    """A failure to connect as an exception of ours."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = (
            f"{endpoint}: the controller's certificate is not trusted: {getattr(error, 'verify_message', '') or error}"
        )
        return TlsError(text, reason="CERTIFICATE_NOT_TRUSTED")
    return Unavailable(f"{endpoint}: {error.strerror or error}", reason="UNREACHABLE")


def broken(error: OSError | None) -> ConnectionLost | TlsError:
    """A failure of a connection that was made: in TLS 1.3 it also shows whether the server takes our certificate."""
    if (
        isinstance(error, ssl.SSLError)
        and "ALERT" in (error.reason or "")
        and "CLOSE_NOTIFY" not in (error.reason or "")
    ):
        return TlsError(f"the controller ended the handshake: {error.reason}", reason="CERTIFICATE_REFUSED")
    return ConnectionLost(f"the connection was lost: {error or 'it was closed'}", reason="CONNECTION_LOST")


def keep_alive(sock: socket.socket) -> None:
    """Has the kernel find out that a peer is gone."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in zip(("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"), KEEPALIVE, strict=True):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class BlockingStream:
    """A stream on a socket that blocks. One thread reads and writes; any thread may close it, which wakes that one."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self.sock = sock
        #: Taken twice by a thread whose signal handler closes.
        self.lock = threading.RLock()
        self.used, self.closed = False, False

    @contextmanager
    def use(self) -> Iterator[None]:
        """While the socket is read or written. Raises ConnectionLost if it is closed."""
        with self.lock:
            if self.closed:
                raise broken(None)
            self.used = True
        try:
            yield
        finally:
            with self.lock:
                self.used = False
                if self.closed:
                    self.sock.close()

    async def read(self, deadline: float) -> bytes:
        with self.use():
            return self.receive(deadline)

    def receive(self, deadline: float) -> bytes:
        self.sock.settimeout(left(deadline))
        try:
            return self.sock.recv(READ)
        except TimeoutError as error:
            raise DeadlineExceeded("the call took longer than it may", reason="DEADLINE_EXCEEDED") from error
        except ssl.SSLEOFError:
            return b""
        except OSError as error:
            raise broken(error) from error

    async def write(self, data: bytes, deadline: float) -> None:
        with self.use():
            self.send(data, deadline)

    def send(self, data: bytes, deadline: float) -> None:
        self.sock.settimeout(left(deadline))
        try:
            self.sock.sendall(data)
        except TimeoutError as error:
            raise DeadlineExceeded("the call took longer than it may", reason="DEADLINE_EXCEEDED") from error
        except OSError as error:
            raise broken(error) from error

    def close(self) -> None:
        with self.lock:
            self.closed = True
            if not self.used:
                self.sock.close()
                return
            # Closing wakes nobody, and would give the descriptor to another socket while this one is read: the reader closes it. Not
            # that of SSLSocket, which takes away what the reader decrypts with.
            try:
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
            except OSError:
                # The peer has ended it already, which wakes the reader as well.
                pass


def crowded() -> Overloaded:
    """The error of a call that waited too long for others of the same client."""
    text = f"{CALLS} calls of this client were under way for {QUEUED:g} s"
    return Overloaded(text, reason="CLIENT_OVERLOADED")


class Blocking:
    """Sockets that block: for threads."""

    def __init__(self) -> None:
        self.slots = threading.BoundedSemaphore(CALLS)

    async def enter(self) -> None:
        if not self.slots.acquire(timeout=QUEUED):
            raise crowded()

    def leave(self) -> None:
        self.slots.release()

    async def dial(self, endpoint: Endpoint, tls: ssl.SSLContext, deadline: float) -> Stream:
        """As `Transport.dial`."""
        raw: socket.socket | None = None
        try:
            if endpoint.path:
                raw = socket.socket(socket.AF_UNIX)
                raw.settimeout(left(deadline))
                raw.connect(endpoint.path)
            else:
                raw = socket.create_connection((endpoint.host, endpoint.port), left(deadline))
            keep_alive(raw)
            raw.settimeout(left(deadline))
            return BlockingStream(tls.wrap_socket(raw, server_hostname=endpoint.server_name))
        except OSError as error:
            if raw is not None:
                raw.close()
            raise error if isinstance(error, DeadlineExceeded) else refused(endpoint, error) from error

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class AsyncStream:
    """A stream that an event loop drives."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self, deadline: float) -> bytes:
        try:
            return await asyncio.wait_for(self.reader.read(READ), left(deadline))
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise DeadlineExceeded("the call took longer than it may", reason="DEADLINE_EXCEEDED") from error
        except ssl.SSLEOFError:
            return b""
        except OSError as error:
            raise broken(error) from error

    async def write(self, data: bytes, deadline: float) -> None:
        try:
            self.writer.write(data)
            await asyncio.wait_for(self.writer.drain(), left(deadline))
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise DeadlineExceeded("the call took longer than it may", reason="DEADLINE_EXCEEDED") from error
        except OSError as error:
            raise broken(error) from error

    def close(self) -> None:
        self.writer.transport.abort()


class Async:
    """Streams of the event loop that runs."""

    def __init__(self) -> None:
        self.slots = asyncio.BoundedSemaphore(CALLS)

    async def enter(self) -> None:
        # Every call ahead has its deadline, so that this ends. A limit by wait_for could lose a slot where the caller is cancelled.
        await self.slots.acquire()

    def leave(self) -> None:
        self.slots.release()

    async def dial(self, endpoint: Endpoint, tls: ssl.SSLContext, deadline: float) -> Stream:
        """As `Transport.dial`."""
        seconds = left(deadline)
        if endpoint.path:
            opening = asyncio.open_unix_connection(
                endpoint.path, ssl=tls, server_hostname=endpoint.server_name, limit=READ
            )
        else:
            opening = asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=tls, server_hostname=endpoint.server_name, limit=READ
            )
        try:
            reader, writer = await asyncio.wait_for(opening, seconds)
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise Unavailable(f"{endpoint}: timed out", reason="UNREACHABLE") from error
        except OSError as error:
            raise refused(endpoint, error) from error
        sock = writer.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock)
        return AsyncStream(reader, writer)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Answer:
    """The head of an answer."""

    code: int
    headers: dict[str, str]

    @property
    def chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower().endswith("chunked")

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close" or not (
            self.chunked or "content-length" in self.headers
        )


@dataclass
class Connection:
    """One connection, on which one call is made at a time."""

    stream: Stream
    endpoint: Endpoint
    waiting: bytearray = field(default_factory=bytearray)
    #: No call was made on it yet.
    fresh: bool = True
    #: Since when nothing is asked on it (`time.monotonic`).
    idle_since: float = 0.0

    def close(self) -> None:
        self.stream.close()

    async def more(self, deadline: float) -> bool:
        """Waits for further bytes; False at the end."""
        data = await self.stream.read(deadline)
        self.waiting += data
        return bool(data)

    async def ask(
        self, method: str, target: str, headers: dict[str, str], body: bytes | None, deadline: float
    ) -> Answer:
        """Sends a request and reads the head of the answer."""
        lines = [f"{method} {target} HTTP/1.1", f"host: {self.endpoint.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines += ["content-type: application/json", f"content-length: {len(body)}"]
        elif method not in ("GET", "DELETE"):
            lines.append("content-length: 0")
        request = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + (body or b"")
        await self.stream.write(request, deadline)
        self.fresh = False
        while True:
            answer = await self.head(deadline)
            if answer.code >= 200:
                return answer

    async def head(self, deadline: float) -> Answer:
        """Reads up to the empty line."""
        while (end := self.waiting.find(b"\r\n\r\n", 0, MAX_HEAD)) < 0:
            if len(self.waiting) >= MAX_HEAD:
                raise InternalError("the head of an answer is too large", reason="BROKEN_ANSWER")
            if not await self.more(deadline):
                lost = broken(None)
                if isinstance(lost, ConnectionLost):
                    lost.answered = bool(self.waiting)
                raise lost
        lines = bytes(self.waiting[:end]).decode("latin-1").split("\r\n")
        del self.waiting[: end + 4]
        version, _, rest = lines[0].partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise InternalError("the answer is no HTTP", reason="BROKEN_ANSWER")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return Answer(int(rest[:3]), headers)

    async def part(self, answer: Answer, size: int | None, deadline: float) -> tuple[bytes, int | None]:
        """Some bytes of a body, and how many of it follow (None: nobody knows). No bytes: it has ended.

        `size` is what the call before gave, None in the first.
        """
        if answer.chunked:
            return await self.chunk(deadline), None
        if "content-length" in answer.headers:
            follow = int(answer.headers["content-length"]) if size is None else size
            if follow and not self.waiting and not await self.more(deadline):
                raise broken(None)
            data = bytes(self.waiting[:follow])
            del self.waiting[: len(data)]
            return data, follow - len(data)
        if not self.waiting:
            await self.more(deadline)
        data = bytes(self.waiting)
        self.waiting.clear()
        return data, None

    async def chunk(self, deadline: float) -> bytes:
        """One chunk; none at the end of all. Nothing is taken before all of it is there: whoever ran out of time may ask again."""
        while (end := self.waiting.find(b"\r\n", 0, MAX_HEAD)) < 0:
            if len(self.waiting) >= MAX_HEAD:
                raise InternalError("an answer cannot be read", reason="BROKEN_ANSWER")
            await self.surely_more(deadline)
        try:
            size = int(bytes(self.waiting[:end]).split(b";")[0].strip(), 16)
        except ValueError as error:
            raise InternalError("an answer cannot be read", reason="BROKEN_ANSWER") from error
        if not 0 <= size <= MAX_ANSWER:
            raise TooLarge(f"an answer has more than {MAX_ANSWER} bytes", reason="ANSWER_TOO_LARGE")
        if size == 0:
            await self.trailers(end, deadline)
            return b""
        begin = end + 2
        while len(self.waiting) < begin + size + 2:
            await self.surely_more(deadline)
        data = bytes(self.waiting[begin : begin + size])
        del self.waiting[: begin + size + 2]
        return data

    async def trailers(self, begin: int, deadline: float) -> None:
        """Reads what stands behind the last chunk, whose line ends at `begin`."""
        while (end := self.waiting.find(b"\r\n\r\n", begin, begin + MAX_HEAD)) < 0:
            if len(self.waiting) >= begin + MAX_HEAD:
                raise InternalError("an answer cannot be read", reason="BROKEN_ANSWER")
            await self.surely_more(deadline)
        del self.waiting[: end + 4]

    async def surely_more(self, deadline: float) -> None:
        """Waits for further bytes of an answer that has not ended."""
        if not await self.more(deadline):
            raise broken(None)

    async def whole(self, answer: Answer, deadline: float) -> bytes:
        """All of a body, unpacked."""
        parts: list[bytes] = []
        total, follow = 0, None
        while True:
            data, follow = await self.part(answer, follow, deadline)
            parts.append(data)
            total += len(data)
            if total > MAX_ANSWER:
                raise TooLarge(f"an answer has more than {MAX_ANSWER} bytes", reason="ANSWER_TOO_LARGE")
            if not data or follow == 0:
                break
        body = b"".join(parts)
        return unpacked(body) if answer.headers.get("content-encoding") == "gzip" else body


def unpacked(body: bytes) -> bytes:
    """The content of a gzipped body."""
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        content = unpacker.decompress(body, MAX_ANSWER)
    except zlib.error as error:
        raise InternalError("an answer cannot be unpacked", reason="BROKEN_ANSWER") from error
    if unpacker.unconsumed_tail:
        raise TooLarge(f"an answer has more than {MAX_ANSWER} bytes", reason="ANSWER_TOO_LARGE")
    return content
