"""Watches that are resumed, waits, and logs, against a server that answers as a test says."""

from __future__ import annotations

import base64
import json
import threading
import time
import unittest
from collections.abc import Iterator
from itertools import islice
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from railyard.client import (
    Client,
    FunctionFailed,
    Gone,
    InvalidRequest,
    JobFailed,
    NotFound,
    PermissionDenied,
    Unavailable,
    WaitTimeout,
    _watch,
)
from tests.client.fake import Asked, Server, async_client, chunked, client, http, refusal


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def event(name: str, version: int, phase: str = "RUNNING", kind: str = "PUT", uid: str = "u") -> bytes:
    metadata = {"name": name, "tenant": "nlp", "uid": uid, "resourceVersion": str(version)}
    return line({"type": kind, "job": {"metadata": metadata, "status": {"phase": phase}}, "revision": str(version)})


def after(asked: Asked) -> str:
    return parse_qs(urlsplit(asked.target).query).get("afterRevision", ["0"])[0]


SYNCED = line({"type": "SYNCED", "revision": "5"})


def shown(events: Any, count: int) -> list[str]:
    versions = [
        (one["type"], one.get("job", {}).get("metadata", {}).get("resourceVersion")) for one in islice(events, count)
    ]
    return [kind if version is None else f"{kind}:{version}" for kind, version in versions]


