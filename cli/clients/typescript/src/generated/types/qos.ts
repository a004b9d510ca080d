// Messages of `Client.qos`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, QosPortState, Reason } from "./common.js";

export interface ApplyQosRequest {
  /** The profile, as JSON. One that says nothing is refused. */
  document?: string;
  reason?: string;
  /** Default: the controller chooses a server that holds few jobs. */
  canary?: string;
  /** Default 60 s; 10 s to 1 hour. */
  confirmWithin?: string;
  /** Default 10 s; less than `confirm_within`. */
  soak?: string;
  /** Default 32; at most 1024. */
  atOnce?: number;
  force?: boolean;
}

export interface ControlRolloutRequest {
  action?: ControlRolloutRequestAction;
  reason?: string;
}

export type ControlRolloutRequestAction = "PAUSE" | "RESUME" | "ROLL_BACK" | "CANCEL";

export interface GetQosResponse {
  /** Absent while nobody has begun one. */
  rollout?: QosRollout;
  stages?: QosStage[];
  /** At most 100. */
  active?: QosActive[];
  activeTotal?: number;
  /** Every NIC that is heard has the profile. */
  done?: boolean;
  state?: GetQosResponseState;
}

export type GetQosResponseState = "UNDER_WAY" | "DONE" | "PAUSED" | "CANCELLED";

/** A NIC that is being changed, or on which the rollout waits. */
export interface QosActive {
  node?: string;
  rail?: number;
  device?: string;
  state?: QosPortState;
  /** What it waits for. */
  note?: string;
}

/** What a rollout would do; nothing has begun. Which settings of a NIC differ its agent finds when its turn comes. */
export interface QosPlan {
  /** The profile is rolled out, or on its way, already: nothing would begin. */
  unchanged?: boolean;
  /** The server that would be first. */
  canary?: string;
  /** In their order; each begins when the one before it is done. */
  stages?: QosPlanStage[];
  /** The first 1000, in the order of the stages. */
  nics?: QosPlanNic[];
  nicsTotal?: number;
  nodes?: number;
  /** Jobs that hold one of these NICs: each moves off it while it is changed, and back. */
  jobs?: number;
  /** Soaks one after the other: it takes so long at least, without the changes themselves and what is waited for. */
  atLeast?: string;
}

export interface QosPlanNic {
  /** The stage's name. */
  stage?: string;
  node?: string;
  rail?: number;
  device?: string;
  /** Jobs that move off it; at most 8. */
  jobs?: string[];
  /** What it would wait for, or that it has the profile already; may be empty. */
  note?: string;
}

export interface QosPlanStage {
  /** As in QosStage. */
  name?: string;
  nics?: number;
  nodes?: number;
  /** Of them on servers that are not heard: they follow when they are. */
  silent?: number;
  /** NICs out of use at a time, at most. */
  atOnce?: number;
  /** How many times so many are taken out of use, changed, tried and given back. */
  steps?: number;
}

/**
 * A profile on its way to every NIC: a canary's rails one by one, then one rail of its pod, the pod, and the other pods.
 * No two rails of a server are out of use at a time.
 */
export interface QosRollout {
  /** Counts rollouts. */
  generation?: Int64;
  /** The profile, as JSON. */
  document?: string;
  /** The profile before this one, as JSON; empty if there was none. */
  before?: string;
  /** Why, in the administrator's words. */
  reason?: string;
  /** Who asked. */
  by?: string;
  since?: string;
  /** The server that is first. */
  canary?: string;
  /** A trial that nobody confirms for so long is taken back. */
  confirmWithin?: string;
  /** A trial has to be well for so long before it is confirmed. */
  soak?: string;
  /** NICs out of use at a time, at most; one on the canary. */
  atOnce?: number;
  /** Also where a job loses its last rail. */
  force?: boolean;
  /** Absent while it goes on. QosCancelled: it never goes on. */
  paused?: Reason;
  /** The rollout before it had not reached every NIC: until this one reaches a NIC it is left as it is, and not brought to `before`. */
  mixed?: boolean;
}

export interface QosStage {
  /** For example canary, rail 0 of pod p1, pod p1. */
  name?: string;
  /** NICs. */
  nics?: number;
  kept?: number;
  trial?: number;
  failed?: number;
  /** On servers that are not heard. */
  silent?: number;
}
