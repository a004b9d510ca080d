// Calls of `Client.switches`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { ControlSwitchRolloutRequestAction, CreateSwitchTokenResponse, DeleteSwitchResponse, ListSwitchesResponse, RenderSwitchResponse, Switch, SwitchPlan, SwitchRollout } from "../types/switches.js";

export interface ApplySwitchParams extends CallOptions {
  dryRun?: boolean;
}

export interface ControlSwitchRolloutParams extends CallOptions {
  action: ControlSwitchRolloutRequestAction;
  reason?: string;
}

export interface CreateSwitchTokenParams extends CallOptions {
  /** Default and at most 10 minutes. */
  lifetime?: string;
}

export interface DeleteSwitchParams extends CallOptions {
}

export interface GetSwitchParams extends CallOptions {
}

export interface GetSwitchRolloutParams extends CallOptions {
}

export interface ListSwitchesParams extends CallOptions {
  pageSize?: number;
  pageToken?: string;
}

export interface PlanSwitchesParams extends CallOptions {
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

export interface RenderSwitchParams extends CallOptions {
}

export interface RollOutSwitchesParams extends CallOptions {
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

/** `Client.switches`. */
export class SwitchesService extends Resource {
  /** Creates the switch or replaces its spec. */
  async apply(switch_: Switch, params: ApplySwitchParams = {}): Promise<Switch> {
    return this.call(operations.applySwitch, {}, params, switch_);
  }

  /** Pauses the rollout, goes on with it, cancels it, or takes back what it has changed. */
  async controlRollout(params: ControlSwitchRolloutParams): Promise<SwitchRollout> {
    return this.call(operations.controlSwitchRollout, {}, params, undefined);
  }

  /** A token with which a switch's agent joins. */
  async createToken(name: string, params: CreateSwitchTokenParams = {}): Promise<CreateSwitchTokenResponse> {
    return this.call(operations.createSwitchToken, { name }, params, undefined);
  }

  /** Forgets it. Its configuration stays as it is; its agent gets nothing more. */
  async delete(name: string, params: DeleteSwitchParams = {}): Promise<DeleteSwitchResponse> {
    return this.call(operations.deleteSwitch, { name }, params, undefined);
  }

  /** The call getSwitch of the API. */
  async get(name: string, params: GetSwitchParams = {}): Promise<Switch> {
    return this.call(operations.getSwitch, { name }, params, undefined);
  }

  /** The rollout to switches, and how far it is. */
  async getRollout(params: GetSwitchRolloutParams = {}): Promise<SwitchRollout> {
    return this.call(operations.getSwitchRollout, {}, params, undefined);
  }

  /** The call listSwitches of the API. */
  async list(params: ListSwitchesParams = {}): Promise<ListSwitchesResponse> {
    return this.call(operations.listSwitches, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListSwitchesParams, "pageToken"> = {}): Pages<Switch> {
    return this.pages(operations.listSwitches, {}, params, "switches");
  }

  /** What RollOutSwitches would do; nothing begins. */
  async plan(params: PlanSwitchesParams = {}): Promise<SwitchPlan> {
    return this.call(operations.planSwitches, {}, params, undefined);
  }

  /** The files that it is to have, from the profile that is in force, the fabric document and its own. */
  async render(name: string, params: RenderSwitchParams = {}): Promise<RenderSwitchResponse> {
    return this.call(operations.renderSwitch, { name }, params, undefined);
  }

  /** Brings switches to their desired configuration in stages. Where all have it nothing begins. */
  async rollOut(params: RollOutSwitchesParams = {}): Promise<SwitchRollout> {
    return this.call(operations.rollOutSwitches, {}, params, undefined);
  }
}
