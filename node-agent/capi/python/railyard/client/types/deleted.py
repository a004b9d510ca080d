"""Messages of `Client.deleted`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import TypedDict


class Deleted(TypedDict, total=False):
    """A tenant or a fabric document that was deleted, as long as it is kept (7 days by default, and at most 100 of them)."""

    #: "tenant" or "fabric".
    kind: str
    name: str
    deleteTime: str
    #: Until then it can be brought back, unless newer ones need its place.
    expireTime: str
    #: Who deleted it.
    deletedBy: str
    #: What is kept with a tenant.
    queues: int
    schedules: int
    webhooks: int
    #: Reservations that it had a share in.
    reservations: int
    #: Service classes that named it.
    serviceClasses: int
    #: Its documents that were too many to be kept.
    leftOut: int
    #: Servers that a fabric document cables.
    nodes: int


class ListDeletedResponse(TypedDict, total=False):
    deleted: list[Deleted]


class UndeleteRequest(TypedDict, total=False):
    #: "tenant" or "fabric".
    kind: str
    name: str
    #: Only check, and tell what would come back.
    dryRun: bool


class UndeleteResponse(TypedDict, total=False):
    #: What has come back, with as much of each as that.
    restored: Deleted
    #: What has not come back, and why.
    notes: list[str]
