"""Messages of `Client.nodes`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypedDict

from .common import (
    Int64,
    Metadata,
    QosPortState,
    Reason,
)


GidType = Literal["ROCE_V1", "ROCE_V2"]


GpuDirectPath = Literal["DMA_BUF", "PEER_MEMORY", "HOST_STAGING"]


#: How far a NIC is, as NCCL words it.
GpuFactsDistance = Literal["PIX", "PXB", "PHB", "SYS"]


GpuLinkPeer = Literal["GPU", "SWITCH"]


IsolationFeatureKind = Literal[
    "UID_PER_ATTEMPT",
    "USER_NAMESPACE",
    "PID_NAMESPACE",
    "MOUNT_NAMESPACE",
    "IPC_NAMESPACE",
    "NETWORK_NAMESPACE",
    "PRIVATE_TMP",
    "HIDDEN_PROC",
    "PRIVATE_DEV",
    "NO_NEW_PRIVILEGES",
    "SECCOMP",
    "CGROUP_MEMORY",
    "CGROUP_PIDS",
    "CGROUP_CPUSET",
    "CGROUP_DEVICES",
]


NicConditionSeverity = Literal["NOTE", "DEGRADED", "DRAIN"]


NicPortPhysical = Literal["SLEEP", "POLLING", "DISABLED", "TRAINING", "LINK_UP", "ERROR_RECOVERY", "PHY_TEST"]


NicPortState = Literal["DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"]


NicProbeOutcome = Literal["PASSED", "FAILED", "UNABLE"]


NodeEventType = Literal["PUT", "DELETE", "SYNCED"]


NodeStatusPhase = Literal["READY", "NOT_READY"]


UpdateNodeRequestPart = Literal["SCHEDULING", "LABELS", "TAINTS"]


class CreateJoinTokenRequest(TypedDict, total=False):
    #: Default and at most 10 minutes.
    lifetime: str


class CreateJoinTokenResponse(TypedDict, total=False):
    #: Shown once; only its hash is kept.
    token: str
    #: SHA-256 of the CA's public key, by which the joining server knows the controller.
    caPin: str
    expires: str


class DeleteNodeResponse(TypedDict, total=False):
    """Nothing is in it."""


class Gid(TypedDict, total=False):
    """An entry of a port's GID table."""

    #: Its place in the table now; it moves when addresses do.
    index: int
    #: As an IPv6 address, for example ::ffff:10.0.0.5.
    gid: str
    type: GidType
    #: The network device whose address it is.
    netdev: str


class Gpu(TypedDict, total=False):
    index: int
    uuid: str
    model: str
    #: For example 0000:1b:00.0; empty if not known.
    pciAddress: str
    #: -1 if not known.
    numaNode: int
    memoryBytes: Int64
    #: Absent where the agent does not tell.
    facts: GpuFacts


class GpuDirect(TypedDict, total=False):
    """Which way a GPU's memory takes to its nearest NIC, and why not a better one."""

    #: The way taken by programs that hold NICs themselves (NCCL). Railyard's engine takes it too, but for PEER_MEMORY, where it stages.
    path: GpuDirectPath
    #: What speaks for it, in one line.
    reason: str
    #: About better ways: why they cannot be taken. About the way taken: what makes it slow.
    causes: list[GpuDirectCause]


class GpuDirectCause(TypedDict, total=False):
    """One thing that is wrong with a way."""

    path: GpuDirectPath
    #: UpperCamelCase, stable; for example ModuleMissing.
    code: str
    #: What is wrong.
    message: str
    #: What to do.
    fix: str


class GpuFacts(TypedDict, total=False):
    """What a GPU is, and what is near it."""

    pci: PciDevice
    #: The kernel's driver, for example nvidia.
    driver: str
    driverVersion: str
    #: Device of the NIC that is nearest to it.
    nic: str
    nicDistance: GpuFactsDistance
    #: Links to other GPUs that carry data now (NVLink, xGMI), one entry for each other end.
    links: list[GpuLink]
    #: How its memory reaches that NIC; absent where the agent does not tell.
    gpuDirect: GpuDirect
    #: Where it is a partition of a GPU and not a whole one: which.
    mig: MigInstance


