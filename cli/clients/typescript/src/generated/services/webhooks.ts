// Calls of `Client.webhooks`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { DeleteWebhookResponse, ListWebhooksResponse, TestWebhookResponse, Webhook } from "../types/webhooks.js";

export interface ApplyWebhookParams extends CallOptions {
  dryRun?: boolean;
}

export interface DeleteWebhookParams extends CallOptions {
  tenant?: string;
}

export interface GetWebhookParams extends CallOptions {
  /** For administrators; others see their own tenant's. */
  tenant?: string;
}

export interface ListWebhooksParams extends CallOptions {
  /** For administrators: one tenant's webhooks; empty means all. */
  tenant?: string;
  pageSize?: number;
  pageToken?: string;
}

export interface TestWebhookParams extends CallOptions {
  tenant?: string;
}

/** `Client.webhooks`. */
export class WebhooksService extends Resource {
  /** Creates the webhook or replaces its spec, and puts it in use again where its receiver was gone. */
  async apply(webhook: Webhook, params: ApplyWebhookParams = {}): Promise<Webhook> {
    return this.call(operations.applyWebhook, {}, params, webhook);
  }

  /** What waits to be sent by it is dropped. */
  async delete(name: string, params: DeleteWebhookParams = {}): Promise<DeleteWebhookResponse> {
    return this.call(operations.deleteWebhook, { name }, params, undefined);
  }

  /** The call getWebhook of the API. */
  async get(name: string, params: GetWebhookParams = {}): Promise<Webhook> {
    return this.call(operations.getWebhook, { name }, params, undefined);
  }

  /** The call listWebhooks of the API. */
  async list(params: ListWebhooksParams = {}): Promise<ListWebhooksResponse> {
    return this.call(operations.listWebhooks, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListWebhooksParams, "pageToken"> = {}): Pages<Webhook> {
    return this.pages(operations.listWebhooks, {}, params, "webhooks");
  }

  /** Sends one event of type "ping", signed as all are, at once and once, and tells what the receiver answered. */
  async test(name: string, params: TestWebhookParams = {}): Promise<TestWebhookResponse> {
    return this.call(operations.testWebhook, { name }, params, undefined);
  }
}