class Watches(unittest.TestCase):
    def watched(self, *answers: bytes | tuple[bytes] | None) -> tuple[list[str], list[str], int]:
        """Three events of a watch that is answered so, whence each stream begins, and the watch's revision."""
        with Server(lambda asked, number: answers[min(number, len(answers)) - 1]) as server, client(server.port) as api:
            with api.jobs.watch(timeout=30) as watch:
                events = shown(watch, 3)
                return events, [after(asked) for asked in server.asked], watch.revision

    def test_a_lost_watch_is_resumed_behind_what_was_given(self) -> None:
        events, begins, revision = self.watched(
            chunked(event("a", 4), SYNCED),
            None,
            refusal(503, "unavailable", "NO_LEADER"),
            chunked(SYNCED, event("a", 6)),
        )
        self.assertEqual(events, ["PUT:4", "SYNCED", "PUT:6"])
        self.assertEqual((begins, revision), (["0", "5", "5", "5"], 5), "more may have changed in revision 6")

    def test_a_snapshot_that_is_lost_begins_anew(self) -> None:
        # In the order of names: `a` changed last, and `b` is not told before the stream is lost.
        whole = [event("a", 4), event("b", 2), event("c", 3), SYNCED]
        answers: list[bytes | tuple[bytes]] = [(chunked(whole[0], end=False),), chunked(*whole)]
        with Server(lambda asked, number: answers[number - 1]) as server, client(server.port) as api:
            with api.jobs.watch(timeout=30) as watch:
                self.assertEqual((shown(watch, 1), watch.revision), (["PUT:4"], 0), "nothing to begin behind yet")
                self.assertEqual(shown(watch, 3), ["PUT:2", "PUT:3", "SYNCED"])
                self.assertEqual((watch.revision, [after(asked) for asked in server.asked]), (5, ["0", "0"]))

    def test_a_revision_that_changed_much_is_given_whole(self) -> None:
        gone = event("g", 1, kind="DELETE").replace(b'"revision": "1"', b'"revision": "7"')
        first = chunked(event("g", 1), SYNCED, gone, event("a", 7))
        answers = [first, chunked(SYNCED, gone, event("a", 7), event("b", 7), event("c", 8))]
        with Server(lambda asked, number: answers[min(number, 2) - 1]) as server, client(server.port) as api:
            with api.jobs.watch(timeout=30) as watch:
                found = shown(watch, 6)
        self.assertEqual(found, ["PUT:1", "SYNCED", "DELETE:1", "PUT:7", "PUT:7", "PUT:8"])
        self.assertEqual([after(asked) for asked in server.asked], ["0", "6"])

    def test_what_vanished_while_nobody_watched_is_deleted(self) -> None:
        answers: list[bytes | tuple[bytes]] = [
            chunked(event("a", 4), event("b", 3), event("c", 2), SYNCED),
            refusal(410, "gone", "REVISION_COMPACTED"),
            # Lost before it is complete: `c` may still come.
            (chunked(event("a", 4), event("b", 8, uid="another"), end=False),),
            chunked(event("a", 4), event("b", 8, uid="another"), line({"type": "SYNCED", "revision": "9"})),
            chunked(line({"type": "SYNCED", "revision": "9"}), event("d", 10), end=False),
        ]
        with Server(lambda asked, number: answers[number - 1]) as server, client(server.port) as api:
            with api.jobs.watch(timeout=30) as watch:
                self.assertEqual(shown(watch, 4), ["PUT:4", "PUT:3", "PUT:2", "SYNCED"])
                deleted, put = islice(watch, 2)
                self.assertEqual((put["type"], put["job"]["metadata"]["uid"]), ("PUT", "another"))
                metadata = {"name": "b", "tenant": "nlp", "uid": "u", "resourceVersion": "3"}
                self.assertEqual(deleted, {"type": "DELETE", "job": {"metadata": metadata}, "revision": "8"})
                deleted = next(watch)
                metadata = {"name": "c", "tenant": "nlp", "uid": "u", "resourceVersion": "2"}
                self.assertEqual(deleted, {"type": "DELETE", "job": {"metadata": metadata}, "revision": "9"})
                self.assertEqual((shown(watch, 1), watch.revision), (["PUT:10"], 9))
        self.assertEqual([after(asked) for asked in server.asked], ["0", "5", "0", "0", "9"])

    def test_nodes_that_vanished_are_deleted(self) -> None:
        def node(name: str) -> bytes:
            return line({"type": "PUT", "node": {"metadata": {"name": name, "resourceVersion": "3"}}, "revision": "3"})

        gone = line({"error": {"code": 410, "class": "gone", "reason": "REVISION_COMPACTED", "message": "gone"}})
        answers = [chunked(node("n1"), node("n2"), SYNCED, gone), chunked(node("n2"), SYNCED, end=False)]
        with Server(lambda asked, number: answers[number - 1]) as server, client(server.port) as api:
            with api.nodes.watch(timeout=30) as watch:
                self.assertEqual([one["type"] for one in islice(watch, 3)], ["PUT", "PUT", "SYNCED"])
                metadata = {"name": "n1", "resourceVersion": "3"}
                self.assertEqual(next(watch), {"type": "DELETE", "node": {"metadata": metadata}, "revision": "5"})

    def test_a_watch_that_another_thread_closes_ends_at_once(self) -> None:
        with Server(lambda asked, number: chunked(SYNCED, end=False)) as server, client(server.port) as api:
            watch = api.jobs.watch()
            next(watch)
            left: list[Any] = []
            reader = threading.Thread(target=lambda: left.extend(watch))
            reader.start()
            time.sleep(0.2)
            watch.close()
            reader.join(10)
            self.assertFalse(reader.is_alive())
        self.assertEqual((left, len(server.asked)), ([], 1))

    def test_a_revision_that_is_gone_begins_with_what_is(self) -> None:
        events, begins, _ = self.watched(
            chunked(event("a", 4), SYNCED),
            refusal(410, "gone", "COMPACTED"),
            chunked(event("a", 4), SYNCED, event("b", 9)),
        )
        self.assertEqual((events, begins), (["PUT:4", "SYNCED", "PUT:9"], ["0", "5", "0"]))

    def test_an_error_in_the_stream_is_an_error(self) -> None:
        last = line({"error": {"code": 403, "class": "denied", "reason": "REVOKED", "message": "no"}})
        with Server(lambda asked, number: chunked(SYNCED, last)) as server, client(server.port) as api:
            watch = api.jobs.watch()
            next(watch)
            with self.assertRaises(PermissionDenied):
                next(watch)

    def test_lines_may_be_cut_anywhere(self) -> None:
        data = event("a", 4) + SYNCED + event("b", 6)
        parts = [data[at : at + 7] for at in range(0, len(data), 7)]
        events, *_ = self.watched(chunked(*parts))
        self.assertEqual(events, ["PUT:4", "SYNCED", "PUT:6"])

    def test_a_watch_is_bounded_by_its_timeout(self) -> None:
        with Server(lambda asked, number: chunked(SYNCED, end=False)) as server, client(server.port) as api:
            watch = api.jobs.watch(timeout=1)
            next(watch)
            begin = time.monotonic()
            with self.assertRaises(WaitTimeout):
                next(watch)
            self.assertLess(time.monotonic() - begin, 15)
            watch.close()
            self.assertRaises(StopIteration, next, watch)

    def test_a_silent_stream_is_opened_anew(self) -> None:
        answers = [
            chunked(event("a", 4), end=False),
            chunked(event("a", 4), SYNCED, end=False),
            chunked(SYNCED, event("a", 6), end=False),
        ]
        with Server(lambda asked, number: answers[number - 1]) as server, client(server.port) as api:
            with mock.patch.object(_watch, "SILENT", 5), api.jobs.watch(timeout=120) as watch:
                self.assertEqual(shown(watch, 3), ["PUT:4", "SYNCED", "PUT:6"])
        self.assertEqual([after(asked) for asked in server.asked], ["0", "0", "5"])

    def test_a_controller_that_stays_away_ends_a_watch(self) -> None:
        with Server(lambda asked, number: None) as server, client(server.port) as api:
            with mock.patch.object(_watch, "AWAY", 0.05), self.assertRaises(Unavailable):
                next(api.jobs.watch())


