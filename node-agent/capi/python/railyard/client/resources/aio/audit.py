"""Calls of `AsyncClient.audit`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncRecords, AsyncResource
from ...types.audit import (
    AuditRecord,
    ListAuditRecordsResponse,
)
from ..audit import (
    EXPORT_AUDIT_RECORDS,
    LIST_AUDIT_RECORDS,
)


class AsyncAuditService(AsyncResource):
    """`AsyncClient.audit`."""

    def export(self) -> AsyncRecords[AuditRecord]:
        """All records that are kept: those of changes in order, then those of denials, each up to a checkpoint that is made for
        this call where the last record is none.
        """
        return self._records(EXPORT_AUDIT_RECORDS, {}, {})

    async def list(
        self,
        *,
        tenant: str | None = None,
        who: str | None = None,
        rpc: str | None = None,
        decision: str | None = None,
        since: str | None = None,
        until: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListAuditRecordsResponse:
        """The newest first. Administrators see all records, a tenant's administrators those that concern their tenant.

        `tenant`: Only records that concern this tenant; of others than administrators their own, whatever is said.
        `who`: Only of this caller: the identity's URI, or its end after a `/`.
        `rpc`: Only of this call.
        `decision`: Empty for both; `allowed` or `denied`.
        """
        answer: ListAuditRecordsResponse = await self._call(
            LIST_AUDIT_RECORDS,
            {},
            {
                "tenant": tenant,
                "who": who,
                "rpc": rpc,
                "decision": decision,
                "since": since,
                "until": until,
                "pageSize": page_size,
                "pageToken": page_token,
            },
            None,
            timeout,
        )
        return answer

    async def list_all(
        self,
        *,
        tenant: str | None = None,
        who: str | None = None,
        rpc: str | None = None,
        decision: str | None = None,
        since: str | None = None,
        until: str | None = None,
        timeout: float | None = None,
    ) -> Sequence[AuditRecord]:
        """All rows of `list`, page by page."""
        rows: Sequence[AuditRecord] = await self._pages(
            LIST_AUDIT_RECORDS,
            {},
            {"tenant": tenant, "who": who, "rpc": rpc, "decision": decision, "since": since, "until": until},
            "records",
            timeout,
        )
        return rows
