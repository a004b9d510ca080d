"""Calls of `AsyncClient.switches`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncResource
from ...types.switches import (
    ControlSwitchRolloutRequestAction,
    CreateSwitchTokenResponse,
    DeleteSwitchResponse,
    ListSwitchesResponse,
    RenderSwitchResponse,
    Switch,
    SwitchPlan,
    SwitchRollout,
)
from ..switches import (
    APPLY_SWITCH,
    CONTROL_SWITCH_ROLLOUT,
    CREATE_SWITCH_TOKEN,
    DELETE_SWITCH,
    GET_SWITCH,
    GET_SWITCH_ROLLOUT,
    LIST_SWITCHES,
    PLAN_SWITCHES,
    RENDER_SWITCH,
    ROLL_OUT_SWITCHES,
)


class AsyncSwitchesService(AsyncResource):
    """`AsyncClient.switches`."""

    async def apply(self, switch: Switch, *, dry_run: bool | None = None, timeout: float | None = None) -> Switch:
        """Creates the switch or replaces its spec."""
        answer: Switch = await self._call(APPLY_SWITCH, {}, {"dryRun": dry_run}, switch, timeout)
        return answer

    async def control_rollout(
        self,
        *,
        action: ControlSwitchRolloutRequestAction,
        reason: str | None = None,
        timeout: float | None = None,
    ) -> SwitchRollout:
        """Pauses the rollout, goes on with it, cancels it, or takes back what it has changed."""
        answer: SwitchRollout = await self._call(CONTROL_SWITCH_ROLLOUT, {}, {"action": action, "reason": reason}, None, timeout)
        return answer

    async def create_token(self, name: str, *, lifetime: str | None = None, timeout: float | None = None) -> CreateSwitchTokenResponse:
        """A token with which a switch's agent joins.

        `lifetime`: Default and at most 10 minutes.
        """
        answer: CreateSwitchTokenResponse = await self._call(CREATE_SWITCH_TOKEN, {"name": name}, {"lifetime": lifetime}, None, timeout)
        return answer

    async def delete(self, name: str, *, timeout: float | None = None) -> DeleteSwitchResponse:
        """Forgets it. Its configuration stays as it is; its agent gets nothing more."""
        answer: DeleteSwitchResponse = await self._call(DELETE_SWITCH, {"name": name}, {}, None, timeout)
        return answer

    async def get(self, name: str, *, timeout: float | None = None) -> Switch:
        """The call getSwitch of the API."""
        answer: Switch = await self._call(GET_SWITCH, {"name": name}, {}, None, timeout)
        return answer

    async def get_rollout(self, *, timeout: float | None = None) -> SwitchRollout:
        """The rollout to switches, and how far it is."""
        answer: SwitchRollout = await self._call(GET_SWITCH_ROLLOUT, {}, {}, None, timeout)
        return answer

    async def list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListSwitchesResponse:
        """The call listSwitches of the API."""
        answer: ListSwitchesResponse = await self._call(LIST_SWITCHES, {}, {"pageSize": page_size, "pageToken": page_token}, None, timeout)
        return answer

    async def list_all(self, *, timeout: float | None = None) -> Sequence[Switch]:
        """All rows of `list`, page by page."""
        rows: Sequence[Switch] = await self._pages(LIST_SWITCHES, {}, {}, "switches", timeout)
        return rows

    async def plan(
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
        answer: SwitchPlan = await self._call(
            PLAN_SWITCHES,
            {},
            {"reason": reason, "canary": canary, "confirmWithin": confirm_within, "soak": soak, "atOnce": at_once, "force": force},
            None,
            timeout,
        )
        return answer

    async def render(self, name: str, *, timeout: float | None = None) -> RenderSwitchResponse:
        """The files that it is to have, from the profile that is in force, the fabric document and its own."""
        answer: RenderSwitchResponse = await self._call(RENDER_SWITCH, {"name": name}, {}, None, timeout)
        return answer

    async def roll_out(
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
        answer: SwitchRollout = await self._call(
            ROLL_OUT_SWITCHES,
            {},
            {"reason": reason, "canary": canary, "confirmWithin": confirm_within, "soak": soak, "atOnce": at_once, "force": force},
            None,
            timeout,
        )
        return answer
