"""Messages of `Client.qos`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypedDict

from .common import (
    Int64,
    QosPortState,
    Reason,
)


ControlRolloutRequestAction = Literal["PAUSE", "RESUME", "ROLL_BACK", "CANCEL"]


GetQosResponseState = Literal["UNDER_WAY", "DONE", "PAUSED", "CANCELLED"]


class ApplyQosRequest(TypedDict, total=False):
    #: The profile, as JSON. One that says nothing is refused.
    document: str
    reason: str
    #: Default: the controller chooses a server that holds few jobs.
    canary: str
    #: Default 60 s; 10 s to 1 hour.
    confirmWithin: str
    #: Default 10 s; less than `confirm_within`.
    soak: str
    #: Default 32; at most 1024.
    atOnce: int
    force: bool


class ControlRolloutRequest(TypedDict, total=False):
    action: ControlRolloutRequestAction
    reason: str


class GetQosResponse(TypedDict, total=False):
    #: Absent while nobody has begun one.
    rollout: QosRollout
    stages: list[QosStage]
    #: At most 100.
    active: list[QosActive]
    activeTotal: int
    #: Every NIC that is heard has the profile.
    done: bool
    state: GetQosResponseState


class QosActive(TypedDict, total=False):
    """A NIC that is being changed, or on which the rollout waits."""

    node: str
    rail: int
    device: str
    state: QosPortState
    #: What it waits for.
    note: str


class QosPlan(TypedDict, total=False):
    """What a rollout would do; nothing has begun. Which settings of a NIC differ its agent finds when its turn comes."""

    #: The profile is rolled out, or on its way, already: nothing would begin.
    unchanged: bool
    #: The server that would be first.
    canary: str
    #: In their order; each begins when the one before it is done.
    stages: list[QosPlanStage]
    #: The first 1000, in the order of the stages.
    nics: list[QosPlanNic]
    nicsTotal: int
    nodes: int
    #: Jobs that hold one of these NICs: each moves off it while it is changed, and back.
    jobs: int
    #: Soaks one after the other: it takes so long at least, without the changes themselves and what is waited for.
    atLeast: str


class QosPlanNic(TypedDict, total=False):
    #: The stage's name.
    stage: str
    node: str
    rail: int
    device: str
    #: Jobs that move off it; at most 8.
    jobs: list[str]
    #: What it would wait for, or that it has the profile already; may be empty.
    note: str


class QosPlanStage(TypedDict, total=False):
    #: As in QosStage.
    name: str
    nics: int
    nodes: int
    #: Of them on servers that are not heard: they follow when they are.
    silent: int
    #: NICs out of use at a time, at most.
    atOnce: int
    #: How many times so many are taken out of use, changed, tried and given back.
    steps: int


class QosRollout(TypedDict, total=False):
    """A profile on its way to every NIC: a canary's rails one by one, then one rail of its pod, the pod, and the other pods.
    No two rails of a server are out of use at a time.
    """

    #: Counts rollouts.
    generation: Int64
    #: The profile, as JSON.
    document: str
    #: The profile before this one, as JSON; empty if there was none.
    before: str
    #: Why, in the administrator's words.
    reason: str
    #: Who asked.
    by: str
    since: str
    #: The server that is first.
    canary: str
    #: A trial that nobody confirms for so long is taken back.
    confirmWithin: str
    #: A trial has to be well for so long before it is confirmed.
    soak: str
    #: NICs out of use at a time, at most; one on the canary.
    atOnce: int
    #: Also where a job loses its last rail.
    force: bool
    #: Absent while it goes on. QosCancelled: it never goes on.
    paused: Reason
    #: The rollout before it had not reached every NIC: until this one reaches a NIC it is left as it is, and not brought to `before`.
    mixed: bool


class QosStage(TypedDict, total=False):
    #: For example canary, rail 0 of pod p1, pod p1.
    name: str
    #: NICs.
    nics: int
    kept: int
    trial: int
    failed: int
    #: On servers that are not heard.
    silent: int
