// Calls of `Client.health`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import { operations } from "../operations.js";
import type { ClusterHealth } from "../types/health.js";

export interface GetHealthParams extends CallOptions {
}

/** `Client.health`. */
export class HealthService extends Resource {
  /** The call getHealth of the API. */
  async get(params: GetHealthParams = {}): Promise<ClusterHealth> {
    return this.call(operations.getHealth, {}, params, undefined);
  }
}
