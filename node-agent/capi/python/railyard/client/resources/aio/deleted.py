"""Calls of `AsyncClient.deleted`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from ..._resource import AsyncResource
from ...types.deleted import (
    ListDeletedResponse,
    UndeleteResponse,
)
from ..deleted import (
    LIST_DELETED,
    UNDELETE,
)


class AsyncDeletedService(AsyncResource):
    """`AsyncClient.deleted`."""

    async def list(self, *, timeout: float | None = None) -> ListDeletedResponse:
        """What can be brought back, the newest first."""
        answer: ListDeletedResponse = await self._call(LIST_DELETED, {}, {}, None, timeout)
        return answer

    async def undelete(self, *, kind: str, name: str, dry_run: bool | None = None, timeout: float | None = None) -> UndeleteResponse:
        """Brings a tenant or a fabric document back, with what went along: of a tenant its queues, its webhooks with their secrets, its
        schedules
        (suspended), its shares in reservations and its places in service classes. Refused where something else has taken the name since.
        The
        tenant has another uid: credentials that were issued before it was deleted stay refused, and its jobs do not come back.

        `kind`: "tenant" or "fabric".
        `dry_run`: Only check, and tell what would come back.
        """
        answer: UndeleteResponse = await self._call(UNDELETE, {}, {"kind": kind, "name": name, "dryRun": dry_run}, None, timeout)
        return answer
