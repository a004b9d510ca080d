// Messages of `Client.switches`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, Metadata, Reason } from "./common.js";

export interface ControlSwitchRolloutRequest {
  action?: ControlSwitchRolloutRequestAction;
  reason?: string;
}

export type ControlSwitchRolloutRequestAction = "PAUSE" | "RESUME" | "ROLL_BACK" | "CANCEL";

export interface CreateSwitchTokenRequest {
  /** Default and at most 10 minutes. */
  lifetime?: string;
}

export interface CreateSwitchTokenResponse {
  /** Shown once; only its hash is kept. */
  token?: string;
  /** SHA-256 of the CA's public key, by which the joining switch knows the controller. */
  caPin?: string;
  expires?: string;
}

export type DeleteSwitchResponse = Record<string, never>;

export interface ListSwitchesResponse {
  switches?: Switch[];
  nextPageToken?: string;
  revision?: Int64;
}

export interface RenderSwitchResponse {
  files?: SwitchFile[];
}

export interface RollOutSwitchesRequest {
  reason?: string;
  /** The leaf that is first; empty: one that few jobs use. */
  canary?: string;
  /**
   * 10 s to 1 hour. Default 60 s, or 300 s where a change is one that a switch puts in place by loading its whole database (impact REBOOT).
   */
  confirmWithin?: string;
  /** Default 10 s; less than `confirm_within`. */
  soak?: string;
  /** Switches out of use at a time; default 1, at most 64. Two that serve one server are never out of use together. */
  atOnce?: number;
  /** Also where a job loses its last rail. */
  force?: boolean;
}

/**
 * A switch of the fabric. What it is cabled to, its tier, rails, pod and plane stand in the fabric document under the same name; this says
 * what it is and how it is reached.
 */
export interface Switch {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Switch". */
  kind?: string;
  metadata?: Metadata;
  spec?: SwitchSpec;
  status?: SwitchStatus;
}

/** A switch that is being changed, or on which the rollout waits. */
export interface SwitchActive {
  name?: string;
  configuration?: SwitchStatusConfiguration;
  /** What it waits for. */
  note?: string;
}

export interface SwitchChange {
  difference?: SwitchDifference;
  impact?: SwitchPlanStepImpact;
  /** Why it does that to traffic. */
  why?: string;
}

/** One setting that is not as desired. */
export interface SwitchDifference {
  /** The file that it stands in, for example config_db.json. */
  file?: string;
  /** Which setting: a path in the file, or a line's context. */
  path?: string;
  /** As desired; empty: it should not be there. */
  desired?: string;
  /** As read back; empty: it is missing. */
  found?: string;
}

/** One file of a switch's configuration. */
export interface SwitchFile {
  /** For example config_db.json or frr.conf. */
  name?: string;
  content?: string;
}

/** A management endpoint that speaks gNMI. */
export interface SwitchManagement {
  /** HOST:PORT. */
  endpoint?: string;
  /** The name of the folder, where its agent runs, with who calls it: never the credential itself. */
  credential?: string;
}

export interface SwitchPlan {
  /** Every switch has its configuration: nothing would begin. */
  unchanged?: boolean;
  canary?: string;
  stages?: SwitchPlanStage[];
  /** Those that would change, in the order of the stages; at most 1000. */
  switches?: SwitchPlanStep[];
  switchesTotal?: number;
  /** Jobs that use one of these switches. */
  jobs?: number;
  atLeast?: string;
}

export interface SwitchPlanStage {
  name?: string;
  switches?: number;
  silent?: number;
  atOnce?: number;
  steps?: number;
}

export interface SwitchPlanStep {
  stage?: string;
  name?: string;
  /** Of the worst of its changes. */
  impact?: SwitchPlanStepImpact;
  /** At most 32. */
  changes?: SwitchChange[];
  changesTotal?: number;
  /** Jobs whose traffic crosses it, by TENANT/NAME; at most 8. */
  jobs?: string[];
  /** What it would wait for; may be empty. */
  note?: string;
}

/** What a change does to traffic, from the least to the most. */
export type SwitchPlanStepImpact = "HITLESS" | "QUEUE_DRAIN" | "LINK_FLAP" | "TRAFFIC_LOSS" | "DAEMON_RESTART" | "REBOOT";

/** What is known of one port. */
export interface SwitchPort {
  /** As the operating system has it, for example Ethernet8. */
  name?: string;
  /** Length of its cable in metres; 0: as the switch says. */
  cableM?: number;
  /** What the cable or module is, for people. */
  optics?: string;
}

