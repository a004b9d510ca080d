// Calls of `Client.licenses`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { DeleteLicenseResponse, License, ListLicensesResponse } from "../types/licenses.js";

export interface ApplyLicenseParams extends CallOptions {
  dryRun?: boolean;
}

export interface DeleteLicenseParams extends CallOptions {
}

export interface GetLicenseParams extends CallOptions {
}

export interface ListLicensesParams extends CallOptions {
  pageSize?: number;
  pageToken?: string;
}

/** `Client.licenses`. */
export class LicensesService extends Resource {
  /** Creates the license or replaces its spec. */
  async apply(license: License, params: ApplyLicenseParams = {}): Promise<License> {
    return this.call(operations.applyLicense, {}, params, license);
  }

  /** Refused while jobs that have not ended ask for it. */
  async delete(name: string, params: DeleteLicenseParams = {}): Promise<DeleteLicenseResponse> {
    return this.call(operations.deleteLicense, { name }, params, undefined);
  }

  /** The call getLicense of the API. */
  async get(name: string, params: GetLicenseParams = {}): Promise<License> {
    return this.call(operations.getLicense, { name }, params, undefined);
  }

  /** The call listLicenses of the API. */
  async list(params: ListLicensesParams = {}): Promise<ListLicensesResponse> {
    return this.call(operations.listLicenses, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListLicensesParams, "pageToken"> = {}): Pages<License> {
    return this.pages(operations.listLicenses, {}, params, "licenses");
  }
}
