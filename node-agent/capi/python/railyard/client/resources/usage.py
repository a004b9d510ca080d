"""Calls of `Client.usage`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.usage import (
    ListUsageRecordsResponse,
    SumUsageRequestBy,
    SumUsageResponse,
    UsageRecord,
)

LIST_USAGE_RECORDS = Operation("listUsageRecords", "GET", "/v1/usage", True)
SUM_USAGE = Operation("sumUsage", "GET", "/v1/usage:sum", True)


class UsageService(Resource):
    """`Client.usage`."""

    def list(
        self,
        *,
        tenant: str | None = None,
        queue: str | None = None,
        user: str | None = None,
        since: str | None = None,
        until: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListUsageRecordsResponse:
        """One record for each attempt of a job that held something in an interval: first those that had ended when the list was begun, in the
        order of
        their ends, then those that held something at that moment. Tenants' people see those of their tenant.

        `tenant`: For administrators: one tenant's; empty means all.
        `queue`: Only of this queue.
        `user`: Only of jobs that this user submitted.
        `since`: The begin of the interval; absent: the oldest record.
        `until`: Its end, which is no part of it; absent, or later than now: now.
        `page_size`: At most this many; 0 means the server's limit.
        """
        answer: ListUsageRecordsResponse = self._call(
            LIST_USAGE_RECORDS,
            {},
            {
                "tenant": tenant,
                "queue": queue,
                "user": user,
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
        queue: str | None = None,
        user: str | None = None,
        since: str | None = None,
        until: str | None = None,
        timeout: float | None = None,
    ) -> Sequence[UsageRecord]:
        """All rows of `list`, page by page."""
        rows: Sequence[UsageRecord] = self._pages(
            LIST_USAGE_RECORDS,
            {},
            {"tenant": tenant, "queue": queue, "user": user, "since": since, "until": until},
            "records",
            timeout,
        )
        return rows

    def sum(
        self,
        *,
        tenant: str | None = None,
        queue: str | None = None,
        user: str | None = None,
        since: str | None = None,
        until: str | None = None,
        by: SumUsageRequestBy | None = None,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> SumUsageResponse:
        """What was held in an interval, summed over tenants, queues, users or jobs. Each attempt counts with the part of it that lies in the
        interval, one that still holds up to now.

        `tenant`: For administrators: one tenant's; empty means all.
        `queue`: Only of this queue.
        `user`: Only of jobs that this user submitted.
        `since`: The begin of the interval; absent: the oldest record.
        `until`: Its end, which is no part of it; absent, or later than now: now.
        `by`: What is summed over; unspecified: TENANT.
        `limit`: Groups at most, those with the most GPU time first; 0 means 1000. The total is of all of them.
        """
        answer: SumUsageResponse = self._call(
            SUM_USAGE,
            {},
            {"tenant": tenant, "queue": queue, "user": user, "since": since, "until": until, "by": by, "limit": limit},
            None,
            timeout,
        )
        return answer
