// Messages that several services use. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

/** A 64-bit number: text, as canonical JSON has it. `Number(...)` or `BigInt(...)` reads it. */
export type Int64 = string;

/**
 * Servers that are held for steps (`StepService.RunStep`): on each of them a program of Railyard's own waits until the job is cancelled or
 * its time is over. Either is no failure: the job is then CANCELLED.
 */
export interface Allocation {
  /** Environment of its steps; it wins over what Railyard sets. */
  env?: Record<string, string>;
  /** Where its steps begin. */
  workingDir?: string;
  /** As in Command. */
  envHidden?: boolean;
  /** As in Command. */
  envFrom?: EnvSource[];
}

/** A built-in benchmark of the collective engine. */
export interface Collective {
  op?: CollectiveOp;
  /** Size of one rank's message. */
  bytes?: Int64;
  /** Default F32. */
  dtype?: CollectiveDtype;
  /** Default SUM. */
  reduce?: CollectiveReduce;
  /** Default 10. */
  iterations?: number;
  /** Not timed; default 1. */
  warmup?: number;
  /** Check every element of the result on every rank. */
  verify?: boolean;
}

export type CollectiveDtype = "F32" | "F64" | "I32" | "I64" | "F16" | "BF16";

export type CollectiveOp = "ALL_REDUCE" | "ALL_GATHER" | "REDUCE_SCATTER" | "BROADCAST" | "ALL_TO_ALL" | "BARRIER" | "SEND_RECV";

export type CollectiveReduce = "SUM" | "MIN" | "MAX" | "PROD";

/** Any program, started once per rank. */
export interface Command {
  argv?: string[];
  /** Added to the environment; these win over what Railyard sets. */
  env?: Record<string, string>;
  workingDir?: string;
  /** Set by the controller where the values of `env` are not for whoever reads: they are empty then. Refused in a submit. */
  envHidden?: boolean;
  /**
   * Values of secrets and configs of the job's tenant. They are looked up when an attempt begins, and are in no answer; later entries win
   * over
   * earlier ones, and `env` over all of them.
   */
  envFrom?: EnvSource[];
}

/** Nodes of one shape in a gang, behind those of the components before it. */
export interface Component {
  /** Unique within the job: a DNS label. Its ranks find it in RAIL_COMPONENT, with RAIL_COMPONENT_RANK and RAIL_COMPONENT_SIZE. */
  name?: string;
  /** At least 1. */
  nodes?: number;
  /** As in Gang, of each node of this component. */
  gpusPerNode?: number;
  ranksPerNode?: number;
  cpusPerNode?: number;
  memoryPerNode?: Int64;
  /** As in PlacementRequest, for this component. Empty: what the job's placement says. */
  gpuModel?: string[];
}

export interface DataKey {
  name?: string;
  /** Bytes of its value. */
  size?: number;
  /** The object's generation in which the value was last changed. */
  revision?: Int64;
}

export interface DataRef {
  /** The secret or config, of the job's tenant. */
  name?: string;
  /** One of its keys; empty: all of them. */
  key?: string;
}

export interface DataStatus {
  /** In the order of their names. Viewers see none of a secret's. */
  keys?: DataKey[];
  /** When the values were last changed, and by whom. */
  updateTime?: string;
  updatedBy?: string;
}

export interface Dependency {
  /** Another job of the tenant, or an array: then all its elements. */
  job?: string;
  when?: DependencyWhen;
}

export type DependencyWhen = "SUCCEEDED" | "ENDED" | "STARTED" | "FAILED";

/** How the job's engines carry out its operations, whichever program asks for them. */
export interface EngineOptions {
  /** What goes over the rails carries checksums (CRC32C), and what fails them is sent again; default false. */
  checksum?: boolean;
  /** Floats are equal to the bit whichever algorithm is taken; default true. False permits halving for them. */
  reproducible?: boolean;
  /** Taken wherever it fits: direct, one-shot, ring, halving, relay or doubling. Default: the one that is predicted to be fastest. */
  algorithm?: string;
  /** Queue pairs of each link over RDMA, 1 to 8; default 1. Each takes a way of its own through the fabric (its source port differs). */
  queuePairs?: number;
  /** The cluster may ask for a minimum. */
  protection?: EngineOptionsProtection;
}

/** What is done to what goes over rails between servers, after engines have proved the job's key to each other. The more, the greater. */
export type EngineOptionsProtection = "NONE" | "INTEGRITY" | "ENCRYPTED";

/** Variables whose values are in a secret or a config. */
export interface EnvSource {
  /** The variable. Empty: it is called as its key is. */
  name?: string;
  secretRef?: DataRef;
  configRef?: DataRef;
}

export interface FailurePolicy {
  requeue?: FailurePolicyRequeue;
  /** Default 3 where requeue is asked for. */
  maxRestarts?: number;
  /** By what failed nodes are replaced while the healthy ones keep their places. */
  replace?: FailurePolicyReplace;
  /** Nodes replaced at most, over the whole life of the job; default 3 where `replace` is asked for. */
  maxReplacements?: number;
  onRailLoss?: FailurePolicyRailLoss;
}

