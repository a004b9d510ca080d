"""Messages of `Client.rails`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import TypedDict

from .common import (
    RailReportState,
)


class DrainRailRequest(TypedDict, total=False):
    #: As in ListRailsRequest; required.
    target: str
    reason: str
    #: Also where it is the last rail of a running job: that job goes on using it until it has another.
    force: bool


class DrainRailResponse(TypedDict, total=False):
    drain: RailDrain
    #: False if it was so already.
    changed: bool
    pending: list[RailUse]
    pendingTotal: int


class ListRailsResponse(TypedDict, total=False):
    rails: list[RailStatus]
    drains: list[RailDrain]
    #: At most 100.
    pending: list[RailUse]
    #: 0 once every running job is off what is drained.
    pendingTotal: int


class RailDrain(TypedDict, total=False):
    """What an administrator took out of use. It stays so, for engines that start later too, until it is undrained."""

    #: rail/1, leaf/NAME, or node/NAME:1 for one server's port of a rail.
    target: str
    reason: str
    #: Who did it.
    by: str
    since: str


class RailJob(TypedDict, total=False):
    """A job that holds a rail."""

    tenant: str
    job: str
    jobUid: str
    #: On how many servers.
    nodes: int


class RailStateCount(TypedDict, total=False):
    #: STATE_UNSPECIFIED counts engines that have not said.
    state: RailReportState
    engines: int


class RailStatus(TypedDict, total=False):
    """One rail of the fabric, or those of its ports that were asked for."""

    rail: int
    #: Empty without a fabric document.
    name: str
    #: Leaves that serve it.
    leaves: list[str]
    #: Servers that have a NIC on it.
    nodes: int
    #: Those of them whose NIC is up.
    nodesUp: int
    #: Those of them whose port is drained.
    nodesDrained: int
    #: Targets of the drains that concern it.
    drains: list[str]
    #: Jobs that hold it, at most 100; of other tenants' jobs only the number is told.
    jobs: list[RailJob]
    jobsTotal: int
    #: How the engines on it see it.
    engines: list[RailStateCount]


class RailUse(TypedDict, total=False):
    """An engine that is not off a drained rail yet."""

    #: Empty for other tenants' jobs.
    tenant: str
    job: str
    jobUid: str
    node: str
    rail: int
    state: RailReportState
    #: What it waits for.
    note: str


class UndrainRailRequest(TypedDict, total=False):
    #: As in ListRailsRequest; required.
    target: str


class UndrainRailResponse(TypedDict, total=False):
    #: As RailDrain names it.
    target: str
    #: False if it was not drained.
    changed: bool
    #: What still drains some of its ports.
    remaining: list[RailDrain]
