"""Messages that several services use. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict


#: A 64-bit number: text in answers, as canonical JSON has it (`int(...)` reads it); a number will do in requests.
Int64: TypeAlias = int | str


CollectiveDtype = Literal["F32", "F64", "I32", "I64", "F16", "BF16"]


CollectiveOp = Literal["ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "BROADCAST", "ALL_TO_ALL", "BARRIER", "SEND_RECV"]


CollectiveReduce = Literal["SUM", "MIN", "MAX", "PROD"]


DependencyWhen = Literal["SUCCEEDED", "ENDED", "STARTED", "FAILED"]


#: What is done to what goes over rails between servers, after engines have proved the job's key to each other. The more, the greater.
EngineOptionsProtection = Literal["NONE", "INTEGRITY", "ENCRYPTED"]


FailurePolicyRailLoss = Literal["CONTINUE", "MOVE", "FAIL"]


FailurePolicyReplace = Literal["NOTHING", "SPARES", "ANY"]


FailurePolicyRequeue = Literal["NEVER", "ON_INFRASTRUCTURE", "ON_ANY"]


#: How much isolation jobs must have.
IsolationPolicy = Literal["BEST_EFFORT", "REQUIRED"]


JobSpecCertification = Literal["WARN", "REQUIRE"]


PlacementRequestArrange = Literal["PACK", "SPREAD"]


PlacementRequestPattern = Literal["RING", "ALL_TO_ALL", "PIPELINE"]


PlacementRequestWithin = Literal["LEAVES", "POD", "FABRIC"]


QosPortState = Literal["HELD", "TRIAL", "KEPT", "DIFFERS", "FAILED"]


RailReportState = Literal["UP", "DRAINING", "DRAINED", "DOWN", "PROVING"]


#: Whether the job may start on rails that are drained.
RailRequestAvoidDrained = Literal["PREFERRED", "REQUIRED"]


#: What a caller may do. Anything that the table of roles does not name is denied.
Role = Literal["ADMIN", "TENANT_ADMIN", "USER", "VIEWER", "NODE", "SWITCH"]


SelectorTermOperator = Literal["IN", "NOT_IN", "EXISTS", "ABSENT"]


class Allocation(TypedDict, total=False):
    """Servers that are held for steps (`StepService.RunStep`): on each of them a program of Railyard's own waits until the job is cancelled or
    its time is over. Either is no failure: the job is then CANCELLED.
    """

    #: Environment of its steps; it wins over what Railyard sets.
    env: dict[str, str]
    #: Where its steps begin.
    workingDir: str
    #: As in Command.
    envHidden: bool
    #: As in Command.
    envFrom: list[EnvSource]


class Collective(TypedDict, total=False):
    """A built-in benchmark of the collective engine."""

    op: CollectiveOp
    #: Size of one rank's message.
    bytes: Int64
    #: Default F32.
    dtype: CollectiveDtype
    #: Default SUM.
    reduce: CollectiveReduce
    #: Default 10.
    iterations: int
    #: Not timed; default 1.
    warmup: int
    #: Check every element of the result on every rank.
    verify: bool


class Command(TypedDict, total=False):
    """Any program, started once per rank."""

    argv: list[str]
    #: Added to the environment; these win over what Railyard sets.
    env: dict[str, str]
    workingDir: str
    #: Set by the controller where the values of `env` are not for whoever reads: they are empty then. Refused in a submit.
    envHidden: bool
    #: Values of secrets and configs of the job's tenant. They are looked up when an attempt begins, and are in no answer; later entries win
    #: over
    #: earlier ones, and `env` over all of them.
    envFrom: list[EnvSource]


class Component(TypedDict, total=False):
    """Nodes of one shape in a gang, behind those of the components before it."""

    #: Unique within the job: a DNS label. Its ranks find it in RAIL_COMPONENT, with RAIL_COMPONENT_RANK and RAIL_COMPONENT_SIZE.
    name: str
    #: At least 1.
    nodes: int
    #: As in Gang, of each node of this component.
    gpusPerNode: int
    ranksPerNode: int
    cpusPerNode: int
    memoryPerNode: Int64
    #: As in PlacementRequest, for this component. Empty: what the job's placement says.
    gpuModel: list[str]


class DataKey(TypedDict, total=False):
    name: str
    #: Bytes of its value.
    size: int
    #: The object's generation in which the value was last changed.
    revision: Int64


class DataRef(TypedDict, total=False):
    #: The secret or config, of the job's tenant.
    name: str
    #: One of its keys; empty: all of them.
    key: str


class DataStatus(TypedDict, total=False):
    #: In the order of their names. Viewers see none of a secret's.
    keys: list[DataKey]
    #: When the values were last changed, and by whom.
    updateTime: str
    updatedBy: str


class Dependency(TypedDict, total=False):
    #: Another job of the tenant, or an array: then all its elements.
    job: str
    when: DependencyWhen


class EngineOptions(TypedDict, total=False):
    """How the job's engines carry out its operations, whichever program asks for them."""

    #: What goes over the rails carries checksums (CRC32C), and what fails them is sent again; default false.
    checksum: bool
    #: Floats are equal to the bit whichever algorithm is taken; default true. False permits halving for them.
    reproducible: bool
    #: Taken wherever it fits: direct, one-shot, ring, halving, relay or doubling. Default: the one that is predicted to be fastest.
    algorithm: str
    #: Queue pairs of each link over RDMA, 1 to 8; default 1. Each takes a way of its own through the fabric (its source port differs).
    queuePairs: int
    #: The cluster may ask for a minimum.
    protection: EngineOptionsProtection


