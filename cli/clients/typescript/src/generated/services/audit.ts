// Calls of `Client.audit`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages, Records } from "../../resource.js";
import { operations } from "../operations.js";
import type { AuditRecord, ListAuditRecordsResponse } from "../types/audit.js";

export interface ExportAuditRecordsParams extends CallOptions {
}

export interface ListAuditRecordsParams extends CallOptions {
  /** Only records that concern this tenant; of others than administrators their own, whatever is said. */
  tenant?: string;
  /** Only of this caller: the identity's URI, or its end after a `/`. */
  who?: string;
  /** Only of this call. */
  rpc?: string;
  /** Empty for both; `allowed` or `denied`. */
  decision?: string;
  since?: string;
  until?: string;
  pageSize?: number;
  pageToken?: string;
}

/** `Client.audit`. */
export class AuditService extends Resource {
  /**
   * All records that are kept: those of changes in order, then those of denials, each up to a checkpoint that is made for
   * this call where the last record is none.
   */
  export(params: ExportAuditRecordsParams = {}): Records<AuditRecord> {
    return this.records(operations.exportAuditRecords, {}, params);
  }

  /** The newest first. Administrators see all records, a tenant's administrators those that concern their tenant. */
  async list(params: ListAuditRecordsParams = {}): Promise<ListAuditRecordsResponse> {
    return this.call(operations.listAuditRecords, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListAuditRecordsParams, "pageToken"> = {}): Pages<AuditRecord> {
    return this.pages(operations.listAuditRecords, {}, params, "records");
  }
}
