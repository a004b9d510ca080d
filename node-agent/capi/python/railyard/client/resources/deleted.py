"""Calls of `Client.deleted`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from .._core import Operation
from .._resource import Resource
from ..types.deleted import (
    ListDeletedResponse,
    UndeleteResponse,
)

LIST_DELETED = Operation("listDeleted", "GET", "/v1/deleted", True)
UNDELETE = Operation("undelete", "POST", "/v1/deleted:undelete", False, whole=True)


class DeletedService(Resource):
    """`Client.deleted`."""

    def list(self, *, timeout: float | None = None) -> ListDeletedResponse:
        """What can be brought back, the newest first."""
        answer: ListDeletedResponse = self._call(LIST_DELETED, {}, {}, None, timeout)
        return answer

    def undelete(self, *, kind: str, name: str, dry_run: bool | None = None, timeout: float | None = None) -> UndeleteResponse:
        """Brings a tenant or a fabric document back, with what went along: of a tenant its queues, its webhooks with their secrets, its
        schedules
        (suspended), its shares in reservations and its places in service classes. Refused where something else has taken the name since.
        The
        tenant has another uid: credentials that were issued before it was deleted stay refused, and its jobs do not come back.

        `kind`: "tenant" or "fabric".
        `dry_run`: Only check, and tell what would come back.
        """
        answer: UndeleteResponse = self._call(UNDELETE, {}, {"kind": kind, "name": name, "dryRun": dry_run}, None, timeout)
        return answer
