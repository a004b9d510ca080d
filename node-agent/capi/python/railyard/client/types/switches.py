"""Messages of `Client.switches`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypedDict

from .common import (
    Int64,
    Metadata,
    Reason,
)


ControlSwitchRolloutRequestAction = Literal["PAUSE", "RESUME", "ROLL_BACK", "CANCEL"]


#: What a change does to traffic, from the least to the most.
SwitchPlanStepImpact = Literal["HITLESS", "QUEUE_DRAIN", "LINK_FLAP", "TRAFFIC_LOSS", "DAEMON_RESTART", "REBOOT"]


SwitchRolloutState = Literal["UNDER_WAY", "DONE", "PAUSED", "CANCELLED"]


SwitchSpecNos = Literal["SONIC", "CUMULUS", "EOS", "NX_OS", "LINUX"]


#: How what was read back stands to what is desired.
SwitchStatusConfiguration = Literal["IN_SYNC", "DRIFTED", "PENDING", "TRIAL", "FAILED"]


class ControlSwitchRolloutRequest(TypedDict, total=False):
    action: ControlSwitchRolloutRequestAction
    reason: str


class CreateSwitchTokenRequest(TypedDict, total=False):
    #: Default and at most 10 minutes.
    lifetime: str


class CreateSwitchTokenResponse(TypedDict, total=False):
    #: Shown once; only its hash is kept.
    token: str
    #: SHA-256 of the CA's public key, by which the joining switch knows the controller.
    caPin: str
    expires: str


class DeleteSwitchResponse(TypedDict, total=False):
    """Nothing is in it."""


class ListSwitchesResponse(TypedDict, total=False):
    switches: list[Switch]
    nextPageToken: str
    revision: Int64


class RenderSwitchResponse(TypedDict, total=False):
    files: list[SwitchFile]


class RollOutSwitchesRequest(TypedDict, total=False):
    reason: str
    #: The leaf that is first; empty: one that few jobs use.
    canary: str
    #: 10 s to 1 hour. Default 60 s, or 300 s where a change is one that a switch puts in place by loading its whole database (impact
    #: REBOOT).
    confirmWithin: str
    #: Default 10 s; less than `confirm_within`.
    soak: str
    #: Switches out of use at a time; default 1, at most 64. Two that serve one server are never out of use together.
    atOnce: int
    #: Also where a job loses its last rail.
    force: bool


class Switch(TypedDict, total=False):
    """A switch of the fabric. What it is cabled to, its tier, rails, pod and plane stand in the fabric document under the same name; this says
    what it is and how it is reached.
    """

    #: "rail/v1".
    apiVersion: str
    #: "Switch".
    kind: str
    metadata: Metadata
    spec: SwitchSpec
    status: SwitchStatus


class SwitchActive(TypedDict, total=False):
    """A switch that is being changed, or on which the rollout waits."""

    name: str
    configuration: SwitchStatusConfiguration
    #: What it waits for.
    note: str


class SwitchChange(TypedDict, total=False):
    difference: SwitchDifference
    impact: SwitchPlanStepImpact
    #: Why it does that to traffic.
    why: str


class SwitchDifference(TypedDict, total=False):
    """One setting that is not as desired."""

    #: The file that it stands in, for example config_db.json.
    file: str
    #: Which setting: a path in the file, or a line's context.
    path: str
    #: As desired; empty: it should not be there.
    desired: str
    #: As read back; empty: it is missing.
    found: str


class SwitchFile(TypedDict, total=False):
    """One file of a switch's configuration."""

    #: For example config_db.json or frr.conf.
    name: str
    content: str


class SwitchManagement(TypedDict, total=False):
    """A management endpoint that speaks gNMI."""

    #: HOST:PORT.
    endpoint: str
    #: The name of the folder, where its agent runs, with who calls it: never the credential itself.
    credential: str


class SwitchPlan(TypedDict, total=False):
    #: Every switch has its configuration: nothing would begin.
    unchanged: bool
    canary: str
    stages: list[SwitchPlanStage]
    #: Those that would change, in the order of the stages; at most 1000.
    switches: list[SwitchPlanStep]
    switchesTotal: int
    #: Jobs that use one of these switches.
    jobs: int
    atLeast: str


class SwitchPlanStage(TypedDict, total=False):
    name: str
    switches: int
    silent: int
    atOnce: int
    steps: int