class EnvSource(TypedDict, total=False):
    """Variables whose values are in a secret or a config."""

    #: The variable. Empty: it is called as its key is.
    name: str
    secretRef: DataRef
    configRef: DataRef


class FailurePolicy(TypedDict, total=False):
    requeue: FailurePolicyRequeue
    #: Default 3 where requeue is asked for.
    maxRestarts: int
    #: By what failed nodes are replaced while the healthy ones keep their places.
    replace: FailurePolicyReplace
    #: Nodes replaced at most, over the whole life of the job; default 3 where `replace` is asked for.
    maxReplacements: int
    onRailLoss: FailurePolicyRailLoss


class Gang(TypedDict, total=False):
    """All the tasks of the job; placed and started together or not at all."""

    #: At least 1.
    nodes: int
    #: 0 takes no GPU.
    gpusPerNode: int
    #: Default: one rank per GPU, or 1 without GPUs; 1 for a collective.
    ranksPerNode: int
    #: It starts with so many nodes at least, and grows to `nodes` when there are more; for a waiting job it gives up what it
    #: has beyond that. Each change is a restart, with its grace and signal. Default: all of them.
    minNodes: int
    #: CPUs (logical processors) of each node that are the job's alone. 0: none are asked for, and it shares what others leave. A node
    #: whose agent does not tell its CPUs has none to give.
    cpusPerNode: int
    #: Bytes of main memory of each node that are the job's alone; its ranks there get no more. 0: none is asked for, and it shares what
    #: others leave. A node whose agent does not tell its memory has none to give.
    memoryPerNode: Int64


class JobSpec(TypedDict, total=False):
    gang: Gang
    rails: RailRequest
    #: Higher goes first; -1000..1000, default 0. Above 0 only as far as the submitter's role or the job's service class allows.
    priority: int
    #: The job is ended when it has run this long; absent means no limit.
    timeLimit: str
    #: Between SIGTERM and SIGKILL; default 10 s.
    gracePeriod: str
    failure: FailurePolicy
    engine: EngineOptions
    command: Command
    collective: Collective
    #: Where; default: anywhere, close together.
    placement: PlacementRequest
    #: One of the tenant's queues; empty: the tenant itself.
    queue: str
    #: How long it will probably run, for plans of the queue; default: time_limit.
    expectedDuration: str
    #: Not before this.
    beginTime: str
    #: Inside this reservation only.
    reservation: str
    #: Not before all of these have come so far.
    after: list[Dependency]
    #: Many jobs of this kind, as Slurm writes them: "0-99:2,200%8". At most 10000 elements; each is a job of its own, NAME-INDEX,
    #: that finds its index in RAIL_ARRAY_INDEX.
    array: str
    #: How it may be stopped for another.
    preemption: Preemption
    #: What its gang is to pass before its ranks start, at least; default: what the controller asks of all jobs. A job may ask for more
    #: than that, never for less.
    certification: JobSpecCertification
    #: Its service class; of a job that was taken the one that it is of. Default: the default class that fits it best, if there is one.
    serviceClass: str
    #: It has failed if it has not started by then.
    startBefore: str
    #: It must have ended by then: it starts no later than leaves room for its `time_limit` (without one, for its `expected_duration`),
    #: has failed if it could not, and is ended if it runs.
    deadline: str
    #: How many of which licenses it holds while it runs, whatever its number of nodes; at most 16 of them, each at least 1.
    licenses: dict[str, int]
    allocation: Allocation
    #: The parts of a gang whose nodes are not all alike, in rank order, at most 8. All start together or not at all, on the same rails.
    #: With
    #: them `gang` is left out, or says no more than how many nodes they have in all; there are no spares, no groups, and no elastic gang.
    components: list[Component]


