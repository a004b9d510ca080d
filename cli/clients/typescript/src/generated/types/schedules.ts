// Messages of `Client.schedules`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, JobSpec, Metadata, Reason, Submitter } from "./common.js";

export type DeleteScheduleResponse = Record<string, never>;

/** What each run is. */
export interface JobTemplate {
  labels?: Record<string, string>;
  /** No moments: begin_time, start_before and deadline are none of a template. */
  spec?: JobSpec;
}

export interface ListSchedulesResponse {
  schedules?: Schedule[];
  nextPageToken?: string;
  revision?: Int64;
}

export interface Schedule {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Schedule". */
  kind?: string;
  /** A name has at most 48 characters: each run is a job of its own, NAME-YYYYMMDD-HHMM by its time in UTC. */
  metadata?: Metadata;
  spec?: ScheduleSpec;
  status?: ScheduleStatus;
}

export interface ScheduleSpec {
  /**
   * Minute, hour, day of the month, month, day of the week, as cron has them: "* /15 8-18 * * mon-fri"; or @hourly, @daily, @weekly,
   * @monthly, @yearly. Where both days are restricted, one of them is enough.
   */
  cron?: string;
  /**
   * The IANA time zone that these are of, for example "Europe/Berlin"; empty: UTC. A time that a change of the clocks skips comes as
   * much later as is skipped, one that it repeats comes the first time only; where the hour is "*" the clock's own times are taken.
   */
  timeZone?: string;
  jobTemplate?: JobTemplate;
  concurrency?: ScheduleSpecConcurrency;
  /**
   * A run that could not be submitted within this time after its own, since no controller led, is left out; absent: however late. Of
   * several that were missed the last one is submitted, never more.
   */
  startingDeadline?: string;
  /** Nothing is submitted meanwhile, and nothing afterwards for what would have been. */
  suspend?: boolean;
  /**
   * Runs that have completed, and others that have ended, whose records are kept; at most 100 each, default 3 and 1. A record that another
   * job waits for stays.
   */
  completedHistory?: number;
  failedHistory?: number;
}

/** What becomes of a run whose time comes while an earlier one has not ended. */
export type ScheduleSpecConcurrency = "ALLOW" | "FORBID" | "REPLACE";

export interface ScheduleStatus {
  /** When the next run is due; absent while it is suspended. */
  nextRun?: string;
  /** The time of the last run that was submitted, and its job. */
  lastRun?: string;
  lastJob?: string;
  /** Runs that were submitted, and that were left out, since it was made. */
  submitted?: Int64;
  leftOut?: Int64;
  /** The last one that was left out: why, and since its time. */
  lastLeftOut?: Reason;
  /** Jobs, or arrays, of it that have not ended; at most 100 are named. */
  active?: string[];
  /** By whose authority its jobs are submitted: who has applied it last. */
  owner?: Submitter;
  /** What was due until then is dealt with. */
  checkedUntil?: string;
}
