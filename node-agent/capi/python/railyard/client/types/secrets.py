"""Messages of `Client.secrets`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import TypedDict

from .common import (
    DataStatus,
    Int64,
    Metadata,
)


class DeleteSecretResponse(TypedDict, total=False):
    """Nothing is in it."""


class ListSecretsResponse(TypedDict, total=False):
    secrets: list[Secret]
    nextPageToken: str
    revision: Int64


class Secret(TypedDict, total=False):
    """Values that nobody reads back: they are sealed in the store, and only the ranks and steps of jobs that refer to them see them."""

    #: "rail/v1".
    apiVersion: str
    #: "Secret".
    kind: str
    metadata: Metadata
    #: For people.
    description: str
    #: Values by their keys: at most 256 keys and 64 KiB in all. Replaces all that there are; empty: they stay. In no answer.
    data: dict[str, str]
    status: DataStatus
