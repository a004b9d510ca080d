"""Calls of `AsyncClient.configs`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncResource
from ...types.configs import (
    Config,
    DeleteConfigResponse,
    ListConfigsResponse,
)
from ..configs import (
    APPLY_CONFIG,
    DELETE_CONFIG,
    GET_CONFIG,
    LIST_CONFIGS,
)


class AsyncConfigsService(AsyncResource):
    """`AsyncClient.configs`."""

    async def apply(self, config: Config, *, dry_run: bool | None = None, timeout: float | None = None) -> Config:
        """As of secrets."""
        answer: Config = await self._call(APPLY_CONFIG, {}, {"dryRun": dry_run}, config, timeout)
        return answer

    async def delete(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> DeleteConfigResponse:
        """The call deleteConfig of the API."""
        answer: DeleteConfigResponse = await self._call(DELETE_CONFIG, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    async def get(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> Config:
        """The call getConfig of the API.

        `tenant`: For administrators; others see their own tenant's.
        """
        answer: Config = await self._call(GET_CONFIG, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    async def list(
        self,
        *,
        tenant: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListConfigsResponse:
        """The call listConfigs of the API.

        `tenant`: For administrators: one tenant's configs; empty means all.
        """
        answer: ListConfigsResponse = await self._call(
            LIST_CONFIGS,
            {},
            {"tenant": tenant, "pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    async def list_all(self, *, tenant: str | None = None, timeout: float | None = None) -> Sequence[Config]:
        """All rows of `list`, page by page."""
        rows: Sequence[Config] = await self._pages(LIST_CONFIGS, {}, {"tenant": tenant}, "configs", timeout)
        return rows
