// Calls of `Client.jobs`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions, WatchOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages, Records } from "../../resource.js";
import type { Watch } from "../../watch.js";
import { operations } from "../operations.js";
import type { Int64 } from "../types/common.js";
import type { DeleteJobResponse, ExplainJobResponse, Job, JobEvent, JobStatusPhase, JobUsage, ListJobUsageResponse, ListJobsResponse, LogChunk, PlanJobResponse } from "../types/jobs.js";

export interface CancelJobParams extends CallOptions {
  tenant?: string;
  /** Overrides the job's grace period. */
  gracePeriod?: string;
  /** If `name` is an array: only these elements, for example "3,7-9"; empty means all. */
  elements?: string;
}

export interface CreateJobParams extends CallOptions {
  /** Made by the client, one per submit: the same id and body give the same job again; another body is refused. */
  requestId?: string;
  /** Administrators may act for a tenant; everybody else's tenant is that of their certificate or token. */
  onBehalfOf?: string;
  /** It is held by its submitter from the beginning, as by HoldJob: it does not start until it is released. */
  hold?: boolean;
}

export interface DeleteJobParams extends CallOptions {
  tenant?: string;
  /** If `name` is an array: only these elements; empty means all. */
  elements?: string;
}

export interface ExplainJobParams extends CallOptions {
  tenant?: string;
  /** What was so at this time, from the decision log; absent means now. */
  at?: string;
}

export interface GetJobParams extends CallOptions {
  /** For administrators; others see their own tenant's. */
  tenant?: string;
}

export interface HoldJobParams extends CallOptions {
  tenant?: string;
  /** If `name` is an array: only these elements, for example "3,7-9"; empty means all that have not ended. */
  elements?: string;
  /** For people; at most 1024 bytes. */
  reason?: string;
  /** Made by the client, one per change: a late copy of the same request changes nothing. */
  requestId?: string;
}

export interface ListJobUsageParams extends CallOptions {
  /** For administrators: one tenant's jobs; empty means all. */
  tenant?: string;
  /** At most this many; 0 means the server's limit. */
  pageSize?: number;
  pageToken?: string;
}

export interface ListJobsParams extends CallOptions {
  /** For administrators: one tenant's jobs; empty means all. */
  tenant?: string;
  /** Only these phases; empty means all. */
  phases?: JobStatusPhase[];
  pageSize?: number;
  pageToken?: string;
  /** Only elements of this array. */
  array?: string;
  /** Only jobs of this queue. */
  queue?: string;
}

export interface PlanJobParams extends CallOptions {
  onBehalfOf?: string;
}

export interface ReleaseJobParams extends CallOptions {
  tenant?: string;
  /** If `name` is an array: only these elements; empty means all. */
  elements?: string;
  requestId?: string;
}

export interface RequeueJobParams extends CallOptions {
  tenant?: string;
  /** If `name` is an array: only these elements; empty means all that have not ended. */
  elements?: string;
  /** For people; at most 1024 bytes. */
  reason?: string;
  /** Made by the client, one per change: without one a repeated request stops the next attempt too. */
  requestId?: string;
}

export interface ResumeJobParams extends CallOptions {
  tenant?: string;
  /** If `name` is an array: only these elements; empty means all. */
  elements?: string;
  requestId?: string;
}

export interface StreamLogsParams extends CallOptions {
  tenant?: string;
  /** Only these ranks; empty means all. */
  ranks?: number[];
  /** Go on until the job ends. */
  follow?: boolean;
  /** Only the last so many lines of each rank; 0 means all that is kept. */
  tailLines?: number;
  /** Of this attempt only; 0 means the present one, and where the job is followed all that come after it. */
  attempt?: number;
  /** Only what was written then or later. What an earlier release of the agent has kept has no time, and is told whole. */
  since?: string;
  /** Chunks tell when their bytes were written, and hold no bytes of another time. */
  timestamps?: boolean;
}

export interface SuspendJobParams extends CallOptions {
  tenant?: string;
  /** If `name` is an array: only these elements, for example "3,7-9"; empty means all that have not ended. */
  elements?: string;
  /** For people; at most 1024 bytes. */
  reason?: string;
  /** Made by the client, one per change: a late copy of the same request changes nothing. */
  requestId?: string;
}

export interface UpdateJobParams extends CallOptions {
  tenant?: string;
  /** If `name` is an array: only these elements; empty means all that have not ended. */
  elements?: string;
  /** Refused unless this is the job's resource version; 0: whatever it is. Not for several elements. */
  ifVersion?: Int64;
  requestId?: string;
  /** Of a job that waits. */
  priority?: number;
  timeLimit?: string;
  /** No limit any more; not with `time_limit`. */
  noTimeLimit?: boolean;
  /** Of a job that waits: one of the tenant's queues; empty: the tenant itself. */
  queue?: string;
  /** Of a job that waits: nodes that it wants. Without `min_nodes` it is exactly so many. */
  nodes?: number;
  /** Of a job that waits: it starts with so many at least. */
  minNodes?: number;
  /** Labels that are set, also of a job that runs or has ended. The job keeps those that it has. */
  setLabels?: Record<string, string>;
  /** Labels that are taken away, in the same jobs; one that is not there is no error. */
  removeLabels?: string[];
}

