"""Calls of `AsyncClient.rails`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from ..._resource import AsyncResource
from ...types.rails import (
    DrainRailResponse,
    ListRailsResponse,
    UndrainRailResponse,
)
from ..rails import (
    DRAIN_RAIL,
    LIST_RAILS,
    UNDRAIN_RAIL,
)


class AsyncRailsService(AsyncResource):
    """`AsyncClient.rails`."""

    async def drain(
        self,
        *,
        target: str,
        reason: str | None = None,
        force: bool | None = None,
        timeout: float | None = None,
    ) -> DrainRailResponse:
        """Takes a rail, a leaf or one server's port out of use, without an error for the jobs on it. Repeating it is harmless.

        `target`: As in ListRailsRequest; required.
        `force`: Also where it is the last rail of a running job: that job goes on using it until it has another.
        """
        answer: DrainRailResponse = await self._call(DRAIN_RAIL, {}, {"target": target, "reason": reason, "force": force}, None, timeout)
        return answer

    async def list(self, *, target: str | None = None, timeout: float | None = None) -> ListRailsResponse:
        """The rails, who holds them, what is drained, and who is not off it yet.

        `target`: Only this: a rail by index or name, a leaf by name, or NODE:RAIL; with rail/, leaf/ or node/ before it where two have the
        name. Empty means all.
        """
        answer: ListRailsResponse = await self._call(LIST_RAILS, {}, {"target": target}, None, timeout)
        return answer

    async def undrain(self, *, target: str, timeout: float | None = None) -> UndrainRailResponse:
        """Brings it back. Repeating it is harmless.

        `target`: As in ListRailsRequest; required.
        """
        answer: UndrainRailResponse = await self._call(UNDRAIN_RAIL, {}, {"target": target}, None, timeout)
        return answer
