"""Messages of `Client.service_classes`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import TypedDict

from .common import (
    Int64,
    Metadata,
)


class ClassPreemption(TypedDict, total=False):
    #: Whether jobs of lower priority may be stopped for jobs of this class; default true.
    preempts: bool
    #: Whether its jobs may be stopped for others, whatever they say themselves; absent: as they say.
    preemptible: bool
    #: Between signal and SIGKILL where a job does not say; absent: its grace period.
    gracePeriod: str


class DeleteServiceClassResponse(TypedDict, total=False):
    """Nothing is in it."""


class JobLimits(TypedDict, total=False):
    #: Absent: -1000.
    priorityMin: int
    #: Absent: as high as the submitter's role may go without a class.
    priorityMax: int
    #: Of jobs that give none, or 0.
    priorityDefault: int
    #: The longest `timeLimit`; a job without a limit has none that is short enough.
    timeLimitMax: str
    #: Of jobs that give none; absent: `time_limit_max`.
    timeLimitDefault: str
    #: Nodes of a job, its spares too; absent: any number.
    nodesMax: int
    #: GPUs of a job on all its nodes, its spares too.
    gpusMax: int
    #: The longest `gracePeriod`, also of preemption.
    gracePeriodMax: str


class ListServiceClassesResponse(TypedDict, total=False):
    serviceClasses: list[ServiceClass]
    nextPageToken: str
    revision: Int64


class ServiceClass(TypedDict, total=False):
    #: "rail/v1".
    apiVersion: str
    #: "ServiceClass".
    kind: str
    metadata: Metadata
    spec: ServiceClassSpec
    status: ServiceClassStatus


class ServiceClassMembers(TypedDict, total=False):
    tenants: list[str]
    #: TENANT/QUEUE; those within it too.
    queues: list[str]
    #: TENANT/USER.
    users: list[str]
    #: ADMIN, TENANT_ADMIN or USER.
    roles: list[str]


class ServiceClassSpec(TypedDict, total=False):
    """A job is of one class or of none. It names it (`serviceClass`), or is of the default class that fits it best: first one that names its
    user, then its queue, then its submitter's role, then its tenant, then one for everybody; of several the first by name.
    """

    description: str
    #: Whose jobs may be of it: all that is given must hold. Nothing given: everybody's.
    members: ServiceClassMembers
    #: Jobs of its members that name no class are of it.
    defaultClass: bool
    #: Of one job. Administrators of the cluster may go beyond it.
    job: JobLimits
    #: Of all jobs of one user in this class.
    user: UserLimits
    preemption: ClassPreemption


class ServiceClassStatus(TypedDict, total=False):
    #: Its jobs that wait.
    jobsWaiting: int
    #: Its jobs that hold a place.
    jobsRunning: int
    #: GPUs that they hold.
    gpusUsed: int


class UserLimits(TypedDict, total=False):
    #: Jobs that hold a place at once; absent: any number.
    jobsRunning: int
    #: Jobs that wait; a further one is refused.
    jobsWaiting: int
    #: GPUs that they hold at once.
    gpus: int
