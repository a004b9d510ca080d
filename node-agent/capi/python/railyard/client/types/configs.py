"""Messages of `Client.configs`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import TypedDict

from .common import (
    DataStatus,
    Int64,
    Metadata,
)


class Config(TypedDict, total=False):
    """Values that everybody of the tenant may read."""

    #: "rail/v1".
    apiVersion: str
    #: "Config".
    kind: str
    metadata: Metadata
    #: For people.
    description: str
    #: As in Secret, but shown.
    data: dict[str, str]
    status: DataStatus


class DeleteConfigResponse(TypedDict, total=False):
    """Nothing is in it."""


class ListConfigsResponse(TypedDict, total=False):
    configs: list[Config]
    nextPageToken: str
    revision: Int64
