"""Calls against a server that answers as a test says: what is sent, read, tried again, and what not."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from railyard.client import (
    ApiError,
    Client,
    ConfigError,
    DeadlineExceeded,
    Endpoint,
    InternalError,
    InvalidRequest,
    NotFound,
    Overloaded,
    RetryPolicy,
    Settings,
    TlsError,
    TooLarge,
    Unavailable,
    _core,
    _http,
)
from railyard.client._http import CALLS, BlockingStream, broken, refused, run
from tests.client.fake import Asked, Server, async_client, chunked, client, http, packed, refusal


def query(asked: Asked) -> dict[str, list[str]]:
    return parse_qs(urlsplit(asked.target).query)


@contextmanager
def silent() -> Iterator[Server]:
    """A server that answers nobody."""
    over = threading.Event()

    def answer(asked: Asked, number: int) -> bytes | None:
        over.wait(60)
        return None

    with Server(answer) as server:
        try:
            yield server
        finally:
            over.set()


class Sent(unittest.TestCase):
    def test_paths_parameters_and_bodies(self) -> None:
        with Server(lambda asked, number: http({"metadata": {"name": "a"}})) as server, client(server.port) as api:
            api.jobs.get("a b/c")
            api.jobs.list(tenant="", phases=["RUNNING", "PENDING"], page_size=7)
            api.jobs.cancel("a", grace_period="2s")
            api.queues.apply({"metadata": {"name": "q"}}, dry_run=True)
            api.queues.apply({"metadata": {"name": "q", "tenant": "other"}})
            api.tenants.get("nlp")
        get, list_, cancel, apply, other, tenant = server.asked
        self.assertEqual((get.method, get.target), ("GET", "/v1/jobs/a%20b%2Fc?tenant=nlp"))
        self.assertEqual(
            query(list_), {"phases": ["RUNNING,PENDING"], "pageSize": ["7"]}, "an empty tenant is all of them"
        )
        self.assertEqual((cancel.target, cancel.body), ("/v1/jobs/a:cancel", {"gracePeriod": "2s", "tenant": "nlp"}))
        self.assertEqual(apply.body, {"metadata": {"name": "q", "tenant": "nlp"}})
        self.assertEqual(query(apply), {"dryRun": ["true"]})
        self.assertEqual(other.body["metadata"]["tenant"], "other")
        self.assertEqual(tenant.target, "/v1/tenants/nlp")
        self.assertRegex(get.headers["grpc-timeout"], r"^\d{4,5}m$")
        self.assertEqual(server.connections, 1, "a connection is kept")

    def test_what_cannot_be_sent(self) -> None:
        with Server(lambda asked, number: http({})) as server, client(server.port) as api:
            with self.assertRaises(ConfigError):
                api.jobs.get("")
            with self.assertRaises(ConfigError):
                api.submit(["true"], spec={"expectedDuration": object()})
            with self.assertRaises(ConfigError):
                api.submit(["true"], spec={"array": "0-3"})
            with self.assertRaises(ConfigError):
                api.submit([])
        self.assertEqual(server.asked, [])

    def test_pages(self) -> None:
        pages = [{"jobs": [{"metadata": {"name": "a"}}], "nextPageToken": "x"}, {"jobs": [{"metadata": {"name": "b"}}]}]
        with Server(lambda asked, number: http(pages[number - 1])) as server, client(server.port) as api:
            names = [job["metadata"]["name"] for job in api.jobs.list_all()]
        self.assertEqual(names, ["a", "b"])
        self.assertEqual([query(asked).get("pageToken") for asked in server.asked], [None, ["x"]])


class Read(unittest.TestCase):
    def test_bodies_of_every_kind(self) -> None:
        answers: list[bytes | tuple[bytes]] = [
            http({"version": "1"}),
            chunked(b'{"version"', b': "2"}'),
            packed({"version": "3"}),
            b"HTTP/1.1 100 Continue\r\n\r\n" + http({"version": "4"}),
            (b'HTTP/1.1 200 OK\r\n\r\n{"version": "5"}',),
        ]
        with Server(lambda asked, number: answers[number - 1]) as server, client(server.port) as api:
            versions = [api.health.get().get("version") for _ in answers]
        self.assertEqual(versions, ["1", "2", "3", "4", "5"])

    def test_what_cannot_be_read(self) -> None:
        for answer, error in [
            (b"SSH-2.0\r\n\r\n", InternalError),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", InternalError),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffff\r\n", TooLarge),
            (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20000 + b"\r\n", InternalError),
            (http(b"no json"), InternalError),
            (http(b"no gzip", content_encoding="gzip"), InternalError),
            (http(b"no error", 418), InvalidRequest),
        ]:
            with self.subTest(answer[:40]), Server(lambda asked, number, answer=answer: answer) as server:  # type: ignore[misc]
                with client(server.port) as api, self.assertRaises(error) as caught:
                    api.health.get()
                self.assertEqual(caught.exception.operation, "getHealth")

    def test_errors_have_all_that_the_api_says(self) -> None:
        violations = [{"field": "spec.gang.node", "message": "unknown"}]
        answer = refusal(400, "invalid", "INVALID_BODY", status="INVALID_ARGUMENT", violations=violations)
        with Server(lambda asked, number: answer) as server, client(server.port) as api:
            with self.assertRaises(InvalidRequest) as caught:
                api.submit("true")
        error = caught.exception
        self.assertEqual((error.code, error.status, error.error_class), (400, "INVALID_ARGUMENT", "invalid"))
        self.assertEqual((error.reason, error.violations[0].field), ("INVALID_BODY", "spec.gang.node"))
        self.assertEqual(str(error), "createJob: INVALID_BODY it is [INVALID_BODY]")
        self.assertIsInstance(error, ValueError)

    def test_a_class_of_a_later_release_goes_by_its_status(self) -> None:
        with Server(lambda asked, number: refusal(404, "vanished", "X")) as server, client(server.port) as api:
            with self.assertRaises(NotFound) as caught:
                api.jobs.get("a")
        self.assertEqual(caught.exception.error_class, "vanished")


class Again(unittest.TestCase):
    def test_a_lost_answer_is_asked_for_under_the_same_request_id(self) -> None:
        def answer(asked: Asked, number: int) -> bytes | None:
            return None if number < 3 else http({"metadata": {"name": "a", "uid": "u"}})

        with Server(answer) as server, client(server.port) as api:
            job = api.submit("true", name="a")
        self.assertEqual(job.name, "a")
        ids = {query(asked)["requestId"][0] for asked in server.asked}
        self.assertEqual((len(server.asked), len(ids)), (3, 1))

    def test_each_submit_has_a_request_id_of_its_own(self) -> None:
        with Server(lambda asked, number: http({})) as server, client(server.port) as api:
            api.submit("true")
            api.submit("true")
            api.submit("true", request_id="mine")
        ids = [query(asked)["requestId"][0] for asked in server.asked]
        self.assertEqual((len(set(ids)), ids[2]), (3, "mine"))

    def test_what_may_be_done_once_is_not_repeated(self) -> None:
        with Server(lambda asked, number: None) as server, client(server.port) as api:
            with self.assertRaises(Unavailable):
                api.tenants.issue_token(tenant="nlp", user="ann", role="USER")
        self.assertEqual(len(server.asked), 1)

    def test_what_may_be_repeated_is_bounded(self) -> None:
        with (
            Server(lambda asked, number: refusal(503, "unavailable", "NO_LEADER")) as server,
            client(server.port) as api,
        ):
            with self.assertRaises(Unavailable) as caught:
                api.jobs.list()
        self.assertEqual((len(server.asked), caught.exception.reason), (5, "NO_LEADER"))

    def test_overload_is_repeated_when_the_controller_says(self) -> None:
        def answer(asked: Asked, number: int) -> bytes:
            return (
                refusal(429, "overloaded", "BUSY", status="RESOURCE_EXHAUSTED", retryAfterMs=30)
                if number == 1
                else http({})
            )

        with Server(answer) as server, client(server.port) as api:
            begin = time.monotonic()
            api.tenants.issue_token(tenant="nlp", user="ann", role="USER")
            self.assertGreaterEqual(time.monotonic() - begin, 0.03)
        self.assertEqual(len(server.asked), 2)
        with Server(lambda asked, number: refusal(429, "overloaded", "BUSY")) as server, client(server.port) as api:
            with self.assertRaises(Overloaded):
                api.jobs.list()
        self.assertEqual(len(server.asked), 1, "nobody said that it helps")

    def test_a_connection_that_was_closed_while_it_waited_costs_nothing(self) -> None:
        with Server(lambda asked, number: http({})) as server, client(server.port) as api:
            api.health.get()
            server.drop()
            time.sleep(0.02)
            api.health.get()
        self.assertEqual((len(server.asked), server.connections), (2, 2))

    def test_endpoints_are_tried_in_turn_and_the_good_one_is_kept(self) -> None:
        with Server(lambda asked, number: http({})) as gone:
            port = gone.port
        with Server(lambda asked, number: http({})) as server, client(port, server.port) as api:
            api.tenants.issue_token(tenant="nlp", user="ann", role="USER")
            self.assertEqual(api._core.first, 1)
            api.health.get()
        with client(port) as api, self.assertRaises(Unavailable) as caught:
            api.tenants.issue_token(tenant="nlp", user="ann", role="USER")
        self.assertEqual(caught.exception.reason, "UNREACHABLE")

    def test_calls_of_threads_are_bounded(self) -> None:
        with Server(lambda asked, number: time.sleep(0.01) or http({})) as server:  # type: ignore[func-returns-value]
            with client(server.port) as api, ThreadPoolExecutor(100) as threads:
                answers = list(threads.map(lambda _: api.jobs.list(), range(300)))
        self.assertEqual((len(answers), len(server.asked)), (300, 300))
        self.assertLessEqual(server.most, CALLS)

    def test_one_that_waits_too_long_for_others(self) -> None:
        with silent() as server, client(server.port) as api, mock.patch.object(_http, "QUEUED", 0.05):
            for _ in range(CALLS):
                self.assertTrue(cast(Any, api._core.transport).slots.acquire(blocking=False))
            with self.assertRaises(Overloaded) as caught:
                api.jobs.list()
        self.assertEqual((caught.exception.reason, server.asked), ("CLIENT_OVERLOADED", []))

    def test_a_call_has_a_deadline(self) -> None:
        with silent() as server, client(server.port) as api:
            begin = time.monotonic()
            with self.assertRaises(DeadlineExceeded):
                api.jobs.list(timeout=0.3)
            self.assertLess(time.monotonic() - begin, 15)
            self.assertIsInstance(DeadlineExceeded("x"), TimeoutError)
        self.assertLessEqual(len(server.asked), 1, "the time is gone")

    def test_time_that_is_gone_once_there_is_a_connection_leaves_none_open(self) -> None:
        with Server(lambda asked, number: http({})) as server, client(server.port) as api:
            api.jobs.list()
            waits = api._core.idle[0]
            with mock.patch.object(_core, "left", side_effect=DeadlineExceeded("too late")):
                with self.assertRaises(DeadlineExceeded):
                    api.jobs.list()
            stream = cast(BlockingStream, waits.stream)
            self.assertEqual((stream.closed, stream.sock.fileno(), api._core.idle), (True, -1, []))

    def test_a_stream_that_another_thread_closes(self) -> None:
        near, far = socket.socketpair()
        stream = BlockingStream(cast(ssl.SSLSocket, near))
        read: list[bytes] = []
        reader = threading.Thread(target=lambda: read.append(run(stream.read(time.monotonic() + 30))))
        with far:
            reader.start()
            while not stream.used:
                time.sleep(0.01)
            stream.close()
            reader.join(10)
            self.assertEqual((read, near.fileno()), ([b""], -1), "whoever reads is woken, and closes the socket")
        self.assertRaises(Unavailable, run, stream.read(time.monotonic() + 1))
        stream.close()


class Tls(unittest.TestCase):
    def test_what_a_handshake_shows_is_not_tried_again(self) -> None:
        policy, jitter = RetryPolicy(), random.Random(7)
        alert = ssl.SSLError(1, "alert")
        alert.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        wrong = ssl.SSLCertVerificationError(1, "certificate verify failed")
        endpoint = Endpoint("h", 1)
        for error in (broken(alert), refused(endpoint, wrong)):
            self.assertIsInstance(error, TlsError)
            self.assertIsNone(policy.wait(1, 0, error, jitter))
        for error in (
            broken(ConnectionResetError(104, "reset")),
            broken(None),
            refused(endpoint, TimeoutError("timed out")),
        ):
            self.assertIsInstance(error, Unavailable)
            self.assertIsNotNone(policy.wait(1, 0, error, jitter))

    def test_credentials_that_cannot_be_read(self) -> None:
        for where in ({"ca": "/none"}, {"ca": __file__}):
            with Client(settings=Settings((Endpoint("127.0.0.1", 1),), **where)) as api, self.assertRaises(ConfigError):
                api.health.get()

    def test_credentials_that_are_renewed_one_after_the_other(self) -> None:
        good: set[str] = set()

        def load(cert: str, key: str) -> None:
            if Path(cert).read_text() != Path(key).read_text():
                raise ssl.SSLError(1, "[X509: KEY_VALUES_MISMATCH] key values mismatch")
            good.add(Path(key).read_text())

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(ssl, "SSLContext") as context:
            context.side_effect = lambda protocol: mock.Mock(load_cert_chain=load)
            ca, cert, key = (Path(folder) / name for name in ("ca", "cert", "key"))
            written = 0

            def write(file: Path, text: str) -> None:
                nonlocal written
                written += 1
                file.write_text(text)
                os.utime(file, (written, written))

            for file, text in ((ca, "ca"), (cert, "1"), (key, "2")):
                write(file, text)
            settings = Settings((Endpoint("127.0.0.1", 1),), str(ca), str(cert), str(key))
            with Client(settings=settings) as api:
                self.assertRaises(ConfigError, api._core.tls)
                write(key, "1")
                first = api._core.tls()
                self.assertIs(api._core.tls(), first, "nothing has changed")
                write(cert, "2")
                self.assertIs(api._core.tls(), first, "its key is not there yet")
                key.unlink()
                self.assertIs(api._core.tls(), first)
                write(key, "2")
                second = api._core.tls()
                self.assertIsNot(second, first)
                self.assertIs(api._core.tls(), second)
        self.assertEqual(good, {"1", "2"})


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def test_calls_at_a_time_and_their_errors(self) -> None:
        def answer(asked: Asked, number: int) -> bytes | None:
            if number <= 3:
                return None
            return http({"metadata": {"name": asked.target.split("/")[-1].split("?")[0]}})

        with Server(answer) as server:
            async with async_client(server.port) as api:
                jobs = await asyncio.gather(*[api.jobs.get(name) for name in ("a", "b", "c")])
                self.assertEqual([job["metadata"]["name"] for job in jobs], ["a", "b", "c"])
                job = await api.submit("true")
                self.assertTrue(job.name.startswith("jobs"))

    async def test_calls_at_a_time_are_bounded(self) -> None:
        with Server(lambda asked, number: time.sleep(0.01) or http({})) as server:  # type: ignore[func-returns-value]
            async with async_client(server.port) as api:
                await asyncio.gather(*[api.jobs.list() for _ in range(200)])
        self.assertEqual(len(server.asked), 200)
        self.assertLessEqual(server.most, CALLS)

    async def test_a_call_that_is_cancelled_ends_its_connection(self) -> None:
        with silent() as server:
            async with async_client(server.port) as api:
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(api.jobs.list(), 0.3)
                with self.assertRaises(DeadlineExceeded):
                    await api.jobs.list(timeout=0.3)
                self.assertEqual(api._core.idle, [])


class Policy(unittest.TestCase):
    def test_waits_double_up_to_the_longest(self) -> None:
        policy = RetryPolicy()
        self.assertEqual([policy.ceiling(made) for made in (1, 2, 3, 5, 6, 60)], [0.1, 0.2, 0.4, 1.6, 2.0, 2.0])

    def test_jitter_stays_between_half_and_all(self) -> None:
        policy, jitter = RetryPolicy(), random.Random(7)
        waits = [policy.wait(2, 0, Unavailable("x"), jitter) for _ in range(200)]
        self.assertTrue(all(wait is not None and 0.1 <= wait <= 0.2 for wait in waits))
        self.assertGreater(len(set(waits)), 100)

    def test_what_is_not_repeated(self) -> None:
        policy, jitter = RetryPolicy(), random.Random(7)
        late = Overloaded("x", retry_after=1.0)
        wait = policy.wait(1, 0, late, jitter)
        self.assertTrue(wait is not None and 1.0 <= wait <= 1.1)
        self.assertIsNone(policy.wait(5, 0, Unavailable("x"), jitter))
        self.assertIsNone(policy.wait(1, 14.5, late, jitter), "all is over after 15 s")
        for error in (NotFound("x"), DeadlineExceeded("x"), Overloaded("x"), InternalError("x")):
            self.assertIsNone(policy.wait(1, 0, error, jitter), type(error))

    def test_every_error_is_an_api_error(self) -> None:
        self.assertTrue(issubclass(Unavailable, (ApiError, ConnectionError)))


if __name__ == "__main__":
    unittest.main()
