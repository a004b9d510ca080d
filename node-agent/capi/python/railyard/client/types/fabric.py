"""Messages of `Client.fabric`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import TypedDict

from .common import (
    Int64,
    Metadata,
    Reason,
)


class DeleteFabricResponse(TypedDict, total=False):
    #: Servers that the document cables, or did.
    nodes: int
    #: Jobs that hold something on them; they go on.
    jobs: int
    #: The tenants of those jobs.
    tenants: list[str]


class Fabric(TypedDict, total=False):
    """One document describes one cluster's fabric."""

    #: "rail/v1".
    apiVersion: str
    #: "Fabric".
    kind: str
    metadata: Metadata
    spec: FabricSpec
    status: FabricStatus


class FabricSpec(TypedDict, total=False):
    #: A rail is one network plane; NIC k of every server is on rail k.
    rails: list[Rail]
    leaves: list[Leaf]
    links: list[Link]
    #: Many like cables at once; together with `links` they are all the cables from servers to leaves.
    linkGroups: list[LinkGroup]
    #: The switches above the leaves. Without any, the leaves of a rail (and plane) are taken to reach each other.
    spines: list[Spine]
    #: The cables between leaves and spines, and between spines and those above them.
    uplinks: list[Uplink]
    #: Many like leaves, and many like spines, at once; together with `leaves` and `spines` they are all the switches.
    #: Answers of the controller name every switch by itself.
    leafGroups: list[LeafGroup]
    spineGroups: list[SpineGroup]


class FabricStatus(TypedDict, total=False):
    nodes: int
    pods: int
    #: What differs between this document and the nodes' inventories.
    findings: list[Reason]


class Leaf(TypedDict, total=False):
    """A leaf switch belongs to one pod, and to one rail or several."""

    name: str
    #: Index of its rail.
    rail: int
    #: The set of servers that share their leaves, one leaf (or pair) per rail.
    pod: str
    #: Where a NIC has two ports on two leaves: 0 for the first leaf, 1 for the second. Planes of one rail do not meet.
    plane: int
    #: Known not to work, or taken out: its cables are not used.
    down: bool
    #: In place of `rail`: all rails that it serves, for example all of a server whose NICs share one leaf. Each cable to
    #: it says its own rail.
    rails: list[int]


class LeafGroup(TypedDict, total=False):
    """Leaves of one rail and plane."""

    #: A list of leaves, for example r0-leaf[001-157].
    names: str
    rail: int
    #: A list of pods as long as that of the leaves, or one pod for all.
    pods: str
    plane: int
    #: In place of `rail`: all rails that each of them serves.
    rails: list[int]


class Link(TypedDict, total=False):
    """One cable from a server's NIC to a leaf."""

    node: str
    #: Device or netdev name of the NIC on that server.
    nic: str
    leaf: str
    port: str
    #: Line rate in Mbit/s; 0 if not known.
    speedMbps: Int64
    #: Known not to work: it is not used.
    down: bool
    #: The NIC's rail, where the leaf serves several; else that of the leaf.
    rail: int


class LinkGroup(TypedDict, total=False):
    """The cables of many servers whose NIC of one name goes to one leaf."""

    #: A list of servers, for example gpu[001-064,070].
    nodes: str
    #: Device or netdev name of the NIC; the same on each of the servers.
    nic: str
    leaf: str
    #: A list of the leaf's ports, as long as that of the servers and in the same order, for example Ethernet[1-65];
    #: empty if not known.
    ports: str
    #: Line rate of each in Mbit/s; 0 if not known.
    speedMbps: Int64
    #: In place of `leaf`: a list of leaves, each for the next `nodes_per_leaf` of the servers. `ports` is then the list
    #: of each leaf's ports, as long as `nodes_per_leaf`.
    leaves: str
    nodesPerLeaf: int
    #: In place of `nic`: a list of NICs, each of them on each of the servers. `leaves` then lists the leaves of the first
    #: NIC, then those of the second, and so on; one `leaf`, or the leaves of one NIC, are those of every NIC. `ports` is as
    #: above, the same on each leaf and for each NIC, or the list of all ports: those of the first NIC in the order of the
    #: servers, then those of the second, and so on.
    nics: str
    #: The rail of each NIC, where a leaf serves several; else that of the leaf.
    rails: list[int]


class Rail(TypedDict, total=False):
    #: 0, 1, 2, ...
    index: int
    name: str


class Spine(TypedDict, total=False):
    """A switch above the leaves of one rail and plane."""

    name: str
    #: Index of its rail.
    rail: int
    plane: int
    #: Known not to work, or taken out.
    down: bool
    #: In place of `rail`: all rails that it serves.
    rails: list[int]


class SpineGroup(TypedDict, total=False):
    """Spines of one rail and plane."""

    names: str
    rail: int
    plane: int
    #: In place of `rail`: all rails that each of them serves.
    rails: list[int]


class Topology(TypedDict, total=False):
    pods: list[TopologyPod]
    rails: int
    findings: list[Reason]


class TopologyNode(TypedDict, total=False):
    name: str
    gpus: int
    gpusFree: int
    schedulable: bool
    #: One entry per rail of the fabric, in order.
    ports: list[TopologyPort]


class TopologyPod(TypedDict, total=False):
    name: str
    rails: list[TopologyRail]
    nodes: list[TopologyNode]


class TopologyPort(TypedDict, total=False):
    rail: int
    nic: str
    leaf: str
    #: False if the NIC is missing or down. A drained one is placed all the same: its engines use the other rails.
    usable: bool
    #: An administrator has drained it, its leaf, or its rail.
    drained: bool


class TopologyRail(TypedDict, total=False):
    rail: int
    leaves: list[str]


class Uplink(TypedDict, total=False):
    """Cables between two layers of switches: each of `lower` has `cables` of them to each of `upper`."""

    #: A list of leaves, or of spines below others, for example r0-leaf[1-64].
    lower: str
    #: A list of spines.
    upper: str
    #: Cables of each pair; 0 means 1.
    cables: int
    #: Line rate of each cable in Mbit/s; 0 if not known.
    speedMbps: Int64
    #: How many cables of each pair are known not to work.
    down: int
