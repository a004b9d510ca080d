// Calls of `Client.rails`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import { operations } from "../operations.js";
import type { DrainRailResponse, ListRailsResponse, UndrainRailResponse } from "../types/rails.js";

export interface DrainRailParams extends CallOptions {
  /** As in ListRailsRequest; required. */
  target: string;
  reason?: string;
  /** Also where it is the last rail of a running job: that job goes on using it until it has another. */
  force?: boolean;
}

export interface ListRailsParams extends CallOptions {
  /**
   * Only this: a rail by index or name, a leaf by name, or NODE:RAIL; with rail/, leaf/ or node/ before it where two have
   * the name. Empty means all.
   */
  target?: string;
}

export interface UndrainRailParams extends CallOptions {
  /** As in ListRailsRequest; required. */
  target: string;
}

/** `Client.rails`. */
export class RailsService extends Resource {
  /** Takes a rail, a leaf or one server's port out of use, without an error for the jobs on it. Repeating it is harmless. */
  async drain(params: DrainRailParams): Promise<DrainRailResponse> {
    return this.call(operations.drainRail, {}, params, undefined);
  }

  /** The rails, who holds them, what is drained, and who is not off it yet. */
  async list(params: ListRailsParams = {}): Promise<ListRailsResponse> {
    return this.call(operations.listRails, {}, params, undefined);
  }

  /** Brings it back. Repeating it is harmless. */
  async undrain(params: UndrainRailParams): Promise<UndrainRailResponse> {
    return this.call(operations.undrainRail, {}, params, undefined);
  }
}
