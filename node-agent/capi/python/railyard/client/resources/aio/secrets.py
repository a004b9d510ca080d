"""Calls of `AsyncClient.secrets`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncResource
from ...types.secrets import (
    DeleteSecretResponse,
    ListSecretsResponse,
    Secret,
)
from ..secrets import (
    APPLY_SECRET,
    DELETE_SECRET,
    GET_SECRET,
    LIST_SECRETS,
)


class AsyncSecretsService(AsyncResource):
    """`AsyncClient.secrets`."""

    async def apply(self, secret: Secret, *, dry_run: bool | None = None, timeout: float | None = None) -> Secret:
        """Creates the secret or replaces its values. The next attempt of a job that refers to it has the new ones; one that is being prepared
        begins
        anew.
        """
        answer: Secret = await self._call(APPLY_SECRET, {}, {"dryRun": dry_run}, secret, timeout)
        return answer

    async def delete(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> DeleteSecretResponse:
        """What runs keeps what it has; jobs that refer to it are held before their next attempt, until it is there again."""
        answer: DeleteSecretResponse = await self._call(DELETE_SECRET, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    async def get(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> Secret:
        """The call getSecret of the API.

        `tenant`: For administrators; others see their own tenant's.
        """
        answer: Secret = await self._call(GET_SECRET, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    async def list(
        self,
        *,
        tenant: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListSecretsResponse:
        """The call listSecrets of the API.

        `tenant`: For administrators: one tenant's secrets; empty means all.
        """
        answer: ListSecretsResponse = await self._call(
            LIST_SECRETS,
            {},
            {"tenant": tenant, "pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    async def list_all(self, *, tenant: str | None = None, timeout: float | None = None) -> Sequence[Secret]:
        """All rows of `list`, page by page."""
        rows: Sequence[Secret] = await self._pages(LIST_SECRETS, {}, {"tenant": tenant}, "secrets", timeout)
        return rows
