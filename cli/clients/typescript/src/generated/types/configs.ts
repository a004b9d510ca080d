// Messages of `Client.configs`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { DataStatus, Int64, Metadata } from "./common.js";

/** Values that everybody of the tenant may read. */
export interface Config {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Config". */
  kind?: string;
  metadata?: Metadata;
  /** For people. */
  description?: string;
  /** As in Secret, but shown. */
  data?: Record<string, string>;
  status?: DataStatus;
}

export type DeleteConfigResponse = Record<string, never>;

export interface ListConfigsResponse {
  configs?: Config[];
  nextPageToken?: string;
  revision?: Int64;
}
