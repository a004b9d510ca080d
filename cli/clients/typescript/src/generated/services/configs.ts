// Calls of `Client.configs`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { Config, DeleteConfigResponse, ListConfigsResponse } from "../types/configs.js";

export interface ApplyConfigParams extends CallOptions {
  dryRun?: boolean;
}

export interface DeleteConfigParams extends CallOptions {
  tenant?: string;
}

export interface GetConfigParams extends CallOptions {
  /** For administrators; others see their own tenant's. */
  tenant?: string;
}

export interface ListConfigsParams extends CallOptions {
  /** For administrators: one tenant's configs; empty means all. */
  tenant?: string;
  pageSize?: number;
  pageToken?: string;
}

/** `Client.configs`. */
export class ConfigsService extends Resource {
  /** As of secrets. */
  async apply(config: Config, params: ApplyConfigParams = {}): Promise<Config> {
    return this.call(operations.applyConfig, {}, params, config);
  }

  /** The call deleteConfig of the API. */
  async delete(name: string, params: DeleteConfigParams = {}): Promise<DeleteConfigResponse> {
    return this.call(operations.deleteConfig, { name }, params, undefined);
  }

  /** The call getConfig of the API. */
  async get(name: string, params: GetConfigParams = {}): Promise<Config> {
    return this.call(operations.getConfig, { name }, params, undefined);
  }

  /** The call listConfigs of the API. */
  async list(params: ListConfigsParams = {}): Promise<ListConfigsResponse> {
    return this.call(operations.listConfigs, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListConfigsParams, "pageToken"> = {}): Pages<Config> {
    return this.pages(operations.listConfigs, {}, params, "configs");
  }
}
