"""Calls of `Client.webhooks`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.webhooks import (
    DeleteWebhookResponse,
    ListWebhooksResponse,
    TestWebhookResponse,
    Webhook,
)

APPLY_WEBHOOK = Operation("applyWebhook", "POST", "/v1/webhooks", False, owned=True)
DELETE_WEBHOOK = Operation("deleteWebhook", "DELETE", "/v1/webhooks/{name}", False, tenant="tenant")
GET_WEBHOOK = Operation("getWebhook", "GET", "/v1/webhooks/{name}", True, tenant="tenant")
LIST_WEBHOOKS = Operation("listWebhooks", "GET", "/v1/webhooks", True, tenant="tenant")
TEST_WEBHOOK = Operation("testWebhook", "POST", "/v1/webhooks/{name}:test", False, tenant="tenant", whole=True)


class WebhooksService(Resource):
    """`Client.webhooks`."""

    def apply(self, webhook: Webhook, *, dry_run: bool | None = None, timeout: float | None = None) -> Webhook:
        """Creates the webhook or replaces its spec, and puts it in use again where its receiver was gone."""
        answer: Webhook = self._call(APPLY_WEBHOOK, {}, {"dryRun": dry_run}, webhook, timeout)
        return answer

    def delete(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> DeleteWebhookResponse:
        """What waits to be sent by it is dropped."""
        answer: DeleteWebhookResponse = self._call(DELETE_WEBHOOK, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    def get(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> Webhook:
        """The call getWebhook of the API.

        `tenant`: For administrators; others see their own tenant's.
        """
        answer: Webhook = self._call(GET_WEBHOOK, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    def list(
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
        answer: ListWebhooksResponse = self._call(
            LIST_WEBHOOKS,
            {},
            {"tenant": tenant, "pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    def list_all(self, *, tenant: str | None = None, timeout: float | None = None) -> Sequence[Webhook]:
        """All rows of `list`, page by page."""
        rows: Sequence[Webhook] = self._pages(LIST_WEBHOOKS, {}, {"tenant": tenant}, "webhooks", timeout)
        return rows

    def test(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> TestWebhookResponse:
        """Sends one event of type "ping", signed as all are, at once and once, and tells what the receiver answered."""
        answer: TestWebhookResponse = self._call(TEST_WEBHOOK, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer
