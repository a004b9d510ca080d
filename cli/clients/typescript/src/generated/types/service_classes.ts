// Messages of `Client.serviceClasses`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, Metadata } from "./common.js";

export interface ClassPreemption {
  /** Whether jobs of lower priority may be stopped for jobs of this class; default true. */
  preempts?: boolean;
  /** Whether its jobs may be stopped for others, whatever they say themselves; absent: as they say. */
  preemptible?: boolean;
  /** Between signal and SIGKILL where a job does not say; absent: its grace period. */
  gracePeriod?: string;
}

export type DeleteServiceClassResponse = Record<string, never>;

export interface JobLimits {
  /** Absent: -1000. */
  priorityMin?: number;
  /** Absent: as high as the submitter's role may go without a class. */
  priorityMax?: number;
  /** Of jobs that give none, or 0. */
  priorityDefault?: number;
  /** The longest `timeLimit`; a job without a limit has none that is short enough. */
  timeLimitMax?: string;
  /** Of jobs that give none; absent: `time_limit_max`. */
  timeLimitDefault?: string;
  /** Nodes of a job, its spares too; absent: any number. */
  nodesMax?: number;
  /** GPUs of a job on all its nodes, its spares too. */
  gpusMax?: number;
  /** The longest `gracePeriod`, also of preemption. */
  gracePeriodMax?: string;
}

export interface ListServiceClassesResponse {
  serviceClasses?: ServiceClass[];
  nextPageToken?: string;
  revision?: Int64;
}

export interface ServiceClass {
  /** "rail/v1". */
  apiVersion?: string;
  /** "ServiceClass". */
  kind?: string;
  metadata?: Metadata;
  spec?: ServiceClassSpec;
  status?: ServiceClassStatus;
}

export interface ServiceClassMembers {
  tenants?: string[];
  /** TENANT/QUEUE; those within it too. */
  queues?: string[];
  /** TENANT/USER. */
  users?: string[];
  /** ADMIN, TENANT_ADMIN or USER. */
  roles?: string[];
}

/**
 * A job is of one class or of none. It names it (`serviceClass`), or is of the default class that fits it best: first one that names its
 * user, then its queue, then its submitter's role, then its tenant, then one for everybody; of several the first by name.
 */
export interface ServiceClassSpec {
  description?: string;
  /** Whose jobs may be of it: all that is given must hold. Nothing given: everybody's. */
  members?: ServiceClassMembers;
  /** Jobs of its members that name no class are of it. */
  defaultClass?: boolean;
  /** Of one job. Administrators of the cluster may go beyond it. */
  job?: JobLimits;
  /** Of all jobs of one user in this class. */
  user?: UserLimits;
  preemption?: ClassPreemption;
}

export interface ServiceClassStatus {
  /** Its jobs that wait. */
  jobsWaiting?: number;
  /** Its jobs that hold a place. */
  jobsRunning?: number;
  /** GPUs that they hold. */
  gpusUsed?: number;
}

export interface UserLimits {
  /** Jobs that hold a place at once; absent: any number. */
  jobsRunning?: number;
  /** Jobs that wait; a further one is refused. */
  jobsWaiting?: number;
  /** GPUs that they hold at once. */
  gpus?: number;
}
