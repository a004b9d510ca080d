// Messages of `Client.usage`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64 } from "./common.js";

export interface ListUsageRecordsResponse {
  records?: UsageRecord[];
  /** A page may be short, also empty; the list ends where this is empty. */
  nextPageToken?: string;
  /** Up to when attempts that still hold are counted, on all pages of the list. */
  asOf?: string;
}

export type SumUsageRequestBy = "TENANT" | "QUEUE" | "USER" | "JOB";

export interface SumUsageResponse {
  /** Those with the most GPU time first. */
  sums?: UsageSum[];
  /** Of all, also of those that are left out. */
  total?: UsageSum;
  /** Groups that are left out. */
  leftOut?: Int64;
  /** Up to when attempts that still hold are counted. */
  asOf?: string;
  /**
   * Of attempts that ended before this time records may be missing, later ones have all: the end of the oldest record of the tenant that
   * was
   * asked for, whatever its queue and user. Of all tenants the latest of these times: ask for one tenant to know its own. Absent: no record
   * is kept.
   */
  oldestEndTime?: string;
}

/** How much was held for how long, in milliseconds times what was held: whole numbers, which add up. */
export interface UsageAmount {
  /** Milliseconds that attempts held anything. */
  heldMs?: Int64;
  /** Servers, spares included. */
  nodeMs?: Int64;
  gpuMs?: Int64;
  nicMs?: Int64;
  /** Rails of a gang, however many servers it had. */
  railMs?: Int64;
  cpuMs?: Int64;
  /** Of `gpu_ms` what passed before all ranks had been started: engines, certification, or all of it where they never were. */
  startupGpuMs?: Int64;
}

/**
 * What one attempt of a job held, and why it ended. What is counted is what was reserved: servers, GPUs and NICs are the attempt's from its
 * placement until every server has confirmed the end, whether its ranks use them or not. All of it stays the same within an attempt: a job
 * that
 * goes on with another size, or elsewhere, goes on in another attempt.
 */
export interface UsageRecord {
  tenant?: string;
  /** A later tenant with the same name has another. */
  tenantUid?: string;
  job?: string;
  /** A later job with the same name has another. */
  jobUid?: string;
  /** Counted from 1. */
  attempt?: number;
  /** Empty: the tenant itself. */
  queue?: string;
  serviceClass?: string;
  priority?: number;
  /** Who submitted the job; empty where that is not known. */
  user?: string;
  /** Servers with ranks. */
  nodes?: number;
  /** Further servers that were held idle, to replace those that fail. */
  spares?: number;
  /** On all servers. */
  gpus?: Int64;
  /** On all servers, one for each rail and server. */
  nics?: Int64;
  /** Rails that the gang was given. */
  rails?: number;
  /** CPUs that were its alone, on all servers. */
  cpus?: Int64;
  /** Bytes of main memory that were its alone, on all servers. */
  memoryBytes?: Int64;
  /** What the job asked for; an elastic one may hold less. Servers without spares, GPUs with theirs. */
  nodesAsked?: number;
  gpusAsked?: Int64;
  submitTime?: string;
  /** When the attempt got its place: from then on it held. */
  placeTime?: string;
  /** When all its ranks had been started; absent: never. */
  startTime?: string;
  /** When it gave back what it held; absent while it has not. */
  endTime?: string;
  end?: UsageRecordEnd;
  /** The code of the first cause of its end; empty where there was none. */
  reason?: string;
  /** What it held of all that within the interval that was asked for. */
  amount?: UsageAmount;
}

export type UsageRecordEnd = "RUNNING" | "COMPLETED" | "FAILED" | "CANCELLED" | "REQUEUED" | "PREEMPTED" | "MOVED";

/** What was held by those that are alike in what is summed over. */
export interface UsageSum {
  /** Empty in the total. */
  tenant?: string;
  tenantUid?: string;
  /** Where queues are summed over: empty is the tenant itself. */
  queue?: string;
  /** Where users are summed over: empty is not known. */
  user?: string;
  /** Where jobs are summed over. */
  job?: string;
  jobUid?: string;
  attempts?: Int64;
  /** Of these, attempts that still hold what they got. */
  attemptsRunning?: Int64;
  amount?: UsageAmount;
}
