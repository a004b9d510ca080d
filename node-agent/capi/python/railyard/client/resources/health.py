"""Calls of `Client.health`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from .._core import Operation
from .._resource import Resource
from ..types.health import (
    ClusterHealth,
)

GET_HEALTH = Operation("getHealth", "GET", "/v1/health", True)


class HealthService(Resource):
    """`Client.health`."""

    def get(self, *, timeout: float | None = None) -> ClusterHealth:
        """The call getHealth of the API."""
        answer: ClusterHealth = self._call(GET_HEALTH, {}, {}, None, timeout)
        return answer
