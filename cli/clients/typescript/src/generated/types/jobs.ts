// Messages of `Client.jobs`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, IsolationPolicy, JobSpec, Metadata, RailReportState, Reason, Role, Submitter } from "./common.js";

/** How an engine carries out one kind of operation, and why. */
export interface AlgorithmChoice {
  /** For example all-reduce. */
  operation?: string;
  /** It was chosen for messages of at most this size, and of more than half of it. */
  bytes?: Int64;
  /** For example direct. */
  algorithm?: string;
  /** Every consideration, the deciding one first. */
  reasons?: string[];
}

export interface ArrayPlace {
  /** Name of the array. */
  array?: string;
  index?: number;
  /** Elements of the array. */
  size?: number;
}

export interface CancelJobRequest {
  tenant?: string;
  /** Overrides the job's grace period. */
  gracePeriod?: string;
  /** If `name` is an array: only these elements, for example "3,7-9"; empty means all. */
  elements?: string;
}

/** What rank 0 of a collective job measured. */
export interface CollectiveResult {
  ranks?: number;
  bytes?: Int64;
  iterations?: number;
  timeUsMin?: number;
  timeUsMedian?: number;
  timeUsMax?: number;
  /** bytes / time, in Gbit/s (1e9). */
  algBwGbps?: number;
  /** As nccl-tests defines it; all-reduce: alg_bw * 2(n-1)/n. */
  busBwGbps?: number;
  /** Every element was checked and right. */
  verified?: boolean;
  mismatches?: Int64;
  /** Sums over the gang's engines. */
  rails?: RailBytes[];
}

/** What was decided of a job, and why. Recorded when the kinds of causes change, and kept for some time. */
export interface Decision {
  time?: string;
  phase?: JobStatusPhase;
  attempt?: number;
  reasons?: Reason[];
  /** Nodes of the placement, and a digest that two equal placements share; 0 and empty without one. */
  nodes?: number;
  placementDigest?: string;
}

export type DeleteJobResponse = Record<string, never>;

/** When a job will probably start. */
export interface Eta {
  start?: string;
  earliest?: string;
  /** Absent where nobody can say: it is behind all that is planned. */
  latest?: string;
  promise?: EtaPromise;
  /**
   * Its start in the plan, if it has a place there and everybody runs as long as allowed. Jobs ahead of it may delay that when they
   * come, or move forward because others end early.
   */
  planned?: string;
}

/** What the job can rely on. */
export type EtaPromise = "ESTIMATE" | "CONSERVATIVE" | "EASY" | "SLACK";

export interface ExplainJobResponse {
  phase?: JobStatusPhase;
  reasons?: Reason[];
  /** Jobs that are ahead of it in the queue. */
  queuePosition?: number;
  infeasible?: boolean;
  /** Of a job that runs: what its servers say of their rails; those where something is amiss come first. */
  rails?: NodeRails[];
  /** Servers that are left out of `rails`, where there are many. */
  railsOmitted?: number;
  /** Of a job that runs: how its operations are carried out. */
  choices?: AlgorithmChoice[];
  /**
   * Of a job that waits: nodes of the cluster, those that it could choose from now, and the most that a gang of its kind
   * could have now.
   */
  nodesTotal?: number;
  nodesFree?: number;
  nodesReach?: number;
  /** Who holds what it waits for, those with the most nodes first. */
  holders?: Holder[];
  /** Further ones. */
  holdersOmitted?: number;
  /** The least that would have to be given up for it to start now, each tried by placing it. */
  relaxations?: Relaxation[];
  /** When it will probably start. */
  eta?: Eta;
  /** With `at`: the decisions up to then, the last one last. */
  decisions?: Decision[];
  /** How much isolation its servers must give: the stricter of the cluster's and its tenant's setting. */
  isolation?: IsolationPolicy;
  /** Who may start before jobs that wait ahead: CONSERVATIVE, EASY, or for example SLACK(30min). */
  backfill?: string;
}

export interface HoldJobRequest {
  tenant?: string;
  /** If `name` is an array: only these elements, for example "3,7-9"; empty means all that have not ended. */
  elements?: string;
  /** For people; at most 1024 bytes. */
  reason?: string;
  /** Made by the client, one per change: a late copy of the same request changes nothing. */
  requestId?: string;
}

/** A job that holds what another one waits for. */
export interface Holder {
  /** Empty where the job is another tenant's and the caller may not see it. */
  tenant?: string;
  job?: string;
  /** Nodes that the waiting job could have if it ended. */
  nodes?: number;
  /** When its time is over, where it has a limit or said how long it will run. */
  until?: string;
}