/** One port, as the switch counts it. Counters grow from the switch's start. */
export interface SwitchPortStatus {
  name?: string;
  /** Its link is up. */
  up?: boolean;
  /** Mbit/s; 0: not known. */
  speedMbps?: Int64;
  mtu?: number;
  /** Who is at the other end, by LLDP; empty: nobody says. */
  neighbor?: string;
  neighborPort?: string;
  rxBytes?: Int64;
  txBytes?: Int64;
  rxErrors?: Int64;
  txDrops?: Int64;
  /** How often the link came or went. */
  linkChanges?: Int64;
  /** By priority; those without any are absent. */
  priorities?: SwitchPriorityCounters[];
  fecUncorrectable?: Int64;
}

/** Counters of one priority of one port. */
export interface SwitchPriorityCounters {
  priority?: number;
  pauseRx?: Int64;
  pauseTx?: Int64;
  /** Microseconds that it was paused by its peer, and that it paused its peer; 0 where the switch does not count them. */
  pausedRxUs?: Int64;
  pausedTxUs?: Int64;
  /** Packets with ECN's congestion mark. */
  ecnMarked?: Int64;
  drops?: Int64;
  /** Bytes; highest use of its buffer since the last reading. */
  watermarkBytes?: Int64;
  /** How often the PFC watchdog found a storm. */
  storms?: Int64;
  /** Bytes that its queue has sent; 0 where the switch does not count them. */
  txBytes?: Int64;
}

export interface SwitchRollout {
  /** Counts rollouts; 0: nobody has begun one. */
  generation?: Int64;
  state?: SwitchRolloutState;
  reason?: string;
  /** Who asked. */
  by?: string;
  since?: string;
  canary?: string;
  confirmWithin?: string;
  soak?: string;
  atOnce?: number;
  force?: boolean;
  /** Absent while it goes on. */
  paused?: Reason;
  stages?: SwitchStage[];
  /** At most 100. */
  active?: SwitchActive[];
  activeTotal?: number;
}

export type SwitchRolloutState = "UNDER_WAY" | "DONE" | "PAUSED" | "CANCELLED";

export interface SwitchSpec {
  /** Its operating system. */
  nos?: SwitchSpecNos;
  /** The version of that which is expected; empty: any. */
  version?: string;
  /** Its ASIC, by its name in `railctl switch list`, for example spectrum-4 or tomahawk-5; empty on Linux. */
  asic?: string;
  /** IPv4 address of its loopback; empty: planned from the fabric. */
  loopback?: string;
  /** Number of its autonomous system; 0: planned from the fabric. */
  asn?: number;
  /** Length in metres of cables to what is below, where a port does not say another; 0: 5 m for a leaf, 40 m for a spine. */
  cableM?: number;
  /** What is known of single ports. Ports that are not named here are as the fabric document plans them. */
  ports?: SwitchPort[];
  /**
   * Where its agent, which runs elsewhere, reaches it; then routing of a SONiC switch is the site's own. Absent: its agent runs on it, or
   * it is configured by files.
   */
  management?: SwitchManagement;
  /** What stands on it differently from the plan is put right without being asked. Otherwise it is only reported. */
  repairDrift?: boolean;
}

export type SwitchSpecNos = "SONIC" | "CUMULUS" | "EOS" | "NX_OS" | "LINUX";

export interface SwitchStage {
  /** For example canary, rail 0 of pod p1, pod p1, spines. */
  name?: string;
  switches?: number;
  kept?: number;
  trial?: number;
  failed?: number;
  /** Not connected. */
  silent?: number;
}

export interface SwitchStatus {
  /** leaf, or spine of tier N; empty where the fabric document has no switch of this name. */
  role?: string;
  rails?: number[];
  pod?: string;
  plane?: number;
  /** Its agent answers. */
  connected?: boolean;
  /** When it was heard last. */
  lastSeen?: string;
  /** As it says it. */
  nosVersion?: string;
  agentVersion?: string;
  configuration?: SwitchStatusConfiguration;
  /** Of the rollout that `configuration` is about; 0: none. */
  generation?: Int64;
  /** Where it differs; at most 32. */
  differences?: SwitchDifference[];
  differencesTotal?: number;
  /** What is wrong with it or with what is known of it, most important first. */
  reasons?: Reason[];
  /** What its ports say now; only in the answer to GetSwitch. */
  ports?: SwitchPortStatus[];
  /** The number of the last desired state that its agent is done with. */
  observedNumber?: Int64;
}

/** How what was read back stands to what is desired. */
export type SwitchStatusConfiguration = "IN_SYNC" | "DRIFTED" | "PENDING" | "TRIAL" | "FAILED";
