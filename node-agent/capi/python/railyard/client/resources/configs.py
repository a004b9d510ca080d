"""Calls of `Client.configs`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.configs import (
    Config,
    DeleteConfigResponse,
    ListConfigsResponse,
)

APPLY_CONFIG = Operation("applyConfig", "POST", "/v1/configs", True, owned=True)
DELETE_CONFIG = Operation("deleteConfig", "DELETE", "/v1/configs/{name}", False, tenant="tenant")
GET_CONFIG = Operation("getConfig", "GET", "/v1/configs/{name}", True, tenant="tenant")
LIST_CONFIGS = Operation("listConfigs", "GET", "/v1/configs", True, tenant="tenant")


class ConfigsService(Resource):
    """`Client.configs`."""

    def apply(self, config: Config, *, dry_run: bool | None = None, timeout: float | None = None) -> Config:
        """As of secrets."""
        answer: Config = self._call(APPLY_CONFIG, {}, {"dryRun": dry_run}, config, timeout)
        return answer

    def delete(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> DeleteConfigResponse:
        """The call deleteConfig of the API."""
        answer: DeleteConfigResponse = self._call(DELETE_CONFIG, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    def get(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> Config:
        """The call getConfig of the API.

        `tenant`: For administrators; others see their own tenant's.
        """
        answer: Config = self._call(GET_CONFIG, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    def list(
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
        answer: ListConfigsResponse = self._call(
            LIST_CONFIGS,
            {},
            {"tenant": tenant, "pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    def list_all(self, *, tenant: str | None = None, timeout: float | None = None) -> Sequence[Config]:
        """All rows of `list`, page by page."""
        rows: Sequence[Config] = self._pages(LIST_CONFIGS, {}, {"tenant": tenant}, "configs", timeout)
        return rows
