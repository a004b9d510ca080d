"""Messages of `Client.queues`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypedDict

from .common import (
    Int64,
    Metadata,
    Shape,
)


#: What the order of waiting jobs is for, among those of equal priority.
QueueSpecObjective = Literal["MEAN_WAIT", "LARGE_FIRST", "FAIR"]


class DeleteQueueResponse(TypedDict, total=False):
    """Nothing is in it."""


class ListQueuesResponse(TypedDict, total=False):
    queues: list[Queue]
    nextPageToken: str
    revision: Int64


class ListSharesResponse(TypedDict, total=False):
    #: Each tenant, then its queues.
    shares: list[Share]
    #: Use counts half after this time.
    halfLife: str


class Queue(TypedDict, total=False):
    #: "rail/v1".
    apiVersion: str
    #: "Queue".
    kind: str
    metadata: Metadata
    spec: QueueSpec
    status: QueueStatus


class QueueOrder(TypedDict, total=False):
    standings: list[QueueStanding]
    #: Jobs that wait in all.
    waiting: int
    #: Tenants that used less of late go first among jobs of equal priority.
    fairShare: bool


class QueueSpec(TypedDict, total=False):
    #: The queue that it is part of; empty: right below the tenant.
    parent: str
    #: What its jobs can always have; part of its parent's.
    guaranteed: Shape
    #: GPUs that its jobs hold at most, borrowed ones too; absent: as many as are free.
    limit: int
    #: Share of what is free, against its siblings' weights; default 1.
    weight: int
    objective: QueueSpecObjective
    #: Of MEAN_WAIT and LARGE_FIRST: jobs that come so long after another at most may go ahead of it for the objective;
    #: absent: 1 day for MEAN_WAIT, 8 days for LARGE_FIRST. At most 90 days.
    patience: str
    #: Of MEAN_WAIT and LARGE_FIRST: a job that asks for so many GPU-hours (its GPUs x its expected duration, or its time limit)
    #: or more goes as if it had come later by all of the patience, one of fewer by the square of its part of them: of half as many
    #: by a quarter of the patience. Of MEAN_WAIT in place of by its length; of LARGE_FIRST beside by its GPUs, in all at most by
    #: the patience. Absent: GPU-hours do not count.
    fullDelayGpuHours: int


class QueueStanding(TypedDict, total=False):
    """Why a waiting job stands where it does; factors are compared from the first to the last."""

    #: 1 is the first.
    position: int
    tenant: str
    job: str
    queue: str
    serviceClass: str
    #: It has a right to run, by its tenant's guarantee: such jobs go first.
    entitled: bool
    #: Higher goes first.
    priority: int
    #: GPU-hours that its tenant has used of late against its weight, with those of jobs that run and that are ahead; less goes first.
    tenantShare: float
    #: Its queue holds less than its guarantee: such queues of a tenant go first.
    belowGuarantee: bool
    #: As `tenant_share`, of its queue, or of the tenant's jobs that are in none.
    queueShare: float
    #: Older goes first.
    submitTime: str
    #: It goes as if it had been submitted so much earlier, for its size.
    headStart: str
    #: It does not start whatever room there is: it is held, or waits for another job, a turn or a time.
    held: bool


class QueueStatus(TypedDict, total=False):
    #: GPUs that its jobs hold, those of queues within it too.
    gpusUsed: int
    #: Its jobs that have not ended, those of queues within it too.
    jobsActive: int


class Share(TypedDict, total=False):
    tenant: str
    #: Empty: the tenant as a whole.
    queue: str
    weight: int
    #: GPU-hours of jobs that have ended; what is long ago counts less.
    usedGpuHours: float
    #: `used_gpu_hours` against `weight`: who has less goes first.
    normalized: float
    #: GPUs that its jobs hold, those of queues within it too.
    gpusHeld: Int64
    #: GPUs that it can always have.
    gpusGuaranteed: Int64
    jobsWaiting: int
    jobsRunning: int
