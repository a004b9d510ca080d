"""`Client` and `AsyncClient`: the services of the API, and jobs as objects."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

from . import apply as documents
from ._core import Core, RetryPolicy
from ._functions import Call, Named, packed
from ._http import Async, Blocking, run
from ._jobs import ENDED, LONG, LogFollower, LogOutput, Reference, argv_of, create, described
from .apply import Changes, Documents
from .config import Settings
from .errors import ConfigError
from .resources import Services
from .resources.aio import AsyncServices
from .resources.jobs import CANCEL_JOB, DELETE_JOB, GET_JOB
from .types import Job as JobDocument

#: What is run: a command as a list, a text for a shell, or a function.
Work = str | Sequence[str] | Callable[..., Any] | Named


def prepared(
    work: Work, args: Sequence[Any], kwargs: Mapping[str, Any], python: str, fields: dict[str, Any]
) -> tuple[Any, Call | None]:
    """The document of a job, and the function that it runs."""
    if isinstance(work, Named) or callable(work):
        call = packed(work, args, kwargs)
        env = {**(fields["env"] or {}), **call.env}
        return described(call.argv(python), **{**fields, "env": env, "prefix": "call"}), call
    if args or kwargs:
        raise ConfigError("submit: args and kwargs are for functions; those of a command are in its list")
    return described(argv_of(work), **{**fields, "prefix": "job"}), None


class AnyJob:
    """What is known of a job; `document` is all of it as it was when it was last asked for."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference

    @property
    def name(self) -> str:
        """Its name in its tenant."""
        return self._reference.name

    @property
    def tenant(self) -> str:
        """Its tenant's name."""
        return self._reference.tenant

    @property
    def uid(self) -> str:
        """What no other job ever has."""
        return self._reference.uid

    @property
    def document(self) -> JobDocument:
        """The job as JSON has it."""
        return self._reference.document

    @property
    def phase(self) -> str:
        """PENDING, RUNNING, COMPLETED, ..., as it was last."""
        return self._reference.phase

    @property
    def ended(self) -> bool:
        """It had ended when it was last asked for."""
        return self.phase in ENDED

    @property
    def why(self) -> str:
        """The causes of its phase."""
        return self._reference.why

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._reference}, {self.phase})"


class Job(AnyJob):
    """A job. What it does raises ApiError."""

    def refresh(self) -> JobDocument:
        """Asks for it."""
        return run(self._reference.refresh())

    def wait(self, timeout: float = LONG, *, check: bool = True) -> JobDocument:
        """Waits until it has ended, at most `timeout` seconds (30 days).

        Raises JobFailed if it has not completed, unless `check` is False; WaitTimeout; NotFound if it is deleted meanwhile.
        """
        return run(self._reference.wait(timeout, check))

    def wait_for(self, *phases: str, timeout: float = LONG) -> JobDocument:
        """Waits until it has one of these phases, or has ended. Raises as `wait`, but for JobFailed."""
        return run(self._reference.until(phases, timeout))

    def logs(
        self,
        rank: int | Sequence[int] | None = None,
        *,
        tail: int | None = None,
        attempt: int | None = None,
        stream: str | None = None,
    ) -> str:
        """What ranks wrote and is kept. `tail`: lines of each rank; `stream`: STDOUT or STDERR alone."""
        return run(self._reference.logs(rank, tail, attempt, stream))

    def follow_logs(
        self, rank: int | Sequence[int] | None = None, *, tail: int | None = None, timeout: float = LONG
    ) -> Iterator[LogOutput]:
        """What ranks write, as it comes, until the job has ended. Raises WaitTimeout."""
        follower = LogFollower(self._reference, self._reference.log_fields(rank, {"tailLines": tail}), timeout)
        try:
            while (chunk := run(follower.next())) is not None:
                yield chunk
        finally:
            follower.close()

    def result(self, rank: int = 0, timeout: float = LONG) -> Any:
        """What the function of the job gave on a rank; waits for the end. Raises FunctionFailed, JobFailed, WaitTimeout."""
        return run(self._reference.result([rank], timeout))[rank]

    def results(self, timeout: float = LONG) -> list[Any]:
        """What the function gave on each rank, in their order. Raises as `result`."""
        return list(run(self._reference.result(None, timeout)).values())

    def cancel(self, grace_period: str | None = None) -> JobDocument:
        """Ends it: SIGTERM, then SIGKILL after the grace period ("30s"). A job that has ended stays as it is."""
        one = self._reference
        fields = {"tenant": one.tenant, "gracePeriod": grace_period}
        one.document = run(one.core.call(CANCEL_JOB, {"name": one.name}, fields))
        return one.document

    def delete(self) -> None:
        """Removes it; it must have ended."""
        one = self._reference
        run(one.core.call(DELETE_JOB, {"name": one.name}, {"tenant": one.tenant}))