class Waits(unittest.TestCase):
    def job(self, api: Client) -> Any:
        return api.job("a")

    def served(self, *streams: bytes) -> Server:
        """Gives a running job, then these streams."""
        metadata = {"name": "a", "tenant": "nlp", "uid": "u"}
        first = http({"metadata": metadata, "status": {"phase": "RUNNING"}})
        answers = [first, *streams]
        return Server(lambda asked, number: answers[min(number, len(answers)) - 1])

    def test_a_wait_ends_with_the_job_of_its_uid(self) -> None:
        stream = chunked(event("a", 4, "FAILED", uid="earlier"), event("a", 5), SYNCED, event("a", 6, "COMPLETED"))
        with self.served(stream) as server, client(server.port) as api:
            job = self.job(api)
            self.assertEqual((job.wait(30)["status"]["phase"], job.ended), ("COMPLETED", True))

    def test_a_job_that_failed_raises_unless_asked_not_to(self) -> None:
        with self.served(chunked(event("a", 5, "FAILED"))) as server, client(server.port) as api:
            job = self.job(api)
            with self.assertRaises(JobFailed) as caught:
                job.wait(30)
            self.assertEqual((caught.exception.phase, job.wait(check=False)["status"]["phase"]), ("FAILED", "FAILED"))

    def test_a_job_that_is_deleted_meanwhile(self) -> None:
        with (
            self.served(chunked(event("a", 5), SYNCED, event("a", 7, kind="DELETE"))) as server,
            client(server.port) as api,
        ):
            self.assertRaises(NotFound, self.job(api).wait, 30)
        with self.served(chunked(SYNCED)) as server, client(server.port) as api:
            self.assertRaises(NotFound, self.job(api).wait, 30)

    def test_a_job_that_was_deleted_while_nobody_watched(self) -> None:
        begun, gone = chunked(event("a", 5), SYNCED), refusal(410, "gone", "REVISION_COMPACTED")
        unnamed = line({"type": "DELETE", "job": {"metadata": {"name": "a", "tenant": "nlp"}}, "revision": "7"})
        for streams in (
            [begun, gone, chunked(SYNCED, end=False)],
            [begun, gone, chunked(event("a", 8, uid="another"), SYNCED, end=False)],
            [chunked(event("a", 5), SYNCED, unnamed, end=False)],
        ):
            with self.served(*streams) as server, client(server.port) as api:
                job = self.job(api)
                with self.assertRaises(NotFound):
                    job.wait(20)
                self.assertEqual((job.phase, len(server.asked)), ("RUNNING", 1 + len(streams)), "as it was last")

    def test_a_wait_is_bounded(self) -> None:
        with self.served(chunked(event("a", 5), SYNCED, end=False)) as server, client(server.port) as api:
            with self.assertRaises(WaitTimeout) as caught:
                self.job(api).wait(0.1)
        document = caught.exception.job
        self.assertEqual(document and document["status"]["phase"], "RUNNING")


def chunk(rank: int, text: str, stream: str = "STDOUT") -> bytes:
    return line({"rank": rank, "stream": stream, "data": base64.b64encode(text.encode()).decode()})


