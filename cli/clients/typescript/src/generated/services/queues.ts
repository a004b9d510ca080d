// Calls of `Client.queues`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { DeleteQueueResponse, ListQueuesResponse, ListSharesResponse, Queue, QueueOrder } from "../types/queues.js";

export interface ApplyQueueParams extends CallOptions {
  dryRun?: boolean;
}

export interface DeleteQueueParams extends CallOptions {
  tenant?: string;
}

export interface GetQueueParams extends CallOptions {
  /** For administrators; others see their own tenant's. */
  tenant?: string;
}

export interface GetQueueOrderParams extends CallOptions {
  /** For administrators: one tenant's jobs; empty means all. */
  tenant?: string;
  /** So many jobs at most; 0 means 100, and there are 1000 at most. */
  limit?: number;
}

export interface ListQueuesParams extends CallOptions {
  /** For administrators: one tenant's queues; empty means all. */
  tenant?: string;
  pageSize?: number;
  pageToken?: string;
}

export interface ListSharesParams extends CallOptions {
  /** For administrators: one tenant; empty means all. */
  tenant?: string;
}

/** `Client.queues`. */
export class QueuesService extends Resource {
  /** Creates the queue or replaces its spec. */
  async apply(queue: Queue, params: ApplyQueueParams = {}): Promise<Queue> {
    return this.call(operations.applyQueue, {}, params, queue);
  }

  /** Refused while it has queues within it, or jobs that have not ended. */
  async delete(name: string, params: DeleteQueueParams = {}): Promise<DeleteQueueResponse> {
    return this.call(operations.deleteQueue, { name }, params, undefined);
  }

  /** The call getQueue of the API. */
  async get(name: string, params: GetQueueParams = {}): Promise<Queue> {
    return this.call(operations.getQueue, { name }, params, undefined);
  }

  /**
   * The waiting jobs in the order in which they are looked at, with what puts them there. Others than administrators see their own
   * tenant's jobs, at their places among all.
   */
  async getOrder(params: GetQueueOrderParams = {}): Promise<QueueOrder> {
    return this.call(operations.getQueueOrder, {}, params, undefined);
  }

  /** The call listQueues of the API. */
  async list(params: ListQueuesParams = {}): Promise<ListQueuesResponse> {
    return this.call(operations.listQueues, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListQueuesParams, "pageToken"> = {}): Pages<Queue> {
    return this.pages(operations.listQueues, {}, params, "queues");
  }

  /** What tenants and their queues have used of late, and hold; others than administrators see their own tenant's. */
  async listShares(params: ListSharesParams = {}): Promise<ListSharesResponse> {
    return this.call(operations.listShares, {}, params, undefined);
  }
}
