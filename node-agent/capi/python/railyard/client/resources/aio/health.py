"""Calls of `AsyncClient.health`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from ..._resource import AsyncResource
from ...types.health import (
    ClusterHealth,
)
from ..health import (
    GET_HEALTH,
)


class AsyncHealthService(AsyncResource):
    """`AsyncClient.health`."""

    async def get(self, *, timeout: float | None = None) -> ClusterHealth:
        """The call getHealth of the API."""
        answer: ClusterHealth = await self._call(GET_HEALTH, {}, {}, None, timeout)
        return answer
