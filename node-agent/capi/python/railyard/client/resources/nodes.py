"""Calls of `Client.nodes`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource, Watch
from ..types.common import (
    Int64,
)
from ..types.nodes import (
    CreateJoinTokenResponse,
    DeleteNodeResponse,
    ListNodeUsageResponse,
    ListNodesResponse,
    Node,
    NodeEvent,
    NodeSpec,
    NodeUsage,
    UpdateNodeRequestPart,
)

CREATE_JOIN_TOKEN = Operation("createJoinToken", "POST", "/v1/nodes/{node}:createJoinToken", False, whole=True)
DELETE_NODE = Operation("deleteNode", "DELETE", "/v1/nodes/{name}", False)
GET_NODE = Operation("getNode", "GET", "/v1/nodes/{name}", True)
LIST_NODE_USAGE = Operation("listNodeUsage", "GET", "/v1/nodes:usage", True)
LIST_NODES = Operation("listNodes", "GET", "/v1/nodes", True)
RETURN_NODE = Operation("returnNode", "POST", "/v1/nodes/{name}:return", False, whole=True)
UPDATE_NODE = Operation("updateNode", "PUT", "/v1/nodes/{name}/spec", True)
WATCH_NODES = Operation("watchNodes", "GET", "/v1/nodes:watch", True)


class NodesService(Resource):
    """`Client.nodes`."""

    def create_join_token(self, node: str, *, lifetime: str | None = None, timeout: float | None = None) -> CreateJoinTokenResponse:
        """A single-use token with which one named server may join.

        `lifetime`: Default and at most 10 minutes.
        """
        answer: CreateJoinTokenResponse = self._call(CREATE_JOIN_TOKEN, {"node": node}, {"lifetime": lifetime}, None, timeout)
        return answer

    def delete(self, name: str, *, force: bool | None = None, uid: str | None = None, timeout: float | None = None) -> DeleteNodeResponse:
        """Refused while a job holds anything on it, unless forced.

        `force`: The caller vouches that nothing runs on the server any more (it is gone for good): what jobs hold there is released. Needs
        `uid`.
        `uid`: If given, refused with a conflict unless it is the node's uid, so that a repeated request cannot hit a server that has joined
        under the same name since.
        """
        answer: DeleteNodeResponse = self._call(DELETE_NODE, {"name": name}, {"force": force, "uid": uid}, None, timeout)
        return answer

    def get(self, name: str, *, timeout: float | None = None) -> Node:
        """The call getNode of the API."""
        answer: Node = self._call(GET_NODE, {"name": name}, {}, None, timeout)
        return answer

    def list_usage(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListNodeUsageResponse:
        """What servers use now, as their agents told it last.

        `page_size`: At most this many; 0 means the server's limit.
        """
        answer: ListNodeUsageResponse = self._call(LIST_NODE_USAGE, {}, {"pageSize": page_size, "pageToken": page_token}, None, timeout)
        return answer

    def list_usage_all(self, *, timeout: float | None = None) -> Sequence[NodeUsage]:
        """All rows of `list_usage`, page by page."""
        rows: Sequence[NodeUsage] = self._pages(LIST_NODE_USAGE, {}, {}, "nodes", timeout)
        return rows

    def list(self, *, page_size: int | None = None, page_token: str | None = None, timeout: float | None = None) -> ListNodesResponse:
        """The call listNodes of the API.

        `page_size`: At most this many; 0 means the server's limit.
        """
        answer: ListNodesResponse = self._call(LIST_NODES, {}, {"pageSize": page_size, "pageToken": page_token}, None, timeout)
        return answer

    def list_all(self, *, timeout: float | None = None) -> Sequence[Node]:
        """All rows of `list`, page by page."""
        rows: Sequence[Node] = self._pages(LIST_NODES, {}, {}, "nodes", timeout)
        return rows

    def return_(self, name: str, *, timeout: float | None = None) -> Node:
        """Takes a node that killed jobs back into service."""
        answer: Node = self._call(RETURN_NODE, {"name": name}, {}, None, timeout)
        return answer

    def update(
        self,
        name: str,
        node_spec: NodeSpec,
        *,
        if_resource_version: Int64 | None = None,
        parts: Sequence[UpdateNodeRequestPart] | None = None,
        timeout: float | None = None,
    ) -> Node:
        """Changes `spec` only.

        `if_resource_version`: If not 0, refused with a conflict unless it is the current one.
        `parts`: What of `spec` is changed; empty means SCHEDULING.
        """
        answer: Node = self._call(
            UPDATE_NODE,
            {"name": name},
            {"ifResourceVersion": if_resource_version, "parts": parts},
            node_spec,
            timeout,
        )
        return answer

    def watch(self, *, after_revision: Int64 | None = None, timeout: float | None = None) -> Watch[NodeEvent]:
        """The call watchNodes of the API.

        `after_revision`: Resume after this revision; 0 begins with the present state.
        """
        return self._watch(WATCH_NODES, {}, {"afterRevision": after_revision}, timeout)