export interface WatchJobsParams extends WatchOptions {
  tenant?: string;
  /** One job; empty means all. */
  name?: string;
  afterRevision?: Int64;
  /** Only elements of this array; not together with `name`. */
  array?: string;
}

/** `Client.jobs`. */
export class JobsService extends Resource {
  /** The call cancelJob of the API. */
  async cancel(name: string, params: CancelJobParams = {}): Promise<Job> {
    return this.call(operations.cancelJob, { name }, params, undefined);
  }

  /** Repeated with the same request id, it gives the same job again. */
  async create(job: Job, params: CreateJobParams = {}): Promise<Job> {
    return this.call(operations.createJob, {}, params, job);
  }

  /** Removes a job that has ended. */
  async delete(name: string, params: DeleteJobParams = {}): Promise<DeleteJobResponse> {
    return this.call(operations.deleteJob, { name }, params, undefined);
  }

  /** Why the job is in its phase: the causes that the scheduler gave. */
  async explain(name: string, params: ExplainJobParams = {}): Promise<ExplainJobResponse> {
    return this.call(operations.explainJob, { name }, params, undefined);
  }

  /** The call getJob of the API. */
  async get(name: string, params: GetJobParams = {}): Promise<Job> {
    return this.call(operations.getJob, { name }, params, undefined);
  }

  /**
   * Keeps a job, an array's elements or some of them from starting; what runs goes on, and is held if it is queued again. Repeated, it
   * changes nothing.
   */
  async hold(name: string, params: HoldJobParams = {}): Promise<Job> {
    return this.call(operations.holdJob, { name }, params, undefined);
  }

  /** What running jobs use now, as the agents of their servers told it last. */
  async listUsage(params: ListJobUsageParams = {}): Promise<ListJobUsageResponse> {
    return this.call(operations.listJobUsage, {}, params, undefined);
  }

  /** All rows of `listUsage`, page by page. */
  listUsageAll(params: Omit<ListJobUsageParams, "pageToken"> = {}): Pages<JobUsage> {
    return this.pages(operations.listJobUsage, {}, params, "jobs");
  }

  /** The call listJobs of the API. */
  async list(params: ListJobsParams = {}): Promise<ListJobsResponse> {
    return this.call(operations.listJobs, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListJobsParams, "pageToken"> = {}): Pages<Job> {
    return this.pages(operations.listJobs, {}, params, "jobs");
  }

  /** What would happen if the job were submitted now; writes nothing. */
  async plan(job: Job, params: PlanJobParams = {}): Promise<PlanJobResponse> {
    return this.call(operations.planJob, {}, params, job);
  }

  /** Takes back what holds or suspends a job, as far as the caller may: a user does not release what an administrator holds. */
  async release(name: string, params: ReleaseJobParams = {}): Promise<Job> {
    return this.call(operations.releaseJob, { name }, params, undefined);
  }

  /**
   * Stops a job, an array's elements or some of them, as a preemption would, and queues them again at once. It counts as no failure and
   * no restart. One that waits stays as it is.
   */
  async requeue(name: string, params: RequeueJobParams = {}): Promise<Job> {
    return this.call(operations.requeueJob, { name }, params, undefined);
  }

  /** Takes back what suspends or holds a job, as ReleaseJob does: it is queued again, and starts as a new attempt. */
  async resume(name: string, params: ResumeJobParams = {}): Promise<Job> {
    return this.call(operations.resumeJob, { name }, params, undefined);
  }

  /** The call streamLogs of the API. */
  streamLogs(name: string, params: StreamLogsParams = {}): Records<LogChunk> {
    return this.records(operations.streamLogs, { name }, params);
  }

  /**
   * Stops a job, an array's elements or some of them, as a preemption would (the same signal and grace period), and holds them: what they
   * had is free for others, they keep their age in the queue, and wait until they are resumed. It counts as no failure and no restart. One
   * that waits is held. Repeated, it changes nothing.
   */
  async suspend(name: string, params: SuspendJobParams = {}): Promise<Job> {
    return this.call(operations.suspendJob, { name }, params, undefined);
  }

  /**
   * Changes a job: of one that waits all that the request can name, of one that runs its time limit, which users may shorten and
   * administrators extend, and of any its labels.
   */
  async update(name: string, params: UpdateJobParams = {}): Promise<Job> {
    return this.call(operations.updateJob, { name }, params, undefined);
  }

  /** The call watchJobs of the API. */
  watch(params: WatchJobsParams = {}): Watch<JobEvent> {
    return this.watching(operations.watchJobs, {}, params);
  }
}
