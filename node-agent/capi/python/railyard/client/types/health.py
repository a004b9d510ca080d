"""Messages of `Client.health`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import TypedDict

from .common import (
    Int64,
    Reason,
)


class ClusterHealth(TypedDict, total=False):
    version: str
    #: The leader's fencing number.
    epoch: Int64
    storeRevision: Int64
    #: False while the store refuses writes; running jobs go on.
    storeWritable: bool
    nodesReady: int
    nodesTotal: int
    gpusTotal: int
    gpusHeld: int
    jobsPending: int
    jobsRunning: int
    rails: list[RailHealth]
    reasons: list[Reason]
    time: str
    #: Which controller leads, for people: host and process id.
    leader: str
    #: Servers and their rails, those that are least well first; at most 256.
    nodes: list[NodeRailHealth]
    #: Servers that `nodes` leaves out.
    nodesLeftOut: int
    #: Switches that are known, those that are least well first; at most 256.
    switches: list[SwitchHealth]
    #: Switches that `switches` leaves out.
    switchesLeftOut: int


class NodeRailHealth(TypedDict, total=False):
    """One server's rails."""

    node: str
    #: Rails on which it has a NIC.
    rails: list[RailScore]


class RailHealth(TypedDict, total=False):
    rail: int
    nicsUp: int
    nicsTotal: int


class RailScore(TypedDict, total=False):
    rail: int
    #: 100: nothing is known against it. 0: down, or no new job should use it.
    score: int
    #: New jobs may use it.
    usable: bool
    #: What is wrong, by code, for example Storm; Down where the NIC is down or on no leaf that can be relied on.
    codes: list[str]


class SwitchHealth(TypedDict, total=False):
    """One switch at a glance."""

    switch: str
    #: Its agent answers.
    connected: bool
    #: Ports whose link is up, of those that are cabled by the fabric document and were read.
    portsUp: int
    portsTotal: int
    #: What its configuration and its ports tell, as in SwitchStatus; at most 32.
    reasons: list[Reason]
