"""Calls of `Client.qos`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from .._core import Operation
from .._resource import Resource
from ..types.qos import (
    ControlRolloutRequestAction,
    GetQosResponse,
    QosPlan,
)

APPLY_QOS = Operation("applyQos", "POST", "/v1/qos:apply", True, whole=True)
CONTROL_ROLLOUT = Operation("controlRollout", "POST", "/v1/qos:steer", False, whole=True)
GET_QOS = Operation("getQos", "GET", "/v1/qos", True)
PLAN_QOS = Operation("planQos", "POST", "/v1/qos:plan", True, whole=True)


class QosService(Resource):
    """`Client.qos`."""

    def apply(
        self,
        *,
        document: str,
        reason: str | None = None,
        canary: str | None = None,
        confirm_within: str | None = None,
        soak: str | None = None,
        at_once: int | None = None,
        force: bool | None = None,
        timeout: float | None = None,
    ) -> GetQosResponse:
        """Begins a rollout. The profile that is there already changes nothing.

        `document`: The profile, as JSON. One that says nothing is refused.
        `canary`: Default: the controller chooses a server that holds few jobs.
        `confirm_within`: Default 60 s; 10 s to 1 hour.
        `soak`: Default 10 s; less than `confirm_within`.
        `at_once`: Default 32; at most 1024.
        """
        answer: GetQosResponse = self._call(
            APPLY_QOS,
            {},
            {
                "document": document,
                "reason": reason,
                "canary": canary,
                "confirmWithin": confirm_within,
                "soak": soak,
                "atOnce": at_once,
                "force": force,
            },
            None,
            timeout,
        )
        return answer

    def control_rollout(
        self,
        *,
        action: ControlRolloutRequestAction,
        reason: str | None = None,
        timeout: float | None = None,
    ) -> GetQosResponse:
        """Pauses a rollout, goes on with it, cancels it, or rolls out the profile before it."""
        answer: GetQosResponse = self._call(CONTROL_ROLLOUT, {}, {"action": action, "reason": reason}, None, timeout)
        return answer

    def get(self, *, timeout: float | None = None) -> GetQosResponse:
        """The rollout, and how far it is."""
        answer: GetQosResponse = self._call(GET_QOS, {}, {}, None, timeout)
        return answer

    def plan(
        self,
        *,
        document: str,
        reason: str | None = None,
        canary: str | None = None,
        confirm_within: str | None = None,
        soak: str | None = None,
        at_once: int | None = None,
        force: bool | None = None,
        timeout: float | None = None,
    ) -> QosPlan:
        """What ApplyQos would do; nothing begins.

        `document`: The profile, as JSON. One that says nothing is refused.
        `canary`: Default: the controller chooses a server that holds few jobs.
        `confirm_within`: Default 60 s; 10 s to 1 hour.
        `soak`: Default 10 s; less than `confirm_within`.
        `at_once`: Default 32; at most 1024.
        """
        answer: QosPlan = self._call(
            PLAN_QOS,
            {},
            {
                "document": document,
                "reason": reason,
                "canary": canary,
                "confirmWithin": confirm_within,
                "soak": soak,
                "atOnce": at_once,
                "force": force,
            },
            None,
            timeout,
        )
        return answer
