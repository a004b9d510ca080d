"""Calls of `Client.rails`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from .._core import Operation
from .._resource import Resource
from ..types.rails import (
    DrainRailResponse,
    ListRailsResponse,
    UndrainRailResponse,
)

DRAIN_RAIL = Operation("drainRail", "POST", "/v1/rails:drain", False, whole=True)
LIST_RAILS = Operation("listRails", "GET", "/v1/rails", True)
UNDRAIN_RAIL = Operation("undrainRail", "POST", "/v1/rails:undrain", False, whole=True)


class RailsService(Resource):
    """`Client.rails`."""

    def drain(
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
        answer: DrainRailResponse = self._call(DRAIN_RAIL, {}, {"target": target, "reason": reason, "force": force}, None, timeout)
        return answer

    def list(self, *, target: str | None = None, timeout: float | None = None) -> ListRailsResponse:
        """The rails, who holds them, what is drained, and who is not off it yet.

        `target`: Only this: a rail by index or name, a leaf by name, or NODE:RAIL; with rail/, leaf/ or node/ before it where two have the
        name. Empty means all.
        """
        answer: ListRailsResponse = self._call(LIST_RAILS, {}, {"target": target}, None, timeout)
        return answer

    def undrain(self, *, target: str, timeout: float | None = None) -> UndrainRailResponse:
        """Brings it back. Repeating it is harmless.

        `target`: As in ListRailsRequest; required.
        """
        answer: UndrainRailResponse = self._call(UNDRAIN_RAIL, {}, {"target": target}, None, timeout)
        return answer
