"""Calls of `Client.secrets`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.secrets import (
    DeleteSecretResponse,
    ListSecretsResponse,
    Secret,
)

APPLY_SECRET = Operation("applySecret", "POST", "/v1/secrets", True, owned=True)
DELETE_SECRET = Operation("deleteSecret", "DELETE", "/v1/secrets/{name}", False, tenant="tenant")
GET_SECRET = Operation("getSecret", "GET", "/v1/secrets/{name}", True, tenant="tenant")
LIST_SECRETS = Operation("listSecrets", "GET", "/v1/secrets", True, tenant="tenant")


class SecretsService(Resource):
    """`Client.secrets`."""

    def apply(self, secret: Secret, *, dry_run: bool | None = None, timeout: float | None = None) -> Secret:
        """Creates the secret or replaces its values. The next attempt of a job that refers to it has the new ones; one that is being prepared
        begins
        anew.
        """
        answer: Secret = self._call(APPLY_SECRET, {}, {"dryRun": dry_run}, secret, timeout)
        return answer

    def delete(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> DeleteSecretResponse:
        """What runs keeps what it has; jobs that refer to it are held before their next attempt, until it is there again."""
        answer: DeleteSecretResponse = self._call(DELETE_SECRET, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    def get(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> Secret:
        """The call getSecret of the API.

        `tenant`: For administrators; others see their own tenant's.
        """
        answer: Secret = self._call(GET_SECRET, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    def list(
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
        answer: ListSecretsResponse = self._call(
            LIST_SECRETS,
            {},
            {"tenant": tenant, "pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    def list_all(self, *, tenant: str | None = None, timeout: float | None = None) -> Sequence[Secret]:
        """All rows of `list`, page by page."""
        rows: Sequence[Secret] = self._pages(LIST_SECRETS, {}, {"tenant": tenant}, "secrets", timeout)
        return rows
