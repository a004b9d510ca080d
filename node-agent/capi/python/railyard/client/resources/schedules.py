"""Calls of `Client.schedules`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.schedules import (
    DeleteScheduleResponse,
    ListSchedulesResponse,
    Schedule,
)

APPLY_SCHEDULE = Operation("applySchedule", "POST", "/v1/schedules", True, owned=True)
DELETE_SCHEDULE = Operation("deleteSchedule", "DELETE", "/v1/schedules/{name}", False, tenant="tenant")
GET_SCHEDULE = Operation("getSchedule", "GET", "/v1/schedules/{name}", True, tenant="tenant")
LIST_SCHEDULES = Operation("listSchedules", "GET", "/v1/schedules", True, tenant="tenant")


class SchedulesService(Resource):
    """`Client.schedules`."""

    def apply(self, schedule: Schedule, *, dry_run: bool | None = None, timeout: float | None = None) -> Schedule:
        """Creates the schedule or replaces its spec; the caller becomes its owner. Refused where a job of its template would be."""
        answer: Schedule = self._call(APPLY_SCHEDULE, {}, {"dryRun": dry_run}, schedule, timeout)
        return answer

    def delete(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> DeleteScheduleResponse:
        """Its jobs stay, those that run go on."""
        answer: DeleteScheduleResponse = self._call(DELETE_SCHEDULE, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    def get(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> Schedule:
        """The call getSchedule of the API.

        `tenant`: For administrators; others see their own tenant's.
        """
        answer: Schedule = self._call(GET_SCHEDULE, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    def list(
        self,
        *,
        tenant: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListSchedulesResponse:
        """The call listSchedules of the API.

        `tenant`: For administrators: one tenant's schedules; empty means all.
        """
        answer: ListSchedulesResponse = self._call(
            LIST_SCHEDULES,
            {},
            {"tenant": tenant, "pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    def list_all(self, *, tenant: str | None = None, timeout: float | None = None) -> Sequence[Schedule]:
        """All rows of `list`, page by page."""
        rows: Sequence[Schedule] = self._pages(LIST_SCHEDULES, {}, {"tenant": tenant}, "schedules", timeout)
        return rows
