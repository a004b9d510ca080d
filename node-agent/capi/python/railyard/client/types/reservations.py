"""Messages of `Client.reservations`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypedDict

from .common import (
    Int64,
    Metadata,
)


ReservationStatusPhase = Literal["WAITING", "ACTIVE", "OVER"]


class DeleteReservationResponse(TypedDict, total=False):
    """Nothing is in it."""


class ListReservationsResponse(TypedDict, total=False):
    reservations: list[Reservation]
    nextPageToken: str
    revision: Int64


class Reservation(TypedDict, total=False):
    #: "rail/v1".
    apiVersion: str
    #: "Reservation".
    kind: str
    metadata: Metadata
    spec: ReservationSpec
    status: ReservationStatus


class ReservationSpec(TypedDict, total=False):
    #: Either names or lists such as gpu[001-064] ...
    nodes: list[str]
    #: ... or so many, chosen when it begins.
    count: int
    #: Of `count`: from so many pods at most; 0 means no limit.
    podsAtMost: int
    start: str
    duration: str
    #: Whose jobs may run in it; empty for maintenance.
    tenants: list[str]
    #: No job at all runs in it.
    maintenance: bool
    #: For people.
    reason: str


class ReservationStatus(TypedDict, total=False):
    phase: ReservationStatusPhase
