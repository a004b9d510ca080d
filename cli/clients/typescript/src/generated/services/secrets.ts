// Calls of `Client.secrets`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { DeleteSecretResponse, ListSecretsResponse, Secret } from "../types/secrets.js";

export interface ApplySecretParams extends CallOptions {
  dryRun?: boolean;
}

export interface DeleteSecretParams extends CallOptions {
  tenant?: string;
}

export interface GetSecretParams extends CallOptions {
  /** For administrators; others see their own tenant's. */
  tenant?: string;
}

export interface ListSecretsParams extends CallOptions {
  /** For administrators: one tenant's secrets; empty means all. */
  tenant?: string;
  pageSize?: number;
  pageToken?: string;
}

/** `Client.secrets`. */
export class SecretsService extends Resource {
  /**
   * Creates the secret or replaces its values. The next attempt of a job that refers to it has the new ones; one that is being prepared
   * begins
   * anew.
   */
  async apply(secret: Secret, params: ApplySecretParams = {}): Promise<Secret> {
    return this.call(operations.applySecret, {}, params, secret);
  }

  /** What runs keeps what it has; jobs that refer to it are held before their next attempt, until it is there again. */
  async delete(name: string, params: DeleteSecretParams = {}): Promise<DeleteSecretResponse> {
    return this.call(operations.deleteSecret, { name }, params, undefined);
  }

  /** The call getSecret of the API. */
  async get(name: string, params: GetSecretParams = {}): Promise<Secret> {
    return this.call(operations.getSecret, { name }, params, undefined);
  }

  /** The call listSecrets of the API. */
  async list(params: ListSecretsParams = {}): Promise<ListSecretsResponse> {
    return this.call(operations.listSecrets, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListSecretsParams, "pageToken"> = {}): Pages<Secret> {
    return this.pages(operations.listSecrets, {}, params, "secrets");
  }
}
