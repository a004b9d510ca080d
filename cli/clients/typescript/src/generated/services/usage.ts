// Calls of `Client.usage`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { ListUsageRecordsResponse, SumUsageRequestBy, SumUsageResponse, UsageRecord } from "../types/usage.js";

export interface ListUsageRecordsParams extends CallOptions {
  /** For administrators: one tenant's; empty means all. */
  tenant?: string;
  /** Only of this queue. */
  queue?: string;
  /** Only of jobs that this user submitted. */
  user?: string;
  /** The begin of the interval; absent: the oldest record. */
  since?: string;
  /** Its end, which is no part of it; absent, or later than now: now. */
  until?: string;
  /** At most this many; 0 means the server's limit. */
  pageSize?: number;
  pageToken?: string;
}

export interface SumUsageParams extends CallOptions {
  /** For administrators: one tenant's; empty means all. */
  tenant?: string;
  /** Only of this queue. */
  queue?: string;
  /** Only of jobs that this user submitted. */
  user?: string;
  /** The begin of the interval; absent: the oldest record. */
  since?: string;
  /** Its end, which is no part of it; absent, or later than now: now. */
  until?: string;
  /** What is summed over; unspecified: TENANT. */
  by?: SumUsageRequestBy;
  /** Groups at most, those with the most GPU time first; 0 means 1000. The total is of all of them. */
  limit?: number;
}

/** `Client.usage`. */
export class UsageService extends Resource {
  /**
   * One record for each attempt of a job that held something in an interval: first those that had ended when the list was begun, in the
   * order of
   * their ends, then those that held something at that moment. Tenants' people see those of their tenant.
   */
  async list(params: ListUsageRecordsParams = {}): Promise<ListUsageRecordsResponse> {
    return this.call(operations.listUsageRecords, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListUsageRecordsParams, "pageToken"> = {}): Pages<UsageRecord> {
    return this.pages(operations.listUsageRecords, {}, params, "records");
  }

  /**
   * What was held in an interval, summed over tenants, queues, users or jobs. Each attempt counts with the part of it that lies in the
   * interval, one that still holds up to now.
   */
  async sum(params: SumUsageParams = {}): Promise<SumUsageResponse> {
    return this.call(operations.sumUsage, {}, params, undefined);
  }
}