export interface Job {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Job". */
  kind?: string;
  metadata?: Metadata;
  spec?: JobSpec;
  status?: JobStatus;
}

export interface JobEvent {
  type?: JobEventType;
  job?: Job;
  revision?: Int64;
}

export type JobEventType = "PUT" | "DELETE" | "SYNCED";

/**
 * A job is held: while it waits it keeps its place in the queue, and does not start. One that runs goes on; it is not started again.
 * A suspension is a hold for which what ran was stopped.
 */
export interface JobHold {
  /** ADMIN, TENANT_ADMIN or USER: who has this role, or more, may release it. */
  role?: Role;
  /** Who held it: an administrator's name, or a user of the job's tenant. */
  by?: string;
  /** In their words; may be empty. */
  reason?: string;
  since?: string;
  /** It is a suspension. */
  suspended?: boolean;
}

export interface JobStatus {
  phase?: JobStatusPhase;
  /** Every cause of the present phase. */
  reasons?: Reason[];
  placement?: Placement;
  /** 1 for the first attempt. */
  attempt?: number;
  submitTime?: string;
  /** All ranks of the present attempt have been started. */
  startTime?: string;
  endTime?: string;
  /** One entry for each rank that has ended. */
  exits?: RankExit[];
  result?: CollectiveResult;
  /** W3C trace context of the submit, so that one trace shows the whole life. */
  traceParent?: string;
  /** What a cancel asked for, once it has. */
  cancelRequested?: boolean;
  /** Of which array it is an element. */
  array?: ArrayPlace;
  /** How often it was stopped for another job. */
  preempted?: number;
  /** Attempts that failed and were repeated; `attempt` also counts those that were stopped on purpose. */
  restarts?: number;
  /** Nodes of it that were replaced. */
  replaced?: number;
  /** Of a queued job: when it will probably start. Told by the controller that leads; absent where nobody can say, as of a held job. */
  eta?: Eta;
  /** Who holds it: one entry for each role that does. It does not start while there is one. */
  holds?: JobHold[];
  /** Who submitted it; absent where an earlier release did not say. */
  submitter?: Submitter;
  /** Which schedule has submitted it, by its submitter's authority. */
  schedule?: ScheduledRun;
  /** Attempts before the present one, the oldest first; of many only the last 8. */
  pastAttempts?: PastAttempt[];
}

export type JobStatusPhase = "PENDING" | "RESERVED" | "PREPARING" | "RUNNING" | "RECOVERING" | "COMPLETED" | "FAILED" | "CANCELLED";

/** What one running job uses now: its ranks, its steps and its engines. */
export interface JobUsage {
  tenant?: string;
  job?: string;
  user?: string;
  /** The oldest of what its servers have told. */
  time?: string;
  /** Thousandths of one CPU that are busy, over all its servers. */
  cpuMillis?: Int64;
  /** CPUs that are its alone; 0: it shares what others leave. */
  cpus?: Int64;
  memoryBytes?: Int64;
  /** Memory that is its alone; 0: it shares what others leave. */
  memoryHeldBytes?: Int64;
  processes?: number;
  gpus?: number;
  /** Servers that it has, and those that have told what it uses. */
  nodes?: number;
  nodesReported?: number;
}

export interface ListJobUsageResponse {
  jobs?: JobUsage[];
  nextPageToken?: string;
}

export interface ListJobsResponse {
  jobs?: Job[];
  nextPageToken?: string;
  revision?: Int64;
}

export interface LogChunk {
  rank?: number;
  stream?: LogChunkStream;
  data?: string;
  /** When it was written, if times were asked for and are known. */
  time?: string;
}

export type LogChunkStream = "STDOUT" | "STDERR" | "NOTE";

export interface NicPlace {
  device?: string;
  netdev?: string;
  rail?: number;
  leaf?: string;
  address?: string;
}

export interface NodePlace {
  node?: string;
  pod?: string;
  gpus?: number[];
  /** One entry per rail in use. */
  nics?: NicPlace[];
  /** Its NICs are named by the rails that they were found to be cabled to, not by those that its inventory says. */
  remapped?: boolean;
  /** CPUs of the node that the job holds: how many, not which. */
  cpus?: number;
  /** Bytes of the node's main memory that the job holds. */
  memoryBytes?: Int64;
}

/** What one server of a job has told of its rails. */
export interface NodeRails {
  node?: string;
  rails?: RailReport[];
  /** When it was told; absent if nothing was told yet. */
  time?: string;
}

