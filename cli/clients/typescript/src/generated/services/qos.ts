// Calls of `Client.qos`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import { operations } from "../operations.js";
import type { ControlRolloutRequestAction, GetQosResponse, QosPlan } from "../types/qos.js";

export interface ApplyQosParams extends CallOptions {
  /** The profile, as JSON. One that says nothing is refused. */
  document: string;
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

export interface ControlRolloutParams extends CallOptions {
  action: ControlRolloutRequestAction;
  reason?: string;
}

export interface GetQosParams extends CallOptions {
}

export interface PlanQosParams extends CallOptions {
  /** The profile, as JSON. One that says nothing is refused. */
  document: string;
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

/** `Client.qos`. */
export class QosService extends Resource {
  /** Begins a rollout. The profile that is there already changes nothing. */
  async apply(params: ApplyQosParams): Promise<GetQosResponse> {
    return this.call(operations.applyQos, {}, params, undefined);
  }

  /** Pauses a rollout, goes on with it, cancels it, or rolls out the profile before it. */
  async controlRollout(params: ControlRolloutParams): Promise<GetQosResponse> {
    return this.call(operations.controlRollout, {}, params, undefined);
  }

  /** The rollout, and how far it is. */
  async get(params: GetQosParams = {}): Promise<GetQosResponse> {
    return this.call(operations.getQos, {}, params, undefined);
  }

  /** What ApplyQos would do; nothing begins. */
  async plan(params: PlanQosParams): Promise<QosPlan> {
    return this.call(operations.planQos, {}, params, undefined);
  }
}