class AsyncJob(AnyJob):
    """The same for an event loop: what asks the controller is awaited, or is an `async for`."""

    async def refresh(self) -> JobDocument:
        """Asks for it."""
        return await self._reference.refresh()

    async def wait(self, timeout: float = LONG, *, check: bool = True) -> JobDocument:
        """As `Job.wait`."""
        return await self._reference.wait(timeout, check)

    async def wait_for(self, *phases: str, timeout: float = LONG) -> JobDocument:
        """As `Job.wait_for`."""
        return await self._reference.until(phases, timeout)

    async def logs(
        self,
        rank: int | Sequence[int] | None = None,
        *,
        tail: int | None = None,
        attempt: int | None = None,
        stream: str | None = None,
    ) -> str:
        """As `Job.logs`."""
        return await self._reference.logs(rank, tail, attempt, stream)

    async def follow_logs(
        self, rank: int | Sequence[int] | None = None, *, tail: int | None = None, timeout: float = LONG
    ) -> AsyncIterator[LogOutput]:
        """As `Job.follow_logs`."""
        follower = LogFollower(self._reference, self._reference.log_fields(rank, {"tailLines": tail}), timeout)
        try:
            while (chunk := await follower.next()) is not None:
                yield chunk
        finally:
            follower.close()

    async def result(self, rank: int = 0, timeout: float = LONG) -> Any:
        """As `Job.result`."""
        return (await self._reference.result([rank], timeout))[rank]

    async def results(self, timeout: float = LONG) -> list[Any]:
        """As `Job.results`."""
        return list((await self._reference.result(None, timeout)).values())

    async def cancel(self, grace_period: str | None = None) -> JobDocument:
        """As `Job.cancel`."""
        one = self._reference
        fields = {"tenant": one.tenant, "gracePeriod": grace_period}
        one.document = await one.core.call(CANCEL_JOB, {"name": one.name}, fields)
        return one.document

    async def delete(self) -> None:
        """As `Job.delete`."""
        one = self._reference
        await one.core.call(DELETE_JOB, {"name": one.name}, {"tenant": one.tenant})