/** An attempt of a job that has ended, and was followed by another. */
export interface PastAttempt {
  /** 1 for the first attempt. */
  attempt?: number;
  /** All ranks of it had been started; absent where they never were. */
  startTime?: string;
  endTime?: string;
  /** Why it ended. */
  reasons?: Reason[];
  /** Ranks that ended badly, those that did so first; at most 16. */
  exits?: RankExit[];
  /** The servers that it had. */
  nodes?: string[];
}

/** Where the gang runs: nodes, rails, and the rank map. */
export interface Placement {
  nodes?: NodePlace[];
  ranks?: RankPlace[];
  /** Indices of the rails in use. */
  rails?: number[];
  /** Distinct pods. */
  pods?: number;
  /** Why this choice. */
  reasons?: Reason[];
  /** Further nodes that are held idle, to replace those that fail. */
  spares?: NodePlace[];
  /** Weight of the job's traffic that crosses leaves and pods. */
  cut?: Int64;
  /** Nobody else on its nodes. */
  exclusive?: boolean;
  /** Nodes of it were replaced, or rails dropped, since the gang was placed. */
  repaired?: boolean;
}

export interface PlanJobResponse {
  /** It would start at once, here. */
  placement?: Placement;
  /** It would not start at once: every cause. Empty when `placement` is set. */
  reasons?: Reason[];
  /** It could never start on this cluster as it is described now. */
  infeasible?: boolean;
  /** It would wait: when it would probably start. */
  eta?: Eta;
  /** Jobs that would be stopped for it. */
  preempts?: Holder[];
  /** It would wait: who holds what it would wait for. */
  holders?: Holder[];
  holdersOmitted?: number;
  /** It would wait: the least that would have to be given up for it to start now. */
  relaxations?: Relaxation[];
}

export interface RailBytes {
  rail?: number;
  txBytes?: Int64;
  rxBytes?: Int64;
}

/** What one engine says of one rail of its server. */
export interface RailReport {
  rail?: number;
  state?: RailReportState;
  /** Of the state. */
  since?: string;
  txBytes?: Int64;
  rxBytes?: Int64;
  /** Bytes per second since the report before. */
  txRate?: Int64;
  rxRate?: Int64;
  /** How often a link of it was lost. */
  flaps?: number;
  /** Of the last loss, in words; empty if there was none. */
  cause?: string;
  /** Other nodes of the job, and how many of them are reached on it. */
  peers?: number;
  peersUp?: number;
}

export interface RankExit {
  rank?: number;
  /** Exit status of the program; meaningful where `signal` is 0. */
  code?: number;
  /** Signal that ended it; 0 if none did. */
  signal?: number;
  time?: string;
  /** CPU time of the rank and of all that it has started and waited for; absent where its agent does not tell it. */
  cpuTime?: string;
  /** The most memory that the rank and what it has started were seen to have at a time (resident set); 0 where it ended before a look. */
  memoryPeakBytes?: Int64;
}

/** rank -> node -> GPU -> NIC -> rail -> leaf. */
export interface RankPlace {
  rank?: number;
  node?: string;
  localRank?: number;
  gpus?: number[];
  /** The NIC nearest to its GPU. */
  nic?: string;
  rail?: number;
  leaf?: string;
}

/** Changes of a job's file that together would let it start now. No fewer would. */
export interface Relaxation {
  changes?: RelaxationChange[];
  /** What is given up in all, in thousandths of what was asked. */
  amount?: Int64;
}

export interface RelaxationChange {
  /** Path in the file, for example spec.gang.nodes. */
  field?: string;
  from?: string;
  to?: string;
  /** For people. */
  message?: string;
}

export interface ReleaseJobRequest {
  tenant?: string;
  /** If `name` is an array: only these elements; empty means all. */
  elements?: string;
  requestId?: string;
}

export interface RequeueJobRequest {
  tenant?: string;
  /** If `name` is an array: only these elements; empty means all that have not ended. */
  elements?: string;
  /** For people; at most 1024 bytes. */
  reason?: string;
  /** Made by the client, one per change: without one a repeated request stops the next attempt too. */
  requestId?: string;
}

export interface ResumeJobRequest {
  tenant?: string;
  /** If `name` is an array: only these elements; empty means all. */
  elements?: string;
  requestId?: string;
}

/** A run of a schedule. */
export interface ScheduledRun {
  /** The schedule's name, in the job's tenant. */
  schedule?: string;
  /** When it was due. */
  time?: string;
}

export interface SuspendJobRequest {
  tenant?: string;
  /** If `name` is an array: only these elements, for example "3,7-9"; empty means all that have not ended. */
  elements?: string;
  /** For people; at most 1024 bytes. */
  reason?: string;
  /** Made by the client, one per change: a late copy of the same request changes nothing. */
  requestId?: string;
}

/** What is not given stays as it is. */
export interface UpdateJobRequest {
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