class Metadata(TypedDict, total=False):
    """What every resource carries about itself."""

    #: Unique among resources of its kind (within its tenant, for jobs). Lower-case letters, digits and '-',
    #: at most 63 characters; node names may contain dots.
    name: str
    #: The tenant that owns it; set by the controller from the caller's identity, never taken from the body.
    tenant: str
    #: Set by the controller; never reused.
    uid: str
    #: Free key/value pairs of the user.
    labels: dict[str, str]
    #: Counts changes of `spec`.
    generation: Int64
    #: The store's revision of the last change, spec or status.
    resourceVersion: Int64
    createTime: str
    #: If `name` is empty, the controller makes one: this prefix and a short random suffix.
    generateName: str


class NamedReason(TypedDict, total=False):
    """The words of a cause for those who may know whose thing it is about."""

    #: The tenants whose people may; administrators always may.
    tenants: list[str]
    message: str
    scope: str


class PlacementRequest(TypedDict, total=False):
    """What a job asks of its place, beside the number of nodes."""

    #: Where the whole gang stays; default FABRIC.
    within: PlacementRequestWithin
    groups: list[PlacementRequestGroup]
    arrange: PlacementRequestArrange
    pattern: PlacementRequestPattern
    #: Of PIPELINE: nodes of a stage.
    stageNodes: int
    #: Nobody else on its nodes.
    exclusive: bool
    #: Further nodes that are held idle for it, to replace those that fail; at most as many as it has.
    spares: int
    #: Conditions on the labels of its nodes; all must hold.
    selector: list[SelectorTerm]
    #: Taints that it puts up with.
    tolerations: list[Toleration]
    #: Nodes that it does not want: names, or lists such as gpu[001-064].
    exclude: list[str]
    #: Models of GPU of which any will do, for example H100, or "H100 80GB": words that follow one another in what the driver calls the
    #: GPU, in upper or lower case. A node whose agent does not tell the model of its GPUs is none of them. Empty: any GPU.
    gpuModel: list[str]
    #: The only nodes that it may have: names, or lists such as gpu[001-064]; at least as many as it has, with its spares. Empty: any.
    nodes: list[str]


class PlacementRequestGroup(TypedDict, total=False):
    """Nodes of consecutive ranks that belong together."""

    #: Nodes; divides the gang, and the other groups' sizes.
    size: int
    #: LEAVES or POD; default POD.
    within: PlacementRequestWithin
    #: The gang rather waits than split a group. Default: it is a preference.
    required: bool


class Preemption(TypedDict, total=False):
    #: A job of higher priority may take its place. Default: true below priority 0. What is borrowed is given back in any case.
    preemptible: bool
    #: Between the signal and SIGKILL; default: the job's grace period.
    gracePeriod: str
    #: What its ranks get first: SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGUSR1, SIGUSR2, SIGTERM or SIGCONT. Default SIGTERM.
    signal: str
    #: It saves its work so often: no more than this is lost. Default: all since its start is.
    checkpointEvery: str
    #: What a restart costs beside the lost work.
    restartCost: str


class RailRequest(TypedDict, total=False):
    #: Rails that every node of the gang must have usable; 0 means all rails of the fabric.
    required: int
    #: True: any `required` rails that all nodes share will do, and once it runs it may go on with fewer (`on_rail_loss`).
    #: It never starts with fewer: for a start while a rail is dead on all nodes, require fewer. False: rails 0..required-1.
    allowPartial: bool
    #: No rail at all: a job of one node that holds no NIC.
    none: bool
    avoidDrained: RailRequestAvoidDrained


class Reason(TypedDict, total=False):
    """One cause of a state, for people and for programs."""

    #: UpperCamelCase, stable; for example GpuCapacity, QuotaExceeded, RankExited.
    code: str
    #: One sentence: what, where, what to do.
    message: str
    #: How many objects this cause concerns (nodes, rails, ranks); 0 where counting makes no sense.
    count: int
    #: What the cause is about, for example "node/n3", "rail/2", "tenant/nlp".
    scope: str
    since: str
    #: What the controller keeps of a cause that names somebody's thing. Never in an answer: whoever may know it is told so by `message` and
    #: `scope`, all others read there that it is another tenant's.
    named: NamedReason


class SelectorTerm(TypedDict, total=False):
    """One condition on a node's labels, or several of which one is enough."""

    key: str
    operator: SelectorTermOperator
    values: list[str]
    #: Conditions of which one is enough; then nothing else is given, and none of them has `any_of` itself.
    anyOf: list[SelectorTerm]


class Shape(TypedDict, total=False):
    """Quota by usable shape."""

    #: Whole pods.
    pods: int
    #: Whole nodes beside them.
    nodes: int
    #: Single GPUs beside them.
    gpus: int


class Submitter(TypedDict, total=False):
    """Who has submitted a job."""

    #: ADMIN, TENANT_ADMIN or USER.
    role: Role
    #: An administrator's name, or a user of the job's tenant.
    user: str


class Toleration(TypedDict, total=False):
    """A taint that a job puts up with."""

    #: Absent: every key.
    key: str
    #: Absent: every value.
    value: str
