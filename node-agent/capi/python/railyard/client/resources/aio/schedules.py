"""Calls of `AsyncClient.schedules`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncResource
from ...types.schedules import (
    DeleteScheduleResponse,
    ListSchedulesResponse,
    Schedule,
)
from ..schedules import (
    APPLY_SCHEDULE,
    DELETE_SCHEDULE,
    GET_SCHEDULE,
    LIST_SCHEDULES,
)


class AsyncSchedulesService(AsyncResource):
    """`AsyncClient.schedules`."""

    async def apply(self, schedule: Schedule, *, dry_run: bool | None = None, timeout: float | None = None) -> Schedule:
        """Creates the schedule or replaces its spec; the caller becomes its owner. Refused where a job of its template would be."""
        answer: Schedule = await self._call(APPLY_SCHEDULE, {}, {"dryRun": dry_run}, schedule, timeout)
        return answer

    async def delete(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> DeleteScheduleResponse:
        """Its jobs stay, those that run go on."""
        answer: DeleteScheduleResponse = await self._call(DELETE_SCHEDULE, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    async def get(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> Schedule:
        """The call getSchedule of the API.

        `tenant`: For administrators; others see their own tenant's.
        """
        answer: Schedule = await self._call(GET_SCHEDULE, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    async def list(
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
        answer: ListSchedulesResponse = await self._call(
            LIST_SCHEDULES,
            {},
            {"tenant": tenant, "pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    async def list_all(self, *, tenant: str | None = None, timeout: float | None = None) -> Sequence[Schedule]:
        """All rows of `list`, page by page."""
        rows: Sequence[Schedule] = await self._pages(LIST_SCHEDULES, {}, {"tenant": tenant}, "schedules", timeout)
        return rows
