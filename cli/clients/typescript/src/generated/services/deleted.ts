// Calls of `Client.deleted`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import { operations } from "../operations.js";
import type { ListDeletedResponse, UndeleteResponse } from "../types/deleted.js";

export interface ListDeletedParams extends CallOptions {
}

export interface UndeleteParams extends CallOptions {
  /** "tenant" or "fabric". */
  kind: string;
  name: string;
  /** Only check, and tell what would come back. */
  dryRun?: boolean;
}

/** `Client.deleted`. */
export class DeletedService extends Resource {
  /** What can be brought back, the newest first. */
  async list(params: ListDeletedParams = {}): Promise<ListDeletedResponse> {
    return this.call(operations.listDeleted, {}, params, undefined);
  }

  /**
   * Brings a tenant or a fabric document back, with what went along: of a tenant its queues, its webhooks with their secrets, its schedules
   * (suspended), its shares in reservations and its places in service classes. Refused where something else has taken the name since. The
   * tenant has another uid: credentials that were issued before it was deleted stay refused, and its jobs do not come back.
   */
  async undelete(params: UndeleteParams): Promise<UndeleteResponse> {
    return this.call(operations.undelete, {}, params, undefined);
  }
}
