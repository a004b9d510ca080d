"""Messages of `Client.licenses`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import TypedDict

from .common import (
    Int64,
    Metadata,
)


class DeleteLicenseResponse(TypedDict, total=False):
    """Nothing is in it."""


class License(TypedDict, total=False):
    #: "rail/v1".
    apiVersion: str
    #: "License".
    kind: str
    metadata: Metadata
    spec: LicenseSpec
    status: LicenseStatus


class LicenseSpec(TypedDict, total=False):
    """Jobs ask for some (`licenses`) and hold them while they run. A job starts only if they are free, and is planned for when they will be.
    """

    #: How many there are in the whole cluster; at most 1000000000. Fewer than are held stops nobody: nothing more starts with it
    #: until enough have ended.
    total: int
    #: For people.
    description: str


class LicenseStatus(TypedDict, total=False):
    #: How many running jobs hold.
    inUse: Int64
    #: Jobs that hold some.
    jobsRunning: int
    #: Jobs that wait and ask for some.
    jobsWaiting: int


class ListLicensesResponse(TypedDict, total=False):
    licenses: list[License]
    nextPageToken: str
    revision: Int64