class GpuLink(TypedDict, total=False):
    """Links between GPUs with the same other end."""

    peer: GpuLinkPeer
    #: The other GPU's index, where the peer is one.
    gpu: int
    #: How many links.
    count: int
    #: The generation, for example 4 for NVLink 4; 0 if not known.
    version: int


class Hold(TypedDict, total=False):
    """GPUs and NICs that one job holds on one node."""

    tenant: str
    job: str
    jobUid: str
    gpus: list[int]
    #: Device names.
    nics: list[str]
    #: CPUs, and bytes of main memory, that are the job's alone.
    cpus: int
    memoryBytes: Int64


class Inventory(TypedDict, total=False):
    gpus: list[Gpu]
    nics: list[Nic]
    numaNodes: int
    cpus: int
    memoryBytes: Int64
    #: What the server hears over LLDP on its network devices.
    neighbors: list[Neighbor]
    #: What the agent's health rules say of NICs; one that is not named is well, or not watched.
    health: list[NicHealth]
    #: What the agent found odd: scope is the device or file.
    findings: list[Reason]
    #: The last changes of the hardware, oldest first: scope is nic/DEVICE, gpu/INDEX, netdev/NAME or machine, since when.
    changes: list[Reason]
    #: How NICs stand to the profile that is rolled out; empty where none is.
    qos: list[QosPort]
    #: How far the server keeps jobs apart; absent where the agent is too old to say, which counts as not at all.
    isolation: Isolation


class Isolation(TypedDict, total=False):
    """How far a server keeps the processes of different jobs apart. A feature that is not named is absent."""

    features: list[IsolationFeature]


class IsolationFeature(TypedDict, total=False):
    """One way in which a server keeps a job's processes apart from everything else on it."""

    kind: IsolationFeatureKind
    #: Jobs on this server get it.
    active: bool
    #: How it is done, or why it is not.
    reason: str
    #: What an administrator does to have it; empty where it is active, or where nothing can be done.
    fix: str


class ListNodeUsageResponse(TypedDict, total=False):
    #: Those whose agents are connected and tell it.
    nodes: list[NodeUsage]
    nextPageToken: str


class ListNodesResponse(TypedDict, total=False):
    nodes: list[Node]
    nextPageToken: str
    #: The store's revision at which the list is valid.
    revision: Int64


class MigInstance(TypedDict, total=False):
    """A partition of a GPU (NVIDIA Multi-Instance GPU): one compute instance of one GPU instance."""

    #: The driver's number of the GPU instance.
    gpuInstance: int
    #: The driver's number of the compute instance in it.
    computeInstance: int


class Neighbor(TypedDict, total=False):
    """A switch that a server hears."""

    netdev: str
    #: The name that the switch gives itself.
    switch: str
    #: The switch's port.
    port: str


class Nic(TypedDict, total=False):
    #: RDMA device name (mlx5_0), or the netdev's where there is none.
    device: str
    netdev: str
    pciAddress: str
    #: -1 if not known.
    numaNode: int
    #: Index of the rail that it serves.
    rail: int
    #: The rail's IP address on this NIC.
    address: str
    mtu: int
    speedMbps: Int64
    #: Link up.
    up: bool
    #: RoCEv2 GID index for `address`; -1 if the NIC has no RDMA.
    gidIndex: int
    #: Absent where the agent does not tell.
    facts: NicFacts


class NicCondition(TypedDict, total=False):
    """One thing that is wrong with a NIC or its rail. It is over only after proof."""

    #: UpperCamelCase, stable; for example Storm.
    code: str
    severity: NicConditionSeverity
    #: What was seen, against which limit and whose, and what to do.
    message: str
    since: str
    #: It has been quiet long enough: a probe of the path that passes now would end it.
    probe: bool


