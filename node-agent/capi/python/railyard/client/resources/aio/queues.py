"""Calls of `AsyncClient.queues`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncResource
from ...types.queues import (
    DeleteQueueResponse,
    ListQueuesResponse,
    ListSharesResponse,
    Queue,
    QueueOrder,
)
from ..queues import (
    APPLY_QUEUE,
    DELETE_QUEUE,
    GET_QUEUE,
    GET_QUEUE_ORDER,
    LIST_QUEUES,
    LIST_SHARES,
)


class AsyncQueuesService(AsyncResource):
    """`AsyncClient.queues`."""

    async def apply(self, queue: Queue, *, dry_run: bool | None = None, timeout: float | None = None) -> Queue:
        """Creates the queue or replaces its spec."""
        answer: Queue = await self._call(APPLY_QUEUE, {}, {"dryRun": dry_run}, queue, timeout)
        return answer

    async def delete(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> DeleteQueueResponse:
        """Refused while it has queues within it, or jobs that have not ended."""
        answer: DeleteQueueResponse = await self._call(DELETE_QUEUE, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    async def get(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> Queue:
        """The call getQueue of the API.

        `tenant`: For administrators; others see their own tenant's.
        """
        answer: Queue = await self._call(GET_QUEUE, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    async def get_order(self, *, tenant: str | None = None, limit: int | None = None, timeout: float | None = None) -> QueueOrder:
        """The waiting jobs in the order in which they are looked at, with what puts them there. Others than administrators see their own
        tenant's jobs, at their places among all.

        `tenant`: For administrators: one tenant's jobs; empty means all.
        `limit`: So many jobs at most; 0 means 100, and there are 1000 at most.
        """
        answer: QueueOrder = await self._call(GET_QUEUE_ORDER, {}, {"tenant": tenant, "limit": limit}, None, timeout)
        return answer

    async def list(
        self,
        *,
        tenant: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListQueuesResponse:
        """The call listQueues of the API.

        `tenant`: For administrators: one tenant's queues; empty means all.
        """
        answer: ListQueuesResponse = await self._call(
            LIST_QUEUES,
            {},
            {"tenant": tenant, "pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    async def list_all(self, *, tenant: str | None = None, timeout: float | None = None) -> Sequence[Queue]:
        """All rows of `list`, page by page."""
        rows: Sequence[Queue] = await self._pages(LIST_QUEUES, {}, {"tenant": tenant}, "queues", timeout)
        return rows

    async def list_shares(self, *, tenant: str | None = None, timeout: float | None = None) -> ListSharesResponse:
        """What tenants and their queues have used of late, and hold; others than administrators see their own tenant's.

        `tenant`: For administrators: one tenant; empty means all.
        """
        answer: ListSharesResponse = await self._call(LIST_SHARES, {}, {"tenant": tenant}, None, timeout)
        return answer
