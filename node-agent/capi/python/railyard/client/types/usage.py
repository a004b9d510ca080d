"""Messages of `Client.usage`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypedDict

from .common import (
    Int64,
)


SumUsageRequestBy = Literal["TENANT", "QUEUE", "USER", "JOB"]


UsageRecordEnd = Literal["RUNNING", "COMPLETED", "FAILED", "CANCELLED", "REQUEUED", "PREEMPTED", "MOVED"]


class ListUsageRecordsResponse(TypedDict, total=False):
    records: list[UsageRecord]
    #: A page may be short, also empty; the list ends where this is empty.
    nextPageToken: str
    #: Up to when attempts that still hold are counted, on all pages of the list.
    asOf: str


class SumUsageResponse(TypedDict, total=False):
    #: Those with the most GPU time first.
    sums: list[UsageSum]
    #: Of all, also of those that are left out.
    total: UsageSum
    #: Groups that are left out.
    leftOut: Int64
    #: Up to when attempts that still hold are counted.
    asOf: str
    #: Of attempts that ended before this time records may be missing, later ones have all: the end of the oldest record of the tenant that
    #: was
    #: asked for, whatever its queue and user. Of all tenants the latest of these times: ask for one tenant to know its own. Absent: no
    #: record is kept.
    oldestEndTime: str


class UsageAmount(TypedDict, total=False):
    """How much was held for how long, in milliseconds times what was held: whole numbers, which add up."""

    #: Milliseconds that attempts held anything.
    heldMs: Int64
    #: Servers, spares included.
    nodeMs: Int64
    gpuMs: Int64
    nicMs: Int64
    #: Rails of a gang, however many servers it had.
    railMs: Int64
    cpuMs: Int64
    #: Of `gpu_ms` what passed before all ranks had been started: engines, certification, or all of it where they never were.
    startupGpuMs: Int64


class UsageRecord(TypedDict, total=False):
    """What one attempt of a job held, and why it ended. What is counted is what was reserved: servers, GPUs and NICs are the attempt's from
    its
    placement until every server has confirmed the end, whether its ranks use them or not. All of it stays the same within an attempt: a job
    that
    goes on with another size, or elsewhere, goes on in another attempt.
    """

    tenant: str
    #: A later tenant with the same name has another.
    tenantUid: str
    job: str
    #: A later job with the same name has another.
    jobUid: str
    #: Counted from 1.
    attempt: int
    #: Empty: the tenant itself.
    queue: str
    serviceClass: str
    priority: int
    #: Who submitted the job; empty where that is not known.
    user: str
    #: Servers with ranks.
    nodes: int
    #: Further servers that were held idle, to replace those that fail.
    spares: int
    #: On all servers.
    gpus: Int64
    #: On all servers, one for each rail and server.
    nics: Int64
    #: Rails that the gang was given.
    rails: int
    #: CPUs that were its alone, on all servers.
    cpus: Int64
    #: Bytes of main memory that were its alone, on all servers.
    memoryBytes: Int64
    #: What the job asked for; an elastic one may hold less. Servers without spares, GPUs with theirs.
    nodesAsked: int
    gpusAsked: Int64
    submitTime: str
    #: When the attempt got its place: from then on it held.
    placeTime: str
    #: When all its ranks had been started; absent: never.
    startTime: str
    #: When it gave back what it held; absent while it has not.
    endTime: str
    end: UsageRecordEnd
    #: The code of the first cause of its end; empty where there was none.
    reason: str
    #: What it held of all that within the interval that was asked for.
    amount: UsageAmount


class UsageSum(TypedDict, total=False):
    """What was held by those that are alike in what is summed over."""

    #: Empty in the total.
    tenant: str
    tenantUid: str
    #: Where queues are summed over: empty is the tenant itself.
    queue: str
    #: Where users are summed over: empty is not known.
    user: str
    #: Where jobs are summed over.
    job: str
    jobUid: str
    attempts: Int64
    #: Of these, attempts that still hold what they got.
    attemptsRunning: Int64
    amount: UsageAmount