export type FailurePolicyRailLoss = "CONTINUE" | "MOVE" | "FAIL";

export type FailurePolicyReplace = "NOTHING" | "SPARES" | "ANY";

export type FailurePolicyRequeue = "NEVER" | "ON_INFRASTRUCTURE" | "ON_ANY";

/** All the tasks of the job; placed and started together or not at all. */
export interface Gang {
  /** At least 1. */
  nodes?: number;
  /** 0 takes no GPU. */
  gpusPerNode?: number;
  /** Default: one rank per GPU, or 1 without GPUs; 1 for a collective. */
  ranksPerNode?: number;
  /**
   * It starts with so many nodes at least, and grows to `nodes` when there are more; for a waiting job it gives up what it
   * has beyond that. Each change is a restart, with its grace and signal. Default: all of them.
   */
  minNodes?: number;
  /**
   * CPUs (logical processors) of each node that are the job's alone. 0: none are asked for, and it shares what others leave. A node
   * whose agent does not tell its CPUs has none to give.
   */
  cpusPerNode?: number;
  /**
   * Bytes of main memory of each node that are the job's alone; its ranks there get no more. 0: none is asked for, and it shares what
   * others leave. A node whose agent does not tell its memory has none to give.
   */
  memoryPerNode?: Int64;
}

/** How much isolation jobs must have. */
export type IsolationPolicy = "BEST_EFFORT" | "REQUIRED";

export interface JobSpec {
  gang?: Gang;
  rails?: RailRequest;
  /** Higher goes first; -1000..1000, default 0. Above 0 only as far as the submitter's role or the job's service class allows. */
  priority?: number;
  /** The job is ended when it has run this long; absent means no limit. */
  timeLimit?: string;
  /** Between SIGTERM and SIGKILL; default 10 s. */
  gracePeriod?: string;
  failure?: FailurePolicy;
  engine?: EngineOptions;
  command?: Command;
  collective?: Collective;
  /** Where; default: anywhere, close together. */
  placement?: PlacementRequest;
  /** One of the tenant's queues; empty: the tenant itself. */
  queue?: string;
  /** How long it will probably run, for plans of the queue; default: time_limit. */
  expectedDuration?: string;
  /** Not before this. */
  beginTime?: string;
  /** Inside this reservation only. */
  reservation?: string;
  /** Not before all of these have come so far. */
  after?: Dependency[];
  /**
   * Many jobs of this kind, as Slurm writes them: "0-99:2,200%8". At most 10000 elements; each is a job of its own, NAME-INDEX,
   * that finds its index in RAIL_ARRAY_INDEX.
   */
  array?: string;
  /** How it may be stopped for another. */
  preemption?: Preemption;
  /**
   * What its gang is to pass before its ranks start, at least; default: what the controller asks of all jobs. A job may ask for more
   * than that, never for less.
   */
  certification?: JobSpecCertification;
  /** Its service class; of a job that was taken the one that it is of. Default: the default class that fits it best, if there is one. */
  serviceClass?: string;
  /** It has failed if it has not started by then. */
  startBefore?: string;
  /**
   * It must have ended by then: it starts no later than leaves room for its `time_limit` (without one, for its `expected_duration`),
   * has failed if it could not, and is ended if it runs.
   */
  deadline?: string;
  /** How many of which licenses it holds while it runs, whatever its number of nodes; at most 16 of them, each at least 1. */
  licenses?: Record<string, number>;
  allocation?: Allocation;
  /**
   * The parts of a gang whose nodes are not all alike, in rank order, at most 8. All start together or not at all, on the same rails. With
   * them `gang` is left out, or says no more than how many nodes they have in all; there are no spares, no groups, and no elastic gang.
   */
  components?: Component[];
}

export type JobSpecCertification = "WARN" | "REQUIRE";

/** What every resource carries about itself. */
export interface Metadata {
  /**
   * Unique among resources of its kind (within its tenant, for jobs). Lower-case letters, digits and '-',
   * at most 63 characters; node names may contain dots.
   */
  name?: string;
  /** The tenant that owns it; set by the controller from the caller's identity, never taken from the body. */
  tenant?: string;
  /** Set by the controller; never reused. */
  uid?: string;
  /** Free key/value pairs of the user. */
  labels?: Record<string, string>;
  /** Counts changes of `spec`. */
  generation?: Int64;
  /** The store's revision of the last change, spec or status. */
  resourceVersion?: Int64;
  createTime?: string;
  /** If `name` is empty, the controller makes one: this prefix and a short random suffix. */
  generateName?: string;
}

/** The words of a cause for those who may know whose thing it is about. */
export interface NamedReason {
  /** The tenants whose people may; administrators always may. */
  tenants?: string[];
  message?: string;
  scope?: string;
}

