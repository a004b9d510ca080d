"""Calls of `Client.fabric`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from .._core import Operation
from .._resource import Resource
from ..types.common import (
    Int64,
)
from ..types.fabric import (
    DeleteFabricResponse,
    Fabric,
    Topology,
)

APPLY_FABRIC = Operation("applyFabric", "PUT", "/v1/fabric", True)
DELETE_FABRIC = Operation("deleteFabric", "DELETE", "/v1/fabric", False)
GET_FABRIC = Operation("getFabric", "GET", "/v1/fabric", True)
GET_TOPOLOGY = Operation("getTopology", "GET", "/v1/topology", True)


class FabricService(Resource):
    """`Client.fabric`."""

    def apply(
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
        answer: Fabric = self._call(APPLY_FABRIC, {}, {"dryRun": dry_run, "allowShrink": allow_shrink}, fabric, timeout)
        return answer

    def delete(
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
        answer: DeleteFabricResponse = self._call(
            DELETE_FABRIC,
            {},
            {"name": name, "resourceVersion": resource_version, "dryRun": dry_run},
            None,
            timeout,
        )
        return answer

    def get(self, *, timeout: float | None = None) -> Fabric:
        """The call getFabric of the API."""
        answer: Fabric = self._call(GET_FABRIC, {}, {}, None, timeout)
        return answer

    def get_topology(self, *, timeout: float | None = None) -> Topology:
        """The fabric as the scheduler sees it: document and inventories joined."""
        answer: Topology = self._call(GET_TOPOLOGY, {}, {}, None, timeout)
        return answer
