"""Calls of `AsyncClient.fabric`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from ..._resource import AsyncResource
from ...types.common import (
    Int64,
)
from ...types.fabric import (
    DeleteFabricResponse,
    Fabric,
    Topology,
)
from ..fabric import (
    APPLY_FABRIC,
    DELETE_FABRIC,
    GET_FABRIC,
    GET_TOPOLOGY,
)


class AsyncFabricService(AsyncResource):
    """`AsyncClient.fabric`."""

    async def apply(
        self,
        fabric: Fabric,
        *,
        dry_run: bool | None = None,
        allow_shrink: bool | None = None,
        timeout: float | None = None,
    ) -> Fabric:
        """Creates or replaces the fabric. All findings of a faulty document come in one answer; nothing is stored then.

        `allow_shrink`: Without it a document is refused that cables none, or much fewer, of the servers that the present one cables: that
        leaves out more than one of them and more than a tenth.
        """
        answer: Fabric = await self._call(APPLY_FABRIC, {}, {"dryRun": dry_run, "allowShrink": allow_shrink}, fabric, timeout)
        return answer

    async def delete(
        self,
        *,
        name: str,
        resource_version: Int64 | None = None,
        dry_run: bool | None = None,
        timeout: float | None = None,
    ) -> DeleteFabricResponse:
        """Removes the document of this name; the scheduler then knows only what the nodes' inventories tell.

        `name`: What the fabric is called: nothing is deleted if it has another name.
        `resource_version`: If not 0, refused unless it is the document's resource version.
        `dry_run`: Tells what it would cost, and deletes nothing.
        """
        answer: DeleteFabricResponse = await self._call(
            DELETE_FABRIC,
            {},
            {"name": name, "resourceVersion": resource_version, "dryRun": dry_run},
            None,
            timeout,
        )
        return answer

    async def get(self, *, timeout: float | None = None) -> Fabric:
        """The call getFabric of the API."""
        answer: Fabric = await self._call(GET_FABRIC, {}, {}, None, timeout)
        return answer

    async def get_topology(self, *, timeout: float | None = None) -> Topology:
        """The fabric as the scheduler sees it: document and inventories joined."""
        answer: Topology = await self._call(GET_TOPOLOGY, {}, {}, None, timeout)
        return answer