class NicFacts(TypedDict, total=False):
    """What a NIC is."""

    pci: PciDevice
    #: The kernel's driver of its network device, for example mlx5_core.
    driver: str
    #: The firmware's version.
    firmware: str
    #: Absent if the NIC has no RDMA.
    port: NicPort
    #: GIDs of that port, by index.
    gids: list[Gid]
    #: By which rule it serves its rail, in words.
    railReason: str


class NicHealth(TypedDict, total=False):
    """How well a NIC and its rail are."""

    #: Device of a NIC.
    device: str
    #: 100: nothing is known against it. 0: no new job should use it.
    score: int
    conditions: list[NicCondition]
    #: The last probe of its path; absent where there was none.
    probe: NicProbe


class NicPort(TypedDict, total=False):
    """A port of an RDMA device."""

    #: From 1.
    number: int
    state: NicPortState
    physical: NicPortPhysical


class NicProbe(TypedDict, total=False):
    """A probe of a rail that is out of use: the way between its NIC and that of another server, both ways."""

    #: Which: the id of its RailProof.
    id: Int64
    #: The other server.
    peer: str
    outcome: NicProbeOutcome
    #: What was seen.
    message: str
    #: When it ended.
    time: str


class Node(TypedDict, total=False):
    #: "rail/v1".
    apiVersion: str
    #: "Node".
    kind: str
    metadata: Metadata
    spec: NodeSpec
    status: NodeStatus


class NodeEvent(TypedDict, total=False):
    type: NodeEventType
    node: Node
    revision: Int64


class NodeSpec(TypedDict, total=False):
    #: True: no new job is placed here; running ones go on.
    unschedulable: bool
    #: Why, in the administrator's words.
    reason: str
    #: Key/value pairs that jobs select nodes by.
    labels: dict[str, str]
    #: What keeps jobs off it unless they tolerate it.
    taints: list[Taint]


class NodeStatus(TypedDict, total=False):
    phase: NodeStatusPhase
    lastHeartbeat: str
    inventory: Inventory
    #: What running jobs hold on this node.
    holds: list[Hold]
    reasons: list[Reason]
    agentVersion: str
    #: No job is placed here until somebody has seen to it, and why.
    quarantined: Reason
    #: Attempts that failed by this node within the last hour; at three it is quarantined.
    strikes: list[Strike]
    #: What it has said that cannot be true: the evidence for its quarantine. While there is any, no job is placed here, not even one
    #: that tolerates railyard.io/quarantined; `railctl node return` ends it.
    quarantine: list[Reason]
    #: Of its hardware, what another node claims that was away when this one came with it: address/RAIL/IP, gid/RAIL/GID, gpu/UUID.
    provisional: list[str]
    #: Rails of NICs that are up and well and all the same not used: the fabric document does not cable them there, or says that
    #: their cable or leaf is down, or the server hears another leaf.
    railsCut: list[int]


class NodeUsage(TypedDict, total=False):
    """What one server uses."""

    node: str
    #: When it was told.
    time: str
    #: Thousandths of one CPU that are busy.
    cpuMillis: Int64
    cpus: int
    memoryUsedBytes: Int64
    memoryBytes: Int64
    #: GPUs, and those that jobs hold.
    gpus: int
    gpusHeld: int


#: A PCI device, as sysfs shows it.
PciDevice = TypedDict(
    "PciDevice",
    {
        "id": "str",
        "class": "str",
        "path": "str",
        "speed": "str",
        "width": "int",
        "slot": "str",
    },
    total=False,
)


class QosPort(TypedDict, total=False):
    """How one NIC stands to its desired profile."""

    #: Device of a NIC.
    device: str
    #: Of the rollout that this is about.
    generation: Int64
    state: QosPortState
    #: What differs, or what failed.
    message: str
    #: Generation of the last desired state that the agent is done with here, whatever came of it. 0: the agent does not tell.
    observedGeneration: Int64


class ReturnNodeRequest(TypedDict, total=False):
    """Nothing is in it."""


class Strike(TypedDict, total=False):
    """One attempt of a job that failed by a node."""

    time: str
    jobUid: str
    attempt: int
    #: The code of what the node said, for example EngineLost.
    code: str


class Taint(TypedDict, total=False):
    key: str
    value: str
