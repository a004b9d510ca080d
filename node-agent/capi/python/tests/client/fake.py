"""A server that answers as a test says, on a port that the kernel chooses, without TLS; and clients of it."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from railyard.client import AsyncClient, Client, RetryPolicy, Settings
from railyard.client._core import Core
from railyard.client._http import Async, AsyncStream, Blocking, BlockingStream, Stream, left, refused
from railyard.client.config import Endpoint

#: Waits that a test can afford.
QUICK = RetryPolicy(first=0.001, longest=0.002)


@dataclass
class Asked:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: Any


def http(body: object, code: int = 200, **headers: str) -> bytes:
    """An answer with the JSON of `body`."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {code} x", f"content-length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def refusal(code: int, kind: str, reason: str, **more: object) -> bytes:
    """An error of the API."""
    error = {"code": code, "class": kind, "reason": reason, "message": f"{reason} it is", **more}
    return http({"error": error}, code)


def chunked(*parts: bytes, end: bool = True) -> bytes:
    """A stream of which each part is a chunk."""
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return head + body + (b"0\r\n\r\n" if end else b"")


def packed(body: object) -> bytes:
    """The same as `http`, packed."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    return http(packer.compress(json.dumps(body).encode()) + packer.flush(), content_encoding="gzip")


class Server:
    """Answers each request with what `answer` gives for it and its number: bytes; None ends the connection; a tuple of bytes: and then
    ends it; an iterator: one after the other."""

    def __init__(self, answer: Callable[[Asked, int], bytes | None | tuple[bytes] | Iterator[bytes]]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.connections = 0
        #: Requests that were being answered at a time, at most.
        self.most = 0
        self.lock = threading.Lock()
        self.now = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.open: list[socket.socket] = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that waits in accept is woken by this, not by close.
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.drop()
        self.thread.join(5)

    def drop(self) -> None:
        """Ends all connections."""
        for one in self.open:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.open.clear()

    def serve(self) -> None:
        while True:
            try:
                one, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            self.open.append(one)
            threading.Thread(target=self.talk, args=(one,), daemon=True).start()

    def talk(self, one: socket.socket) -> None:
        with one, one.makefile("rb") as file:
            while True:
                try:
                    line = file.readline().decode()
                    if not line:
                        return
                    headers = {}
                    while (header := file.readline().decode().strip()) != "":
                        name, _, value = header.partition(": ")
                        headers[name] = value
                    body = file.read(int(headers.get("content-length", 0)))
                    method, target, _ = line.split()
                    asked = Asked(method, target, headers, json.loads(body) if body else None)
                    with self.lock:
                        self.asked.append(asked)
                        number = len(self.asked)
                        self.now += 1
                        self.most = max(self.most, self.now)
                    answer = self.answer(asked, number)
                    with self.lock:
                        self.now -= 1
                    if answer is None:
                        return
                    if isinstance(answer, tuple):
                        one.sendall(answer[0])
                        return
                    for part in [answer] if isinstance(answer, bytes) else answer:
                        one.sendall(part)
                except OSError:
                    return


class PlainBlocking(Blocking):
    """Sockets without TLS."""

    async def dial(self, endpoint: Endpoint, tls: ssl.SSLContext, deadline: float) -> Stream:
        try:
            sock = socket.create_connection((endpoint.host, endpoint.port), left(deadline))
        except OSError as error:
            raise refused(endpoint, error) from error
        return BlockingStream(cast(ssl.SSLSocket, sock))


class PlainAsync(Async):
    """The same for an event loop."""

    async def dial(self, endpoint: Endpoint, tls: ssl.SSLContext, deadline: float) -> Stream:
        try:
            return AsyncStream(*await asyncio.open_connection(endpoint.host, endpoint.port))
        except OSError as error:
            raise refused(endpoint, error) from error


def settings(*ports: int, tenant: str = "nlp") -> Settings:
    """Settings for servers on these ports."""
    return Settings(tuple(Endpoint("127.0.0.1", port) for port in ports), ca="none", tenant=tenant)


def without_tls(core: Core) -> None:
    """Has a client's calls go to servers without TLS."""
    core.tls = lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # type: ignore[method-assign]
    core.transport = PlainAsync() if isinstance(core.transport, Async) else PlainBlocking()


def client(*ports: int, timeout: float = 30.0, tenant: str = "nlp") -> Client:
    """A client of servers on these ports."""
    made = Client(settings=settings(*ports, tenant=tenant), timeout=timeout, retry=QUICK)
    without_tls(made._core)
    return made


def async_client(*ports: int) -> AsyncClient:
    """The same for an event loop."""
    made = AsyncClient(settings=settings(*ports), timeout=30.0, retry=QUICK)
    without_tls(made._core)
    return made
