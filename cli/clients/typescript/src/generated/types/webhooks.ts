// Messages of `Client.webhooks`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, Metadata } from "./common.js";

export type DeleteWebhookResponse = Record<string, never>;

export interface ListWebhooksResponse {
  webhooks?: Webhook[];
  nextPageToken?: string;
  revision?: Int64;
}

export interface TestWebhookRequest {
  tenant?: string;
}

export interface TestWebhookResponse {
  /** The answer's HTTP status; 0 if there was none. */
  status?: number;
  /** Why it does not count as delivered; empty if it does. */
  error?: string;
  took?: string;
  /** The id that it was sent with. */
  id?: string;
}

export interface Webhook {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Webhook". */
  kind?: string;
  metadata?: Metadata;
  spec?: WebhookSpec;
  status?: WebhookStatus;
}

export interface WebhookSpec {
  /**
   * Where to, https://HOST[:PORT]/PATH; without user, password and fragment. Who may not apply webhooks sees no more of it than the host.
   */
  url?: string;
  /** At least one. */
  events?: WebhookSpecEvent[];
  /** Only jobs of this name; `*` at its end stands for any further text. Empty: all. An element of an array is a job. */
  jobs?: string;
  /** Only jobs of this queue. */
  queue?: string;
  /** Only jobs with all of these labels. */
  labels?: Record<string, string>;
  /**
   * What deliveries are signed with (HMAC-SHA256), "whsec_" and 24 to 64 bytes in base64. Empty: the one that there is, and for a new
   * webhook one that the controller makes. In no answer, but once in that to the call for which it was made.
   */
  secret?: string;
  /** Also http://, in the clear. A receiver on this machine is allowed it without. */
  allowInsecure?: boolean;
  /** Nothing is sent, and nothing is kept to be sent. */
  suspend?: boolean;
  /** For people. */
  description?: string;
}

/** What a receiver can be told of. */
export type WebhookSpecEvent = "STARTED" | "ENDED" | "SUCCEEDED" | "FAILED" | "CANCELLED" | "QUEUED_AGAIN" | "HELD";

export interface WebhookStatus {
  /** Deliveries that the receiver has answered with 2xx. */
  delivered?: Int64;
  /** Deliveries that were given up. */
  failed?: Int64;
  /** Deliveries that wait, or are on their way. */
  queued?: number;
  /** Deliveries that were dropped, undelivered: newer ones needed the room, or the webhook went out of use. */
  dropped?: Int64;
  /** The last attempt that failed, and when. */
  lastError?: string;
  lastErrorTime?: string;
  lastSuccessTime?: string;
  /** Since when it is out of use, because its receiver answered 410 Gone; applying it again puts it in use. */
  disabledTime?: string;
}
