"""Calls of `Client.switches`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.switches import (
    ControlSwitchRolloutRequestAction,
    CreateSwitchTokenResponse,
    DeleteSwitchResponse,
    ListSwitchesResponse,
    RenderSwitchResponse,
    Switch,
    SwitchPlan,
    SwitchRollout,
)

APPLY_SWITCH = Operation("applySwitch", "POST", "/v1/switches", True)
CONTROL_SWITCH_ROLLOUT = Operation("controlSwitchRollout", "POST", "/v1/switch-rollout:steer", False, whole=True)
CREATE_SWITCH_TOKEN = Operation("createSwitchToken", "POST", "/v1/switches/{name}:createToken", False, whole=True)
DELETE_SWITCH = Operation("deleteSwitch", "DELETE", "/v1/switches/{name}", False)
GET_SWITCH = Operation("getSwitch", "GET", "/v1/switches/{name}", True)
GET_SWITCH_ROLLOUT = Operation("getSwitchRollout", "GET", "/v1/switch-rollout", True)
LIST_SWITCHES = Operation("listSwitches", "GET", "/v1/switches", True)
PLAN_SWITCHES = Operation("planSwitches", "POST", "/v1/switch-rollout:plan", True, whole=True)
RENDER_SWITCH = Operation("renderSwitch", "GET", "/v1/switches/{name}:render", True)
ROLL_OUT_SWITCHES = Operation("rollOutSwitches", "POST", "/v1/switch-rollout:apply", False, whole=True)


class SwitchesService(Resource):
    """`Client.switches`."""

    def apply(self, switch: Switch, *, dry_run: bool | None = None, timeout: float | None = None) -> Switch:
        """Creates the switch or replaces its spec."""
        answer: Switch = self._call(APPLY_SWITCH, {}, {"dryRun": dry_run}, switch, timeout)
        return answer

    def control_rollout(
        self,
        *,
        action: ControlSwitchRolloutRequestAction,
        reason: str | None = None,
        timeout: float | None = None,
    ) -> SwitchRollout:
        """Pauses the rollout, goes on with it, cancels it, or takes back what it has changed."""
        answer: SwitchRollout = self._call(CONTROL_SWITCH_ROLLOUT, {}, {"action": action, "reason": reason}, None, timeout)
        return answer

    def create_token(self, name: str, *, lifetime: str | None = None, timeout: float | None = None) -> CreateSwitchTokenResponse:
        """A token with which a switch's agent joins.

        `lifetime`: Default and at most 10 minutes.
        """
        answer: CreateSwitchTokenResponse = self._call(CREATE_SWITCH_TOKEN, {"name": name}, {"lifetime": lifetime}, None, timeout)
        return answer

    def delete(self, name: str, *, timeout: float | None = None) -> DeleteSwitchResponse:
        """Forgets it. Its configuration stays as it is; its agent gets nothing more."""
        answer: DeleteSwitchResponse = self._call(DELETE_SWITCH, {"name": name}, {}, None, timeout)
        return answer

    def get(self, name: str, *, timeout: float | None = None) -> Switch:
        """The call getSwitch of the API."""
        answer: Switch = self._call(GET_SWITCH, {"name": name}, {}, None, timeout)
        return answer

    def get_rollout(self, *, timeout: float | None = None) -> SwitchRollout:
        """The rollout to switches, and how far it is."""
        answer: SwitchRollout = self._call(GET_SWITCH_ROLLOUT, {}, {}, None, timeout)
        return answer

    def list(self, *, page_size: int | None = None, page_token: str | None = None, timeout: float | None = None) -> ListSwitchesResponse:
        """The call listSwitches of the API."""
        answer: ListSwitchesResponse = self._call(LIST_SWITCHES, {}, {"pageSize": page_size, "pageToken": page_token}, None, timeout)
        return answer

    def list_all(self, *, timeout: float | None = None) -> Sequence[Switch]:
        """All rows of `list`, page by page."""
        rows: Sequence[Switch] = self._pages(LIST_SWITCHES, {}, {}, "switches", timeout)
        return rows

    def plan(
        self,
        *,
        reason: str | None = None,
        canary: str | None = None,
        confirm_within: str | None = None,
        soak: str | None = None,
        at_once: int | None = None,
        force: bool | None = None,
        timeout: float | None = None,
    ) -> SwitchPlan:
        """What RollOutSwitches would do; nothing begins.

        `canary`: The leaf that is first; empty: one that few jobs use.
        `confirm_within`: 10 s to 1 hour. Default 60 s, or 300 s where a change is one that a switch puts in place by loading its whole
        database (impact REBOOT).
        `soak`: Default 10 s; less than `confirm_within`.
        `at_once`: Switches out of use at a time; default 1, at most 64. Two that serve one server are never out of use together.
        `force`: Also where a job loses its last rail.
        """
        answer: SwitchPlan = self._call(
            PLAN_SWITCHES,
            {},
            {"reason": reason, "canary": canary, "confirmWithin": confirm_within, "soak": soak, "atOnce": at_once, "force": force},
            None,
            timeout,
        )
        return answer

    def render(self, name: str, *, timeout: float | None = None) -> RenderSwitchResponse:
        """The files that it is to have, from the profile that is in force, the fabric document and its own."""
        answer: RenderSwitchResponse = self._call(RENDER_SWITCH, {"name": name}, {}, None, timeout)
        return answer

    def roll_out(
        self,
        *,
        reason: str | None = None,
        canary: str | None = None,
        confirm_within: str | None = None,
        soak: str | None = None,
        at_once: int | None = None,
        force: bool | None = None,
        timeout: float | None = None,
    ) -> SwitchRollout:
        """Brings switches to their desired configuration in stages. Where all have it nothing begins.

        `canary`: The leaf that is first; empty: one that few jobs use.
        `confirm_within`: 10 s to 1 hour. Default 60 s, or 300 s where a change is one that a switch puts in place by loading its whole
        database (impact REBOOT).
        `soak`: Default 10 s; less than `confirm_within`.
        `at_once`: Switches out of use at a time; default 1, at most 64. Two that serve one server are never out of use together.
        `force`: Also where a job loses its last rail.
        """
        answer: SwitchRollout = self._call(
            ROLL_OUT_SWITCHES,
            {},
            {"reason": reason, "canary": canary, "confirmWithin": confirm_within, "soak": soak, "atOnce": at_once, "force": force},
            None,
            timeout,
        )
        return answer
