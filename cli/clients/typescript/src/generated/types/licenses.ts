// Messages of `Client.licenses`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, Metadata } from "./common.js";

export type DeleteLicenseResponse = Record<string, never>;

export interface License {
  /** "rail/v1". */
  apiVersion?: string;
  /** "License". */
  kind?: string;
  metadata?: Metadata;
  spec?: LicenseSpec;
  status?: LicenseStatus;
}

/**
 * Jobs ask for some (`licenses`) and hold them while they run. A job starts only if they are free, and is planned for when they will be.
 */
export interface LicenseSpec {
  /**
   * How many there are in the whole cluster; at most 1000000000. Fewer than are held stops nobody: nothing more starts with it
   * until enough have ended.
   */
  total?: number;
  /** For people. */
  description?: string;
}

export interface LicenseStatus {
  /** How many running jobs hold. */
  inUse?: Int64;
  /** Jobs that hold some. */
  jobsRunning?: number;
  /** Jobs that wait and ask for some. */
  jobsWaiting?: number;
}

export interface ListLicensesResponse {
  licenses?: License[];
  nextPageToken?: string;
  revision?: Int64;
}