def state(attempt: int, phase: str = "RUNNING") -> dict[str, Any]:
    """The status of a job whose attempts before this one are remembered."""
    return {"phase": phase, "attempt": attempt, "pastAttempts": [{"attempt": past} for past in range(1, attempt)]}


def slowly(*parts: bytes) -> Iterator[bytes]:
    """Parts of an answer with time between them."""
    for part in parts:
        yield part
        time.sleep(0.3)


class Logs(unittest.TestCase):
    def test_logs_are_text_rank_after_rank(self) -> None:
        stream = chunked(
            chunk(1, "b\nbb"), chunk(0, "a\n"), chunk(0, "dropped", "NOTE"), chunk(1, "b\n"), chunk(0, "e\n", "STDERR")
        )
        with Server(lambda asked, number: http({"metadata": {"name": "a"}}) if number == 1 else stream) as server:
            with client(server.port) as api:
                job = api.job("a")
                self.assertEqual(job.logs(), "[0] a\n[0] e\n[1] b\n[1] bbb\n")
                self.assertEqual(job.logs(stream="STDERR", rank=0), "e\n")

    def followed(self, jobs: list[dict[str, Any]], *streams: bytes | tuple[bytes]) -> tuple[str, list[str]]:
        """What is given of logs that come so, and the parameters by which each stream was asked for. `jobs`: the states of the job."""
        asked: list[str] = []

        def answer(request: Asked, number: int) -> bytes | tuple[bytes]:
            if "/logs" not in request.target:
                status = jobs.pop(0) if len(jobs) > 1 else jobs[0]
                return http({"metadata": {"name": "a"}, "status": status})
            query = parse_qs(urlsplit(request.target).query)
            asked.append(" ".join(f"{name}={query[name][0]}" for name in ("attempt", "follow") if name in query))
            return streams[len(asked) - 1]

        with Server(answer) as server, client(server.port) as api:
            text = b"".join(part.data for part in api.job("a").follow_logs(timeout=30))
        return text.decode(), asked

    def test_followed_logs_that_were_lost_go_on_where_they_were(self) -> None:
        first, done = state(1), state(1, "COMPLETED")
        text, asked = self.followed(
            [first, first, first, first, done],
            (chunked(chunk(0, "one\ntw"), end=False),),
            chunked(chunk(0, "one\n"), chunk(0, "two\nthree\n")),
        )
        self.assertEqual((text, asked), ("one\ntwo\nthree\n", ["follow=true"] * 2))

    def test_a_later_attempt_is_not_taken_for_the_one_that_was_lost(self) -> None:
        first, second, done = state(1), state(2), state(2, "COMPLETED")
        # Lost in the first attempt; then the second one runs, which begins with the same.
        text, asked = self.followed(
            [first, first, second, second, done],
            (chunked(chunk(0, "begin 1\n"), end=False),),
            chunked(chunk(0, "begin 1\nend 1\n")),
            chunked(chunk(0, "begin 2\nend 2\n")),
        )
        self.assertEqual(text, "begin 1\nend 1\nbegin 2\nend 2\n")
        self.assertEqual(asked, ["follow=true", "attempt=1", "follow=true"])
        # Lost in the second attempt, of which a part has come in the same stream.
        text, asked = self.followed(
            [first, first, second, second, second, done],
            (chunked(chunk(0, "begin 1\nend 1\n"), chunk(0, "begin 2\n"), end=False),),
            chunked(chunk(0, "begin 1\nend 1\n")),
            chunked(chunk(0, "begin 2\nend 2\n")),
        )
        self.assertEqual(text, "begin 1\nend 1\nbegin 2\nend 2\n")

    def test_output_is_given_again_where_it_is_in_doubt(self) -> None:
        first, second, done = state(1), state(2), state(2, "COMPLETED")
        # Of the first attempt not all is kept, so that nobody knows how much of what was given is the second one's.
        text, asked = self.followed(
            [first, first, second, second, done],
            (chunked(chunk(0, "begin 1\nend 1\n"), end=False),),
            chunked(chunk(0, "dropped\n", "NOTE")),
            chunked(chunk(0, "begin 2\nend 2\n")),
        )
        self.assertEqual(text, "begin 1\nend 1\ndropped\nbegin 2\nend 2\n")
        # The first attempt is forgotten.
        forgotten = {**state(2), "pastAttempts": []}
        text, asked = self.followed(
            [first, first, forgotten, done],
            (chunked(chunk(0, "begin 1\n"), end=False),),
            chunked(chunk(0, "begin 2\n")),
        )
        self.assertEqual((text, asked), ("begin 1\nbegin 2\n", ["follow=true"] * 2))

    def test_an_attempt_that_begins_while_a_stream_is_opened(self) -> None:
        first, second, done = state(1), state(2), state(2, "COMPLETED")
        text, asked = self.followed(
            [first, first, first, second, second, second, done],
            (chunked(chunk(0, "begin 1\n"), end=False),),
            chunked(chunk(0, "begin 2\n"), end=False),
            chunked(chunk(0, "begin 1\n")),
            chunked(chunk(0, "begin 2\n")),
        )
        self.assertEqual(text, "begin 1\nbegin 2\n")
        self.assertEqual(asked, ["follow=true", "follow=true", "attempt=1", "follow=true"])

    def test_ranks_that_write_nothing_for_long_are_no_fault(self) -> None:
        whole = chunked(chunk(0, "one\n"), chunk(0, "two\n"))

        def answer(asked: Asked, number: int) -> bytes | Iterator[bytes]:
            if "/logs" not in asked.target:
                return http({"metadata": {"name": "a"}, "status": {"phase": "COMPLETED" if number > 3 else "RUNNING"}})
            # Cut within a chunk, so that what has come is kept.
            return slowly(whole[:120], whole[120:135], whole[135:])

        with mock.patch.object(_watch, "SILENT", 0.05), mock.patch.object(_watch, "AWAY", 0.1):
            with Server(answer) as server, client(server.port) as api:
                text = b"".join(part.data for part in api.job("a").follow_logs(timeout=60))
        self.assertEqual((text, len(server.asked)), (b"one\ntwo\n", 4))

    def test_values_are_read_from_what_ranks_wrote(self) -> None:
        mark = "\x1erailyard-result "
        done = http(
            {"metadata": {"name": "a"}, "status": {"phase": "FAILED", "placement": {"ranks": [{}, {"rank": 1}]}}}
        )
        good = chunk(0, f'noise\n\n{mark}{{"ok": true, "value": [1]}}\n')
        bad = chunk(1, f'\n{mark}{{"ok": false, "error": "ValueError: x", "traceback": "here"}}\n')
        answers = [done, chunked(good, bad), chunked(good, bad), chunked(good), chunked(good), chunked(good, bad)]
        with Server(lambda asked, number: answers[number - 1]) as server, client(server.port) as api:
            job = api.job("a")
            self.assertEqual(job.result(), [1])
            with self.assertRaises(FunctionFailed) as caught:
                job.results()
            self.assertEqual((caught.exception.rank, caught.exception.remote_traceback), (1, "here"))
            self.assertRaises(JobFailed, job.result, 1)
            self.assertEqual(job.logs(0), "noise\n", "what carries a value is not shown")


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def test_watch_wait_and_logs(self) -> None:
        def answer(asked: Asked, number: int) -> bytes | None:
            if ":watch" in asked.target:
                return chunked(event("a", 5), SYNCED, event("a", 6, "COMPLETED")) if number > 2 else None
            if "/logs" in asked.target:
                return chunked(chunk(0, "hello\n"))
            return http({"metadata": {"name": "a", "uid": "u", "tenant": "nlp"}, "status": {"phase": "RUNNING"}})

        with Server(answer) as server:
            async with async_client(server.port) as api:
                job = await api.job("a")
                await job.wait(30)
                self.assertEqual((job.phase, await job.logs(0)), ("COMPLETED", "hello\n"))
                async with api.jobs.watch(timeout=30) as watch:
                    async for one in watch:
                        if one["type"] == "SYNCED":
                            break

    async def test_errors_are_the_same(self) -> None:
        with Server(
            lambda asked, number: refusal(410 if number == 1 else 400, "gone" if number == 1 else "invalid", "X")
        ) as server:
            async with async_client(server.port) as api:
                with self.assertRaises(Gone):
                    await api.jobs.get("a")
                with self.assertRaises(InvalidRequest):
                    async for _ in api.jobs.watch():
                        pass


if __name__ == "__main__":
    unittest.main()
