// Messages of `Client.queues`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, Metadata, Shape } from "./common.js";

export type DeleteQueueResponse = Record<string, never>;

export interface ListQueuesResponse {
  queues?: Queue[];
  nextPageToken?: string;
  revision?: Int64;
}

export interface ListSharesResponse {
  /** Each tenant, then its queues. */
  shares?: Share[];
  /** Use counts half after this time. */
  halfLife?: string;
}

export interface Queue {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Queue". */
  kind?: string;
  metadata?: Metadata;
  spec?: QueueSpec;
  status?: QueueStatus;
}

export interface QueueOrder {
  standings?: QueueStanding[];
  /** Jobs that wait in all. */
  waiting?: number;
  /** Tenants that used less of late go first among jobs of equal priority. */
  fairShare?: boolean;
}

export interface QueueSpec {
  /** The queue that it is part of; empty: right below the tenant. */
  parent?: string;
  /** What its jobs can always have; part of its parent's. */
  guaranteed?: Shape;
  /** GPUs that its jobs hold at most, borrowed ones too; absent: as many as are free. */
  limit?: number;
  /** Share of what is free, against its siblings' weights; default 1. */
  weight?: number;
  objective?: QueueSpecObjective;
  /**
   * Of MEAN_WAIT and LARGE_FIRST: jobs that come so long after another at most may go ahead of it for the objective;
   * absent: 1 day for MEAN_WAIT, 8 days for LARGE_FIRST. At most 90 days.
   */
  patience?: string;
  /**
   * Of MEAN_WAIT and LARGE_FIRST: a job that asks for so many GPU-hours (its GPUs x its expected duration, or its time limit)
   * or more goes as if it had come later by all of the patience, one of fewer by the square of its part of them: of half as many
   * by a quarter of the patience. Of MEAN_WAIT in place of by its length; of LARGE_FIRST beside by its GPUs, in all at most by
   * the patience. Absent: GPU-hours do not count.
   */
  fullDelayGpuHours?: number;
}

/** What the order of waiting jobs is for, among those of equal priority. */
export type QueueSpecObjective = "MEAN_WAIT" | "LARGE_FIRST" | "FAIR";

/** Why a waiting job stands where it does; factors are compared from the first to the last. */
export interface QueueStanding {
  /** 1 is the first. */
  position?: number;
  tenant?: string;
  job?: string;
  queue?: string;
  serviceClass?: string;
  /** It has a right to run, by its tenant's guarantee: such jobs go first. */
  entitled?: boolean;
  /** Higher goes first. */
  priority?: number;
  /** GPU-hours that its tenant has used of late against its weight, with those of jobs that run and that are ahead; less goes first. */
  tenantShare?: number;
  /** Its queue holds less than its guarantee: such queues of a tenant go first. */
  belowGuarantee?: boolean;
  /** As `tenant_share`, of its queue, or of the tenant's jobs that are in none. */
  queueShare?: number;
  /** Older goes first. */
  submitTime?: string;
  /** It goes as if it had been submitted so much earlier, for its size. */
  headStart?: string;
  /** It does not start whatever room there is: it is held, or waits for another job, a turn or a time. */
  held?: boolean;
}

export interface QueueStatus {
  /** GPUs that its jobs hold, those of queues within it too. */
  gpusUsed?: number;
  /** Its jobs that have not ended, those of queues within it too. */
  jobsActive?: number;
}

export interface Share {
  tenant?: string;
  /** Empty: the tenant as a whole. */
  queue?: string;
  weight?: number;
  /** GPU-hours of jobs that have ended; what is long ago counts less. */
  usedGpuHours?: number;
  /** `used_gpu_hours` against `weight`: who has less goes first. */
  normalized?: number;
  /** GPUs that its jobs hold, those of queues within it too. */
  gpusHeld?: Int64;
  /** GPUs that it can always have. */
  gpusGuaranteed?: Int64;
  jobsWaiting?: number;
  jobsRunning?: number;
}