/** What a job asks of its place, beside the number of nodes. */
export interface PlacementRequest {
  /** Where the whole gang stays; default FABRIC. */
  within?: PlacementRequestWithin;
  groups?: PlacementRequestGroup[];
  arrange?: PlacementRequestArrange;
  pattern?: PlacementRequestPattern;
  /** Of PIPELINE: nodes of a stage. */
  stageNodes?: number;
  /** Nobody else on its nodes. */
  exclusive?: boolean;
  /** Further nodes that are held idle for it, to replace those that fail; at most as many as it has. */
  spares?: number;
  /** Conditions on the labels of its nodes; all must hold. */
  selector?: SelectorTerm[];
  /** Taints that it puts up with. */
  tolerations?: Toleration[];
  /** Nodes that it does not want: names, or lists such as gpu[001-064]. */
  exclude?: string[];
  /**
   * Models of GPU of which any will do, for example H100, or "H100 80GB": words that follow one another in what the driver calls the
   * GPU, in upper or lower case. A node whose agent does not tell the model of its GPUs is none of them. Empty: any GPU.
   */
  gpuModel?: string[];
  /** The only nodes that it may have: names, or lists such as gpu[001-064]; at least as many as it has, with its spares. Empty: any. */
  nodes?: string[];
}

export type PlacementRequestArrange = "PACK" | "SPREAD";

/** Nodes of consecutive ranks that belong together. */
export interface PlacementRequestGroup {
  /** Nodes; divides the gang, and the other groups' sizes. */
  size?: number;
  /** LEAVES or POD; default POD. */
  within?: PlacementRequestWithin;
  /** The gang rather waits than split a group. Default: it is a preference. */
  required?: boolean;
}

export type PlacementRequestPattern = "RING" | "ALL_TO_ALL" | "PIPELINE";

export type PlacementRequestWithin = "LEAVES" | "POD" | "FABRIC";

export interface Preemption {
  /** A job of higher priority may take its place. Default: true below priority 0. What is borrowed is given back in any case. */
  preemptible?: boolean;
  /** Between the signal and SIGKILL; default: the job's grace period. */
  gracePeriod?: string;
  /** What its ranks get first: SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGUSR1, SIGUSR2, SIGTERM or SIGCONT. Default SIGTERM. */
  signal?: string;
  /** It saves its work so often: no more than this is lost. Default: all since its start is. */
  checkpointEvery?: string;
  /** What a restart costs beside the lost work. */
  restartCost?: string;
}

export type QosPortState = "HELD" | "TRIAL" | "KEPT" | "DIFFERS" | "FAILED";

export type RailReportState = "UP" | "DRAINING" | "DRAINED" | "DOWN" | "PROVING";

export interface RailRequest {
  /** Rails that every node of the gang must have usable; 0 means all rails of the fabric. */
  required?: number;
  /**
   * True: any `required` rails that all nodes share will do, and once it runs it may go on with fewer (`on_rail_loss`).
   * It never starts with fewer: for a start while a rail is dead on all nodes, require fewer. False: rails 0..required-1.
   */
  allowPartial?: boolean;
  /** No rail at all: a job of one node that holds no NIC. */
  none?: boolean;
  avoidDrained?: RailRequestAvoidDrained;
}

/** Whether the job may start on rails that are drained. */
export type RailRequestAvoidDrained = "PREFERRED" | "REQUIRED";

/** One cause of a state, for people and for programs. */
export interface Reason {
  /** UpperCamelCase, stable; for example GpuCapacity, QuotaExceeded, RankExited. */
  code?: string;
  /** One sentence: what, where, what to do. */
  message?: string;
  /** How many objects this cause concerns (nodes, rails, ranks); 0 where counting makes no sense. */
  count?: number;
  /** What the cause is about, for example "node/n3", "rail/2", "tenant/nlp". */
  scope?: string;
  since?: string;
  /**
   * What the controller keeps of a cause that names somebody's thing. Never in an answer: whoever may know it is told so by `message` and
   * `scope`, all others read there that it is another tenant's.
   */
  named?: NamedReason;
}

/** What a caller may do. Anything that the table of roles does not name is denied. */
export type Role = "ADMIN" | "TENANT_ADMIN" | "USER" | "VIEWER" | "NODE" | "SWITCH";

/** One condition on a node's labels, or several of which one is enough. */
export interface SelectorTerm {
  key?: string;
  operator?: SelectorTermOperator;
  values?: string[];
  /** Conditions of which one is enough; then nothing else is given, and none of them has `any_of` itself. */
  anyOf?: SelectorTerm[];
}

export type SelectorTermOperator = "IN" | "NOT_IN" | "EXISTS" | "ABSENT";

/** Quota by usable shape. */
export interface Shape {
  /** Whole pods. */
  pods?: number;
  /** Whole nodes beside them. */
  nodes?: number;
  /** Single GPUs beside them. */
  gpus?: number;
}

/** Who has submitted a job. */
export interface Submitter {
  /** ADMIN, TENANT_ADMIN or USER. */
  role?: Role;
  /** An administrator's name, or a user of the job's tenant. */
  user?: string;
}

/** A taint that a job puts up with. */
export interface Toleration {
  /** Absent: every key. */
  key?: string;
  /** Absent: every value. */
  value?: string;
}
