"""Jobs as objects: submitted, waited for, and read; what `Job` and `AsyncJob` share."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ._core import Core, Lines
from ._functions import Call, results, without_results
from ._watch import SILENT, Follower, Resumer
from .errors import ApiError, ConfigError, DeadlineExceeded, FunctionFailed, JobFailed, NotFound, TooLarge, WaitTimeout
from .resources.jobs import CREATE_JOB, GET_JOB, STREAM_LOGS, WATCH_JOBS
from .types import Job, JobEvent, LogChunk

#: Phases that a job never leaves.
ENDED = ("COMPLETED", "FAILED", "CANCELLED")
#: Seconds that a wait takes at most where the caller does not say: 30 days.
LONG = 30 * 86400.0
#: A rank that wrote more may have lost its oldest output, so that what is sent again cannot be recognised.
RECOGNISED = 4 << 20
#: Lines of each rank in which its value is looked for first.
LAST_LINES = 64
#: Bytes of logs that `logs` takes at most; more is an error, for which `follow_logs` is there.
MAX_LOGS = 256 << 20


def duration(value: float | timedelta | str) -> str:
    """A length of time as the API has it; numbers are seconds."""
    if isinstance(value, str):
        return value
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A document with what another one says in place of it, at any depth; lists are replaced whole."""
    found = dict(base)
    for key, value in over.items():
        before = found.get(key)
        found[key] = merged(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return found


def described(
    argv: Sequence[str],
    *,
    nodes: int,
    gpus_per_node: int,
    ranks_per_node: int | None,
    name: str | None,
    prefix: str,
    env: Mapping[str, str] | None,
    working_dir: str | None,
    time_limit: float | timedelta | str | None,
    queue: str | None,
    priority: int | None,
    labels: Mapping[str, str] | None,
    spec: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The document of a job. One server without GPUs needs no rails, as for `railctl submit --wrap`."""
    gang = {"nodes": nodes, "gpusPerNode": gpus_per_node, "ranksPerNode": ranks_per_node}
    command = {"argv": list(argv), "env": dict(env or {}), "workingDir": working_dir}
    said: dict[str, Any] = {
        "gang": given(gang),
        "command": given(command),
        "timeLimit": None if time_limit is None else duration(time_limit),
        "queue": queue,
        "priority": priority,
    }
    if spec and spec.get("array"):
        raise ConfigError("submit: an array is many jobs: use client.jobs.create, and client.jobs.list_all(array=...)")
    whole = merged(given(said), spec or {})
    asked = whole.get("gang")
    small = isinstance(asked, Mapping) and asked.get("nodes") == 1 and not asked.get("gpusPerNode")
    if small and whole.get("rails") is None:
        whole["rails"] = {"none": True}
    metadata = {"name": name, "generateName": None if name else f"{prefix}-", "labels": dict(labels or {})}
    return {
        "apiVersion": "rail/v1",
        "kind": "Job",
        "metadata": given(metadata),
        "spec": whole,
    }


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What is not left out."""
    return {name: value for name, value in fields.items() if value is not None and value != {}}


def argv_of(work: str | Sequence[str]) -> list[str]:
    """A command as the API has it; a text is for a shell."""
    if isinstance(work, str):
        return ["/bin/sh", "-c", work]
    argv = [str(part) for part in work]
    if not argv:
        raise ConfigError("submit: the command is empty")
    return argv


class Reference:
    """One job, by tenant, name and uid: another one of its name is not taken for it."""

    def __init__(self, core: Core, document: Job) -> None:
        metadata = document.get("metadata", {})
        self.core = core
        self.document = document
        self.name = metadata.get("name", "")
        self.tenant = metadata.get("tenant", "")
        self.uid = metadata.get("uid", "")
        #: The function that it runs, if it was submitted as one by this process.
        self.function: Call | None = None

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}" if self.tenant else self.name

    @property
    def phase(self) -> str:
        return self.document.get("status", {}).get("phase", "PENDING")

    @property
    def why(self) -> str:
        reasons = self.document.get("status", {}).get("reasons", [])
        return "; ".join(f"{reason.get('code')}: {reason.get('message')}" for reason in reasons)

    async def refresh(self) -> Job:
        """The job as it is now."""
        self.document = await self.core.call(GET_JOB, {"name": self.name}, {"tenant": self.tenant})
        return self.document

    async def until(self, phases: Iterable[str], timeout: float) -> Job:
        """Waits until the job has one of these phases, or has ended. Raises WaitTimeout, NotFound, ApiError."""
        wanted = {*phases, *ENDED}
        if self.phase in wanted:
            return self.document
        fields = {"tenant": self.tenant, "name": self.name}

        def request(revision: int) -> Any:
            return self.core.request(WATCH_JOBS, {}, {**fields, "afterRevision": revision or None}, None)

        follower: Follower[JobEvent] = Follower(self.core, request, "job", f"wait for job {self}", timeout)
        known = False
        try:
            while True:
                event: JobEvent | None = await follower.next()
                if event is None or (event.get("type") == "SYNCED" and not known):
                    raise NotFound(f"job {self} was deleted while it was waited for", reason="JOB_NOT_FOUND")
                seen = event.get("job")
                if seen is None:
                    continue
                uid, deleted = seen.get("metadata", {}).get("uid", ""), event.get("type") == "DELETE"
                # A DELETE without the last value names no uid: then none of this name is there any more.
                if self.uid and uid != self.uid and not (deleted and not uid):
                    continue
                known = True
                if not deleted or "status" in seen:
                    self.document = seen
                    if self.phase in wanted:
                        return seen
                if deleted:
                    raise NotFound(f"job {self} was deleted while it was waited for", reason="JOB_NOT_FOUND")
        except WaitTimeout as error:
            raise WaitTimeout(f"job {self} is {self.phase} after {timeout:g} s", self.document) from error
        finally:
            follower.close()

    async def wait(self, timeout: float, check: bool) -> Job:
        """Waits for the end. `check`: one that has not completed is a JobFailed."""
        document = await self.until((), timeout)
        if check and self.phase != "COMPLETED":
            why = f": {self.why}" if self.why else ""
            raise JobFailed(f"job {self} ended as {self.phase}{why}", document)
        return document

    def log_fields(self, ranks: int | Sequence[int] | None, more: Mapping[str, object]) -> dict[str, object]:
        wanted = [ranks] if isinstance(ranks, int) else ranks
        return {"tenant": self.tenant, "ranks": None if wanted is None else list(wanted), **more}

    async def logs(
        self, ranks: int | Sequence[int] | None, tail: int | None, attempt: int | None, stream: str | None
    ) -> str:
        """What ranks wrote, rank after rank, as text; lines of several ranks begin with `[RANK] `."""
        fields = self.log_fields(ranks, {"tailLines": tail, "attempt": attempt})
        request = self.core.request(STREAM_LOGS, {"name": self.name}, fields, None)
        texts: dict[int, bytearray] = {}
        lines = await self.core.repeat("streamLogs", True, lambda _: self.core.lines(request))
        size = 0
        try:
            while (chunk := await lines.next(time.monotonic() + SILENT)) is not None:
                data = data_of(chunk)
                size += len(data)
                if size > MAX_LOGS:
                    text = f"the logs of job {self} have more than {MAX_LOGS} bytes: give tail=, or use follow_logs"
                    raise TooLarge(text, reason="LOGS_TOO_LARGE")
                if chunk.get("stream") != "NOTE" and stream in (None, chunk.get("stream")):
                    texts.setdefault(chunk.get("rank", 0), bytearray()).extend(data)
        finally:
            lines.close()
        clean = {rank: without_results(bytes(data).decode("utf-8", "replace")) for rank, data in texts.items()}
        if isinstance(ranks, int) or len(clean) <= 1 and self.ranks() <= 1:
            return "".join(clean.values())
        return "".join(f"[{rank}] {line}\n" for rank in sorted(clean) for line in clean[rank].splitlines())

    def ranks(self) -> int:
        """How many ranks the job has, as far as is known."""
        return len(self.document.get("status", {}).get("placement", {}).get("ranks", ()))

    async def result(self, ranks: Sequence[int] | None, timeout: float) -> dict[int, Any]:
        """What the function of the job gave on ranks. Raises FunctionFailed, JobFailed, WaitTimeout."""
        await self.until((), timeout)
        wanted = list(range(self.ranks())) if ranks is None else list(ranks)
        # A value is the last that a rank writes itself; what its threads and its exit write may come behind it.
        records = await self.records(ranks, LAST_LINES)
        if any(rank not in records for rank in wanted):
            records = await self.records(ranks, None)
        found: dict[int, Any] = {}
        for rank in wanted:
            record = records.get(rank)
            if record is not None and record.get("ok"):
                found[rank] = record.get("value")
            elif record is not None:
                raise FunctionFailed(f"rank {rank}: {record.get('error')}", rank, str(record.get("traceback", "")))
            elif self.phase != "COMPLETED":
                why = f": {self.why}" if self.why else ""
                raise JobFailed(f"job {self} ended as {self.phase}{why}", self.document)
            else:
                raise FunctionFailed(f"rank {rank} of job {self} wrote no value: is it the job of a function?", rank)
        return found

    async def records(self, ranks: Sequence[int] | None, tail: int | None) -> dict[int, dict[str, Any]]:
        """What ranks wrote of their values, in the last lines of each."""
        request = self.core.request(STREAM_LOGS, {"name": self.name}, self.log_fields(ranks, {"tailLines": tail}), None)
        texts: dict[int, bytearray] = {}
        lines = await self.core.repeat("streamLogs", True, lambda _: self.core.lines(request))
        try:
            while (chunk := await lines.next(time.monotonic() + SILENT)) is not None:
                if chunk.get("stream") == "STDOUT":
                    text = texts.setdefault(chunk.get("rank", 0), bytearray())
                    text.extend(data_of(chunk))
                    del text[: -results.LONGEST]
        finally:
            lines.close()
        found = {rank: results.last(bytes(text).decode("utf-8", "replace")) for rank, text in texts.items()}
        return {rank: record for rank, record in found.items() if record is not None}


@dataclass(frozen=True)
class LogOutput:
    """Some of what a rank wrote: STDOUT or STDERR, or a NOTE of Railyard's own."""

    rank: int
    stream: str
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as text. A character may be cut at either end: what is not whole is replaced."""
        return self.data.decode("utf-8", "replace")


def data_of(chunk: LogChunk) -> bytes:
    """The bytes of a chunk."""
    return base64.b64decode(chunk.get("data", ""))


def attempt_of(document: Job) -> int:
    """The present attempt of a job, begun or not; 1 for the first."""
    return document.get("status", {}).get("attempt", 0)


class LogFollower:
    """What ranks write, as it comes, until the job has ended; resumed when the connection is lost.

    A stream begins with all that is kept of the job's present attempt, and goes on with later ones without saying where they begin. So
    what was given is counted from the beginning of one attempt on (`attempt`), and a stream that is lost is resumed with that attempt:
    if others have followed it meanwhile, it is read to its end, then the next. Where it is in doubt what was given, it is given again.
    """

    def __init__(self, job: Reference, fields: Mapping[str, object], timeout: float) -> None:
        self.job = job
        self.fields = dict(fields)
        self.resumer = Resumer(job.core, f"follow the logs of job {job}", time.monotonic() + timeout)
        self.lines: Lines | None = None
        self.closed = False
        #: From the beginning of which attempt on `shown` counts; None before the first stream.
        self.attempt: int | None = None
        #: The present stream is of an attempt that others have followed; it has said something of Railyard's own.
        self.past, self.noted = False, False
        #: Bytes that were given, and bytes of the present stream that are still to be left out, by rank and stream.
        self.shown: dict[tuple[int, str], int] = {}
        self.skip: dict[tuple[int, str], int] = {}

    def close(self) -> None:
        """Ends it."""
        self.closed = True
        self.drop()

    def drop(self) -> None:
        lines, self.lines = self.lines, None
        if lines is not None:
            lines.close()

    def recognised(self) -> bool:
        """Whether what was given can be told from what is new."""
        return not self.fields.get("tailLines") and all(size <= RECOGNISED for size in self.shown.values())

    def choose(self, document: Job) -> None:
        """Decides of which attempt the next stream is: that which was lost, or the first behind it that is known."""
        present = attempt_of(document)
        earlier = [past.get("attempt", 0) for past in document.get("status", {}).get("pastAttempts", ())]
        before = present if self.attempt is None else self.attempt
        whole = [] if self.fields.get("tailLines") else earlier
        self.attempt = min((one for one in whole if before <= one < present), default=present)
        if self.attempt != before or (self.attempt != present and not self.recognised()):
            self.shown.clear()
        self.past, self.noted = self.attempt != present, False

    async def begin(self) -> Lines | None:
        """The next stream; None if an attempt began meanwhile, so that it is unknown with which one the stream begins."""
        core = self.job.core
        self.choose(await self.job.refresh())
        more = {"attempt": self.attempt} if self.past else {"follow": True}
        lines = await core.lines(core.request(STREAM_LOGS, {"name": self.job.name}, {**self.fields, **more}, None))
        try:
            if self.shown and not self.past and attempt_of(await self.job.refresh()) != self.attempt:
                lines.close()
                return None
        except BaseException:
            lines.close()
            raise
        self.skip = dict(self.shown) if self.recognised() else {}
        return lines

    def finish(self) -> None:
        """A past attempt was read to its end: what is still to be left out was given of the next one."""
        self.shown = {} if self.noted else {key: size for key, size in self.skip.items() if size}
        self.attempt = (self.attempt or 0) + 1

    async def next(self) -> LogOutput | None:
        """The next output that is new; None at the end. Raises ApiError or WaitTimeout."""
        while not self.closed:
            try:
                if self.lines is None:
                    self.lines = await self.begin()
                    if self.lines is None:
                        continue
                    self.resumer.opened()
                chunk = await self.lines.next(self.resumer.until())
                over = chunk is None and not self.past and await self.ended()
            except ApiError as error:
                if isinstance(error, DeadlineExceeded) and self.lines is not None and not self.lines.closed:
                    # Ranks that write nothing are no fault; that the controller is gone the kernel finds out.
                    continue
                self.drop()
                await self.resumer.lost(error)
                continue
            except BaseException:
                self.close()
                raise
            if chunk is not None:
                self.resumer.arrived()
                new = self.new(chunk)
                if new is not None:
                    return new
                continue
            self.drop()
            if over:
                self.closed = True
            elif self.past:
                self.finish()
            else:
                await self.resumer.lost(None)
        return None

    async def ended(self) -> bool:
        await self.job.refresh()
        return self.job.phase in ENDED

    def new(self, chunk: LogChunk) -> LogOutput | None:
        """The part of a chunk that was not given yet."""
        rank, stream = chunk.get("rank", 0), str(chunk.get("stream", ""))
        data = data_of(chunk)
        self.noted = self.noted or stream == "NOTE"
        known = min(self.skip.get((rank, stream), 0), len(data))
        self.skip[rank, stream] = self.skip.get((rank, stream), 0) - known
        self.shown[rank, stream] = self.shown.get((rank, stream), 0) + len(data) - known
        return LogOutput(rank, stream, data[known:]) if known < len(data) else None


async def create(
    core: Core, document: Mapping[str, Any], tenant: str | None, request_id: str | None, hold: bool
) -> Job:
    """Submits a job under one request id, so that a call that is repeated makes no second one."""
    fields = {"onBehalfOf": tenant, "requestId": request_id, "hold": hold or None}
    made: Job = await core.call(CREATE_JOB, {}, fields, document)
    return made
