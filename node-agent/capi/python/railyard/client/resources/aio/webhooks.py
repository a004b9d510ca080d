"""Calls of `AsyncClient.webhooks`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncResource
from ...types.webhooks import (
    DeleteWebhookResponse,
    ListWebhooksResponse,
    TestWebhookResponse,
    Webhook,
)
from ..webhooks import (
    APPLY_WEBHOOK,
    DELETE_WEBHOOK,
    GET_WEBHOOK,
    LIST_WEBHOOKS,
    TEST_WEBHOOK,
)


class AsyncWebhooksService(AsyncResource):
    """`AsyncClient.webhooks`."""

    async def apply(self, webhook: Webhook, *, dry_run: bool | None = None, timeout: float | None = None) -> Webhook:
        """Creates the webhook or replaces its spec, and puts it in use again where its receiver was gone."""
        answer: Webhook = await self._call(APPLY_WEBHOOK, {}, {"dryRun": dry_run}, webhook, timeout)
        return answer

    async def delete(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> DeleteWebhookResponse:
        """What waits to be sent by it is dropped."""
        answer: DeleteWebhookResponse = await self._call(DELETE_WEBHOOK, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    async def get(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> Webhook:
        """The call getWebhook of the API.

        `tenant`: For administrators; others see their own tenant's.
        """
        answer: Webhook = await self._call(GET_WEBHOOK, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    async def list(
        self,
        *,
        tenant: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListWebhooksResponse:
        """The call listWebhooks of the API.

        `tenant`: For administrators: one tenant's webhooks; empty means all.
        """
        answer: ListWebhooksResponse = await self._call(
            LIST_WEBHOOKS,
            {},
            {"tenant": tenant, "pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    async def list_all(self, *, tenant: str | None = None, timeout: float | None = None) -> Sequence[Webhook]:
        """All rows of `list`, page by page."""
        rows: Sequence[Webhook] = await self._pages(LIST_WEBHOOKS, {}, {"tenant": tenant}, "webhooks", timeout)
        return rows

    async def test(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> TestWebhookResponse:
        """Sends one event of type "ping", signed as all are, at once and once, and tells what the receiver answered."""
        answer: TestWebhookResponse = await self._call(TEST_WEBHOOK, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer
