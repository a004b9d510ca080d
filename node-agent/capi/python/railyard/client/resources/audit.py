"""Calls of `Client.audit`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Records, Resource
from ..types.audit import (
    AuditRecord,
    ListAuditRecordsResponse,
)

EXPORT_AUDIT_RECORDS = Operation("exportAuditRecords", "GET", "/v1/audit:export", True)
LIST_AUDIT_RECORDS = Operation("listAuditRecords", "GET", "/v1/audit", True)


class AuditService(Resource):
    """`Client.audit`."""

    def export(self) -> Records[AuditRecord]:
        """All records that are kept: those of changes in order, then those of denials, each up to a checkpoint that is made for
        this call where the last record is none.
        """
        return self._records(EXPORT_AUDIT_RECORDS, {}, {})

    def list(
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
        answer: ListAuditRecordsResponse = self._call(
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

    def list_all(
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
        rows: Sequence[AuditRecord] = self._pages(
            LIST_AUDIT_RECORDS,
            {},
            {"tenant": tenant, "who": who, "rpc": rpc, "decision": decision, "since": since, "until": until},
            "records",
            timeout,
        )
        return rows
