"""Messages of `Client.jobs`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypedDict

from .common import (
    Int64,
    IsolationPolicy,
    JobSpec,
    Metadata,
    RailReportState,
    Reason,
    Role,
    Submitter,
)


#: What the job can rely on.
EtaPromise = Literal["ESTIMATE", "CONSERVATIVE", "EASY", "SLACK"]


JobEventType = Literal["PUT", "DELETE", "SYNCED"]


JobStatusPhase = Literal["PENDING", "RESERVED", "PREPARING", "RUNNING", "RECOVERING", "COMPLETED", "FAILED", "CANCELLED"]


LogChunkStream = Literal["STDOUT", "STDERR", "NOTE"]


class AlgorithmChoice(TypedDict, total=False):
    """How an engine carries out one kind of operation, and why."""

    #: For example all-reduce.
    operation: str
    #: It was chosen for messages of at most this size, and of more than half of it.
    bytes: Int64
    #: For example direct.
    algorithm: str
    #: Every consideration, the deciding one first.
    reasons: list[str]


class ArrayPlace(TypedDict, total=False):
    #: Name of the array.
    array: str
    index: int
    #: Elements of the array.
    size: int


class CancelJobRequest(TypedDict, total=False):
    tenant: str
    #: Overrides the job's grace period.
    gracePeriod: str
    #: If `name` is an array: only these elements, for example "3,7-9"; empty means all.
    elements: str


class CollectiveResult(TypedDict, total=False):
    """What rank 0 of a collective job measured."""

    ranks: int
    bytes: Int64
    iterations: int
    timeUsMin: float
    timeUsMedian: float
    timeUsMax: float
    #: bytes / time, in Gbit/s (1e9).
    algBwGbps: float
    #: As nccl-tests defines it; all-reduce: alg_bw * 2(n-1)/n.
    busBwGbps: float
    #: Every element was checked and right.
    verified: bool
    mismatches: Int64
    #: Sums over the gang's engines.
    rails: list[RailBytes]


class Decision(TypedDict, total=False):
    """What was decided of a job, and why. Recorded when the kinds of causes change, and kept for some time."""

    time: str
    phase: JobStatusPhase
    attempt: int
    reasons: list[Reason]
    #: Nodes of the placement, and a digest that two equal placements share; 0 and empty without one.
    nodes: int
    placementDigest: str


class DeleteJobResponse(TypedDict, total=False):
    """Nothing is in it."""


class Eta(TypedDict, total=False):
    """When a job will probably start."""

    start: str
    earliest: str
    #: Absent where nobody can say: it is behind all that is planned.
    latest: str
    promise: EtaPromise
    #: Its start in the plan, if it has a place there and everybody runs as long as allowed. Jobs ahead of it may delay that when they
    #: come, or move forward because others end early.
    planned: str


class ExplainJobResponse(TypedDict, total=False):
    phase: JobStatusPhase
    reasons: list[Reason]
    #: Jobs that are ahead of it in the queue.
    queuePosition: int
    infeasible: bool
    #: Of a job that runs: what its servers say of their rails; those where something is amiss come first.
    rails: list[NodeRails]
    #: Servers that are left out of `rails`, where there are many.
    railsOmitted: int
    #: Of a job that runs: how its operations are carried out.
    choices: list[AlgorithmChoice]
    #: Of a job that waits: nodes of the cluster, those that it could choose from now, and the most that a gang of its kind
    #: could have now.
    nodesTotal: int
    nodesFree: int
    nodesReach: int
    #: Who holds what it waits for, those with the most nodes first.
    holders: list[Holder]
    #: Further ones.
    holdersOmitted: int
    #: The least that would have to be given up for it to start now, each tried by placing it.
    relaxations: list[Relaxation]
    #: When it will probably start.
    eta: Eta
    #: With `at`: the decisions up to then, the last one last.
    decisions: list[Decision]
    #: How much isolation its servers must give: the stricter of the cluster's and its tenant's setting.
    isolation: IsolationPolicy
    #: Who may start before jobs that wait ahead: CONSERVATIVE, EASY, or for example SLACK(30min).
    backfill: str


class HoldJobRequest(TypedDict, total=False):
    tenant: str
    #: If `name` is an array: only these elements, for example "3,7-9"; empty means all that have not ended.
    elements: str
    #: For people; at most 1024 bytes.
    reason: str
    #: Made by the client, one per change: a late copy of the same request changes nothing.
    requestId: str


class Holder(TypedDict, total=False):
    """A job that holds what another one waits for."""

    #: Empty where the job is another tenant's and the caller may not see it.
    tenant: str
    job: str
    #: Nodes that the waiting job could have if it ended.
    nodes: int
    #: When its time is over, where it has a limit or said how long it will run.
    until: str


class Job(TypedDict, total=False):
    #: "rail/v1".
    apiVersion: str
    #: "Job".
    kind: str
    metadata: Metadata
    spec: JobSpec
    status: JobStatus


class JobEvent(TypedDict, total=False):
    type: JobEventType
    job: Job
    revision: Int64


class JobHold(TypedDict, total=False):
    """A job is held: while it waits it keeps its place in the queue, and does not start. One that runs goes on; it is not started again.
    A suspension is a hold for which what ran was stopped.
    """

    #: ADMIN, TENANT_ADMIN or USER: who has this role, or more, may release it.
    role: Role
    #: Who held it: an administrator's name, or a user of the job's tenant.
    by: str
    #: In their words; may be empty.
    reason: str
    since: str
    #: It is a suspension.
    suspended: bool


class JobStatus(TypedDict, total=False):
    phase: JobStatusPhase
    #: Every cause of the present phase.
    reasons: list[Reason]
    placement: Placement
    #: 1 for the first attempt.
    attempt: int
    submitTime: str
    #: All ranks of the present attempt have been started.
    startTime: str
    endTime: str
    #: One entry for each rank that has ended.
    exits: list[RankExit]
    result: CollectiveResult
    #: W3C trace context of the submit, so that one trace shows the whole life.
    traceParent: str
    #: What a cancel asked for, once it has.
    cancelRequested: bool
    #: Of which array it is an element.
    array: ArrayPlace
    #: How often it was stopped for another job.
    preempted: int
    #: Attempts that failed and were repeated; `attempt` also counts those that were stopped on purpose.
    restarts: int
    #: Nodes of it that were replaced.
    replaced: int
    #: Of a queued job: when it will probably start. Told by the controller that leads; absent where nobody can say, as of a held job.
    eta: Eta
    #: Who holds it: one entry for each role that does. It does not start while there is one.
    holds: list[JobHold]
    #: Who submitted it; absent where an earlier release did not say.
    submitter: Submitter
    #: Which schedule has submitted it, by its submitter's authority.
    schedule: ScheduledRun
    #: Attempts before the present one, the oldest first; of many only the last 8.
    pastAttempts: list[PastAttempt]


class JobUsage(TypedDict, total=False):
    """What one running job uses now: its ranks, its steps and its engines."""

    tenant: str
    job: str
    user: str
    #: The oldest of what its servers have told.
    time: str
    #: Thousandths of one CPU that are busy, over all its servers.
    cpuMillis: Int64
    #: CPUs that are its alone; 0: it shares what others leave.
    cpus: Int64
    memoryBytes: Int64
    #: Memory that is its alone; 0: it shares what others leave.
    memoryHeldBytes: Int64
    processes: int
    gpus: int
    #: Servers that it has, and those that have told what it uses.
    nodes: int
    nodesReported: int


class ListJobUsageResponse(TypedDict, total=False):
    jobs: list[JobUsage]
    nextPageToken: str


class ListJobsResponse(TypedDict, total=False):
    jobs: list[Job]
    nextPageToken: str
    revision: Int64


class LogChunk(TypedDict, total=False):
    rank: int
    stream: LogChunkStream
    data: str
    #: When it was written, if times were asked for and are known.
    time: str


class NicPlace(TypedDict, total=False):
    device: str
    netdev: str
    rail: int
    leaf: str
    address: str


class NodePlace(TypedDict, total=False):
    node: str
    pod: str
    gpus: list[int]
    #: One entry per rail in use.
    nics: list[NicPlace]
    #: Its NICs are named by the rails that they were found to be cabled to, not by those that its inventory says.
    remapped: bool
    #: CPUs of the node that the job holds: how many, not which.
    cpus: int
    #: Bytes of the node's main memory that the job holds.
    memoryBytes: Int64


class NodeRails(TypedDict, total=False):
    """What one server of a job has told of its rails."""

    node: str
    rails: list[RailReport]
    #: When it was told; absent if nothing was told yet.
    time: str


class PastAttempt(TypedDict, total=False):
    """An attempt of a job that has ended, and was followed by another."""

    #: 1 for the first attempt.
    attempt: int
    #: All ranks of it had been started; absent where they never were.
    startTime: str
    endTime: str
    #: Why it ended.
    reasons: list[Reason]
    #: Ranks that ended badly, those that did so first; at most 16.
    exits: list[RankExit]
    #: The servers that it had.
    nodes: list[str]


class Placement(TypedDict, total=False):
    """Where the gang runs: nodes, rails, and the rank map."""

    nodes: list[NodePlace]
    ranks: list[RankPlace]
    #: Indices of the rails in use.
    rails: list[int]
    #: Distinct pods.
    pods: int
    #: Why this choice.
    reasons: list[Reason]
    #: Further nodes that are held idle, to replace those that fail.
    spares: list[NodePlace]
    #: Weight of the job's traffic that crosses leaves and pods.
    cut: Int64
    #: Nobody else on its nodes.
    exclusive: bool
    #: Nodes of it were replaced, or rails dropped, since the gang was placed.
    repaired: bool


class PlanJobResponse(TypedDict, total=False):
    #: It would start at once, here.
    placement: Placement
    #: It would not start at once: every cause. Empty when `placement` is set.
    reasons: list[Reason]
    #: It could never start on this cluster as it is described now.
    infeasible: bool
    #: It would wait: when it would probably start.
    eta: Eta
    #: Jobs that would be stopped for it.
    preempts: list[Holder]
    #: It would wait: who holds what it would wait for.
    holders: list[Holder]
    holdersOmitted: int
    #: It would wait: the least that would have to be given up for it to start now.
    relaxations: list[Relaxation]


class RailBytes(TypedDict, total=False):
    rail: int
    txBytes: Int64
    rxBytes: Int64


class RailReport(TypedDict, total=False):
    """What one engine says of one rail of its server."""

    rail: int
    state: RailReportState
    #: Of the state.
    since: str
    txBytes: Int64
    rxBytes: Int64
    #: Bytes per second since the report before.
    txRate: Int64
    rxRate: Int64
    #: How often a link of it was lost.
    flaps: int
    #: Of the last loss, in words; empty if there was none.
    cause: str
    #: Other nodes of the job, and how many of them are reached on it.
    peers: int
    peersUp: int


class RankExit(TypedDict, total=False):
    rank: int
    #: Exit status of the program; meaningful where `signal` is 0.
    code: int
    #: Signal that ended it; 0 if none did.
    signal: int
    time: str
    #: CPU time of the rank and of all that it has started and waited for; absent where its agent does not tell it.
    cpuTime: str
    #: The most memory that the rank and what it has started were seen to have at a time (resident set); 0 where it ended before a look.
    memoryPeakBytes: Int64


class RankPlace(TypedDict, total=False):
    """rank -> node -> GPU -> NIC -> rail -> leaf."""

    rank: int
    node: str
    localRank: int
    gpus: list[int]
    #: The NIC nearest to its GPU.
    nic: str
    rail: int
    leaf: str


class Relaxation(TypedDict, total=False):
    """Changes of a job's file that together would let it start now. No fewer would."""

    changes: list[RelaxationChange]
    #: What is given up in all, in thousandths of what was asked.
    amount: Int64


