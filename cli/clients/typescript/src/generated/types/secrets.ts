// Messages of `Client.secrets`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { DataStatus, Int64, Metadata } from "./common.js";

export type DeleteSecretResponse = Record<string, never>;

export interface ListSecretsResponse {
  secrets?: Secret[];
  nextPageToken?: string;
  revision?: Int64;
}

/** Values that nobody reads back: they are sealed in the store, and only the ranks and steps of jobs that refer to them see them. */
export interface Secret {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Secret". */
  kind?: string;
  metadata?: Metadata;
  /** For people. */
  description?: string;
  /** Values by their keys: at most 256 keys and 64 KiB in all. Replaces all that there are; empty: they stay. In no answer. */
  data?: Record<string, string>;
  status?: DataStatus;
}
