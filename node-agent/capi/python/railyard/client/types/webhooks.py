"""Messages of `Client.webhooks`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypedDict

from .common import (
    Int64,
    Metadata,
)


#: What a receiver can be told of.
WebhookSpecEvent = Literal["STARTED", "ENDED", "SUCCEEDED", "FAILED", "CANCELLED", "QUEUED_AGAIN", "HELD"]


class DeleteWebhookResponse(TypedDict, total=False):
    """Nothing is in it."""


class ListWebhooksResponse(TypedDict, total=False):
    webhooks: list[Webhook]
    nextPageToken: str
    revision: Int64


class TestWebhookRequest(TypedDict, total=False):
    tenant: str


class TestWebhookResponse(TypedDict, total=False):
    #: The answer's HTTP status; 0 if there was none.
    status: int
    #: Why it does not count as delivered; empty if it does.
    error: str
    took: str
    #: The id that it was sent with.
    id: str


class Webhook(TypedDict, total=False):
    #: "rail/v1".
    apiVersion: str
    #: "Webhook".
    kind: str
    metadata: Metadata
    spec: WebhookSpec
    status: WebhookStatus


class WebhookSpec(TypedDict, total=False):
    #: Where to, https://HOST[:PORT]/PATH; without user, password and fragment. Who may not apply webhooks sees no more of it than the host.
    url: str
    #: At least one.
    events: list[WebhookSpecEvent]
    #: Only jobs of this name; `*` at its end stands for any further text. Empty: all. An element of an array is a job.
    jobs: str
    #: Only jobs of this queue.
    queue: str
    #: Only jobs with all of these labels.
    labels: dict[str, str]
    #: What deliveries are signed with (HMAC-SHA256), "whsec_" and 24 to 64 bytes in base64. Empty: the one that there is, and for a new
    #: webhook one that the controller makes. In no answer, but once in that to the call for which it was made.
    secret: str
    #: Also http://, in the clear. A receiver on this machine is allowed it without.
    allowInsecure: bool
    #: Nothing is sent, and nothing is kept to be sent.
    suspend: bool
    #: For people.
    description: str


class WebhookStatus(TypedDict, total=False):
    #: Deliveries that the receiver has answered with 2xx.
    delivered: Int64
    #: Deliveries that were given up.
    failed: Int64
    #: Deliveries that wait, or are on their way.
    queued: int
    #: Deliveries that were dropped, undelivered: newer ones needed the room, or the webhook went out of use.
    dropped: Int64
    #: The last attempt that failed, and when.
    lastError: str
    lastErrorTime: str
    lastSuccessTime: str
    #: Since when it is out of use, because its receiver answered 410 Gone; applying it again puts it in use.
    disabledTime: str
