"""railyard.client: the controller's API for Python programs, blocking and asynchronous.

    from railyard.client import Client

    with Client() as client:                       # as railctl's configuration and environment say
        job = client.submit("hostname", nodes=2, gpus_per_node=1)
        job.wait()
        print(job.logs())
        for event in client.jobs.watch():
            ...

Needs the standard library alone; YAML documents need PyYAML, and functions that are sent by value cloudpickle. `types` has the messages
of the API, `errors` its failures. docs/python-client.md has all of it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from . import errors, types
from ._client import AsyncClient, AsyncJob, Client, Job, Work
from ._core import RetryPolicy
from ._functions import Named
from ._jobs import LogOutput
from ._resource import AsyncRecords, AsyncWatch, Records, Watch
from .apply import ApplyRefused, Change, Changes, FieldChange
from .config import Endpoint, Settings
from .errors import (
    AlreadyExists,
    ApiError,
    Cancelled,
    ClientError,
    ConfigError,
    Conflict,
    DataLoss,
    DeadlineExceeded,
    FunctionFailed,
    Gone,
    Infeasible,
    InternalError,
    InvalidRequest,
    JobFailed,
    NotFound,
    Overloaded,
    PermissionDenied,
    QuotaExceeded,
    TlsError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Violation,
    WaitTimeout,
)

__all__ = [
    "AlreadyExists",
    "ApiError",
    "ApplyRefused",
    "AsyncClient",
    "AsyncJob",
    "AsyncRecords",
    "AsyncWatch",
    "Cancelled",
    "Change",
    "Changes",
    "Client",
    "ClientError",
    "ConfigError",
    "Conflict",
    "DataLoss",
    "DeadlineExceeded",
    "Endpoint",
    "FieldChange",
    "FunctionFailed",
    "Gone",
    "Infeasible",
    "InternalError",
    "InvalidRequest",
    "Job",
    "JobFailed",
    "LogOutput",
    "Named",
    "NotFound",
    "Overloaded",
    "PermissionDenied",
    "QuotaExceeded",
    "Records",
    "RetryPolicy",
    "Settings",
    "TlsError",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Violation",
    "WaitTimeout",
    "Watch",
    "errors",
    "submit",
    "types",
]

_lock = threading.Lock()
_default: tuple[int, Client] | None = None


def default() -> Client:
    """The client of `submit`: one for each process, made when it is first needed. Raises ConfigError."""
    global _default
    with _lock:
        # Connections are not shared with a process that was forked.
        if _default is None or _default[0] != os.getpid():
            client = Client()
            atexit.register(client.close)
            _default = (os.getpid(), client)
        return _default[1]


def submit(
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
    client: Client | None = None,
) -> Job:
    """`Client.submit` of a client that is found as by railctl, or of this one."""
    return (client or default()).submit(
        work,
        args=args,
        kwargs=kwargs,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        ranks_per_node=ranks_per_node,
        name=name,
        env=env,
        working_dir=working_dir,
        time_limit=time_limit,
        queue=queue,
        priority=priority,
        labels=labels,
        spec=spec,
        hold=hold,
        python=python,
        tenant=tenant,
        request_id=request_id,
    )