class Client(Services):
    """A cluster's API, blocking. Threads may share one.

    Where the cluster is and as whom to speak is found as by railctl: arguments, environment, then the context of the configuration file.
    `timeout` is the limit of one call in seconds, without its repetitions, which `retry` bounds. Raises ConfigError.
    """

    def __init__(
        self,
        *,
        context: str | None = None,
        controller: str | Sequence[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        token: str | os.PathLike[str] | None = None,
        tenant: str | None = None,
        config: str | os.PathLike[str] | None = None,
        settings: Settings | None = None,
        timeout: float = 30.0,
        retry: RetryPolicy | None = None,
    ) -> None:
        if settings is None:
            settings = Settings.load(
                context=context,
                controller=controller,
                ca=ca,
                cert=cert,
                key=key,
                token=token,
                tenant=tenant,
                config=config,
            )
        self.settings = settings
        self._core = Core(settings, Blocking(), timeout, retry or RetryPolicy())
        super().__init__(self._core)

    def close(self) -> None:
        """Ends the connections."""
        self._core.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def job(self, name: str, *, tenant: str | None = None) -> Job:
        """A job that is there, as an object. Raises NotFound."""
        document: JobDocument = run(self._core.call(GET_JOB, {"name": name}, {"tenant": tenant}))
        return Job(Reference(self._core, document))

    def apply(
        self, docs: Documents, *, dry_run: bool = False, allow_shrink: bool = False, reuse_names: bool = False
    ) -> Changes:
        """Makes the cluster as documents say, and says what that changes; with `dry_run` it only says so, and nothing is stored.

        Documents are mappings, files (a path) of JSON or, with PyYAML, YAML, or texts. They are judged together, each as if those before
        it had been applied: if one would be refused, nothing is applied and ApplyRefused says why. What is as its document says is left
        alone. Raises ConfigError for what is no document, and ApiError.
        """
        return run(
            documents.apply(self._core, docs, dry_run=dry_run, allow_shrink=allow_shrink, reuse_names=reuse_names)
        )

    def submit(
        self,
        work: Work,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        nodes: int = 1,
        gpus_per_node: int = 0,
        ranks_per_node: int | None = None,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        time_limit: float | timedelta | str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        labels: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
        hold: bool = False,
        python: str = "python3",
        tenant: str | None = None,
        request_id: str | None = None,
    ) -> Job:
        """Submits a job: a command (a list, or a text for a shell), or a function, called on each rank.

        `time_limit` is in seconds, a timedelta, or as in files ("1h30m"). `spec` is merged into the job's spec, for all that has no
        argument here. `request_id`: repeated with the same one and the same work, it gives the same job; without one each call makes a
        job, exactly one however often it had to be sent. Raises InvalidRequest with the fields that are wrong, other ApiErrors, and
        ConfigError for a function that cannot be sent.
        """
        fields: dict[str, Any] = {
            "nodes": nodes,
            "gpus_per_node": gpus_per_node,
            "ranks_per_node": ranks_per_node,
            "name": name,
            "env": env,
            "working_dir": working_dir,
            "time_limit": time_limit,
            "queue": queue,
            "priority": priority,
            "labels": labels,
            "spec": spec,
        }
        document, function = prepared(work, args, kwargs or {}, python, fields)
        made = run(create(self._core, document, tenant, request_id, hold))
        reference = Reference(self._core, made)
        reference.function = function
        return Job(reference)


class AsyncClient(AsyncServices):
    """The same for an event loop: one client is for one loop.

    Where the cluster is and as whom to speak is found as by railctl: arguments, environment, then the context of the configuration file.
    `timeout` is the limit of one call in seconds, without its repetitions, which `retry` bounds. Raises ConfigError.
    """

    def __init__(
        self,
        *,
        context: str | None = None,
        controller: str | Sequence[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        token: str | os.PathLike[str] | None = None,
        tenant: str | None = None,
        config: str | os.PathLike[str] | None = None,
        settings: Settings | None = None,
        timeout: float = 30.0,
        retry: RetryPolicy | None = None,
    ) -> None:
        if settings is None:
            settings = Settings.load(
                context=context,
                controller=controller,
                ca=ca,
                cert=cert,
                key=key,
                token=token,
                tenant=tenant,
                config=config,
            )
        self.settings = settings
        self._core = Core(settings, Async(), timeout, retry or RetryPolicy())
        super().__init__(self._core)

    def close(self) -> None:
        """Ends the connections."""
        self._core.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def job(self, name: str, *, tenant: str | None = None) -> AsyncJob:
        """A job that is there, as an object. Raises NotFound."""
        document: JobDocument = await self._core.call(GET_JOB, {"name": name}, {"tenant": tenant})
        return AsyncJob(Reference(self._core, document))

    async def apply(
        self, docs: Documents, *, dry_run: bool = False, allow_shrink: bool = False, reuse_names: bool = False
    ) -> Changes:
        """As `Client.apply`."""
        return await documents.apply(
            self._core, docs, dry_run=dry_run, allow_shrink=allow_shrink, reuse_names=reuse_names
        )

    async def submit(
        self,
        work: Work,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        nodes: int = 1,
        gpus_per_node: int = 0,
        ranks_per_node: int | None = None,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        time_limit: float | timedelta | str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        labels: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
        hold: bool = False,
        python: str = "python3",
        tenant: str | None = None,
        request_id: str | None = None,
    ) -> AsyncJob:
        """As `Client.submit`."""
        fields: dict[str, Any] = {
            "nodes": nodes,
            "gpus_per_node": gpus_per_node,
            "ranks_per_node": ranks_per_node,
            "name": name,
            "env": env,
            "working_dir": working_dir,
            "time_limit": time_limit,
            "queue": queue,
            "priority": priority,
            "labels": labels,
            "spec": spec,
        }
        document, function = prepared(work, args, kwargs or {}, python, fields)
        made = await create(self._core, document, tenant, request_id, hold)
        reference = Reference(self._core, made)
        reference.function = function
        return AsyncJob(reference)