RelaxationChange = TypedDict(
    "RelaxationChange",
    {
        "field": "str",
        "from": "str",
        "to": "str",
        "message": "str",
    },
    total=False,
)


class ReleaseJobRequest(TypedDict, total=False):
    tenant: str
    #: If `name` is an array: only these elements; empty means all.
    elements: str
    requestId: str


class RequeueJobRequest(TypedDict, total=False):
    tenant: str
    #: If `name` is an array: only these elements; empty means all that have not ended.
    elements: str
    #: For people; at most 1024 bytes.
    reason: str
    #: Made by the client, one per change: without one a repeated request stops the next attempt too.
    requestId: str


class ResumeJobRequest(TypedDict, total=False):
    tenant: str
    #: If `name` is an array: only these elements; empty means all.
    elements: str
    requestId: str


class ScheduledRun(TypedDict, total=False):
    """A run of a schedule."""

    #: The schedule's name, in the job's tenant.
    schedule: str
    #: When it was due.
    time: str


class SuspendJobRequest(TypedDict, total=False):
    tenant: str
    #: If `name` is an array: only these elements, for example "3,7-9"; empty means all that have not ended.
    elements: str
    #: For people; at most 1024 bytes.
    reason: str
    #: Made by the client, one per change: a late copy of the same request changes nothing.
    requestId: str


class UpdateJobRequest(TypedDict, total=False):
    """What is not given stays as it is."""

    tenant: str
    #: If `name` is an array: only these elements; empty means all that have not ended.
    elements: str
    #: Refused unless this is the job's resource version; 0: whatever it is. Not for several elements.
    ifVersion: Int64
    requestId: str
    #: Of a job that waits.
    priority: int
    timeLimit: str
    #: No limit any more; not with `time_limit`.
    noTimeLimit: bool
    #: Of a job that waits: one of the tenant's queues; empty: the tenant itself.
    queue: str
    #: Of a job that waits: nodes that it wants. Without `min_nodes` it is exactly so many.
    nodes: int
    #: Of a job that waits: it starts with so many at least.
    minNodes: int
    #: Labels that are set, also of a job that runs or has ended. The job keeps those that it has.
    setLabels: dict[str, str]
    #: Labels that are taken away, in the same jobs; one that is not there is no error.
    removeLabels: list[str]