class SwitchPlanStep(TypedDict, total=False):
    stage: str
    name: str
    #: Of the worst of its changes.
    impact: SwitchPlanStepImpact
    #: At most 32.
    changes: list[SwitchChange]
    changesTotal: int
    #: Jobs whose traffic crosses it, by TENANT/NAME; at most 8.
    jobs: list[str]
    #: What it would wait for; may be empty.
    note: str


class SwitchPort(TypedDict, total=False):
    """What is known of one port."""

    #: As the operating system has it, for example Ethernet8.
    name: str
    #: Length of its cable in metres; 0: as the switch says.
    cableM: int
    #: What the cable or module is, for people.
    optics: str


class SwitchPortStatus(TypedDict, total=False):
    """One port, as the switch counts it. Counters grow from the switch's start."""

    name: str
    #: Its link is up.
    up: bool
    #: Mbit/s; 0: not known.
    speedMbps: Int64
    mtu: int
    #: Who is at the other end, by LLDP; empty: nobody says.
    neighbor: str
    neighborPort: str
    rxBytes: Int64
    txBytes: Int64
    rxErrors: Int64
    txDrops: Int64
    #: How often the link came or went.
    linkChanges: Int64
    #: By priority; those without any are absent.
    priorities: list[SwitchPriorityCounters]
    fecUncorrectable: Int64


class SwitchPriorityCounters(TypedDict, total=False):
    """Counters of one priority of one port."""

    priority: int
    pauseRx: Int64
    pauseTx: Int64
    #: Microseconds that it was paused by its peer, and that it paused its peer; 0 where the switch does not count them.
    pausedRxUs: Int64
    pausedTxUs: Int64
    #: Packets with ECN's congestion mark.
    ecnMarked: Int64
    drops: Int64
    #: Bytes; highest use of its buffer since the last reading.
    watermarkBytes: Int64
    #: How often the PFC watchdog found a storm.
    storms: Int64
    #: Bytes that its queue has sent; 0 where the switch does not count them.
    txBytes: Int64


class SwitchRollout(TypedDict, total=False):
    #: Counts rollouts; 0: nobody has begun one.
    generation: Int64
    state: SwitchRolloutState
    reason: str
    #: Who asked.
    by: str
    since: str
    canary: str
    confirmWithin: str
    soak: str
    atOnce: int
    force: bool
    #: Absent while it goes on.
    paused: Reason
    stages: list[SwitchStage]
    #: At most 100.
    active: list[SwitchActive]
    activeTotal: int


class SwitchSpec(TypedDict, total=False):
    #: Its operating system.
    nos: SwitchSpecNos
    #: The version of that which is expected; empty: any.
    version: str
    #: Its ASIC, by its name in `railctl switch list`, for example spectrum-4 or tomahawk-5; empty on Linux.
    asic: str
    #: IPv4 address of its loopback; empty: planned from the fabric.
    loopback: str
    #: Number of its autonomous system; 0: planned from the fabric.
    asn: int
    #: Length in metres of cables to what is below, where a port does not say another; 0: 5 m for a leaf, 40 m for a spine.
    cableM: int
    #: What is known of single ports. Ports that are not named here are as the fabric document plans them.
    ports: list[SwitchPort]
    #: Where its agent, which runs elsewhere, reaches it; then routing of a SONiC switch is the site's own. Absent: its agent runs on it, or
    #: it is configured by files.
    management: SwitchManagement
    #: What stands on it differently from the plan is put right without being asked. Otherwise it is only reported.
    repairDrift: bool


class SwitchStage(TypedDict, total=False):
    #: For example canary, rail 0 of pod p1, pod p1, spines.
    name: str
    switches: int
    kept: int
    trial: int
    failed: int
    #: Not connected.
    silent: int


class SwitchStatus(TypedDict, total=False):
    #: leaf, or spine of tier N; empty where the fabric document has no switch of this name.
    role: str
    rails: list[int]
    pod: str
    plane: int
    #: Its agent answers.
    connected: bool
    #: When it was heard last.
    lastSeen: str
    #: As it says it.
    nosVersion: str
    agentVersion: str
    configuration: SwitchStatusConfiguration
    #: Of the rollout that `configuration` is about; 0: none.
    generation: Int64
    #: Where it differs; at most 32.
    differences: list[SwitchDifference]
    differencesTotal: int
    #: What is wrong with it or with what is known of it, most important first.
    reasons: list[Reason]
    #: What its ports say now; only in the answer to GetSwitch.
    ports: list[SwitchPortStatus]
    #: The number of the last desired state that its agent is done with.
    observedNumber: Int64
