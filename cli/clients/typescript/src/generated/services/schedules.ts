// Calls of `Client.schedules`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { DeleteScheduleResponse, ListSchedulesResponse, Schedule } from "../types/schedules.js";

export interface ApplyScheduleParams extends CallOptions {
  dryRun?: boolean;
}

export interface DeleteScheduleParams extends CallOptions {
  tenant?: string;
}

export interface GetScheduleParams extends CallOptions {
  /** For administrators; others see their own tenant's. */
  tenant?: string;
}

export interface ListSchedulesParams extends CallOptions {
  /** For administrators: one tenant's schedules; empty means all. */
  tenant?: string;
  pageSize?: number;
  pageToken?: string;
}

/** `Client.schedules`. */
export class SchedulesService extends Resource {
  /** Creates the schedule or replaces its spec; the caller becomes its owner. Refused where a job of its template would be. */
  async apply(schedule: Schedule, params: ApplyScheduleParams = {}): Promise<Schedule> {
    return this.call(operations.applySchedule, {}, params, schedule);
  }

  /** Its jobs stay, those that run go on. */
  async delete(name: string, params: DeleteScheduleParams = {}): Promise<DeleteScheduleResponse> {
    return this.call(operations.deleteSchedule, { name }, params, undefined);
  }

  /** The call getSchedule of the API. */
  async get(name: string, params: GetScheduleParams = {}): Promise<Schedule> {
    return this.call(operations.getSchedule, { name }, params, undefined);
  }

  /** The call listSchedules of the API. */
  async list(params: ListSchedulesParams = {}): Promise<ListSchedulesResponse> {
    return this.call(operations.listSchedules, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListSchedulesParams, "pageToken"> = {}): Pages<Schedule> {
    return this.pages(operations.listSchedules, {}, params, "schedules");
  }
}
