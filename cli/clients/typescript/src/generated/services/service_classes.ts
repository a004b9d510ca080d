// Calls of `Client.serviceClasses`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { DeleteServiceClassResponse, ListServiceClassesResponse, ServiceClass } from "../types/service_classes.js";

export interface ApplyServiceClassParams extends CallOptions {
  dryRun?: boolean;
}

export interface DeleteServiceClassParams extends CallOptions {
}

export interface GetServiceClassParams extends CallOptions {
}

export interface ListServiceClassesParams extends CallOptions {
  pageSize?: number;
  pageToken?: string;
}

/** `Client.serviceClasses`. */
export class ServiceClassesService extends Resource {
  /** Creates the class or replaces its spec. Limits of one job hold for what is submitted or changed from then on. */
  async apply(serviceClass: ServiceClass, params: ApplyServiceClassParams = {}): Promise<ServiceClass> {
    return this.call(operations.applyServiceClass, {}, params, serviceClass);
  }

  /** Refused while it has jobs that have not ended. */
  async delete(name: string, params: DeleteServiceClassParams = {}): Promise<DeleteServiceClassResponse> {
    return this.call(operations.deleteServiceClass, { name }, params, undefined);
  }

  /** The call getServiceClass of the API. */
  async get(name: string, params: GetServiceClassParams = {}): Promise<ServiceClass> {
    return this.call(operations.getServiceClass, { name }, params, undefined);
  }

  /** The call listServiceClasses of the API. */
  async list(params: ListServiceClassesParams = {}): Promise<ListServiceClassesResponse> {
    return this.call(operations.listServiceClasses, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListServiceClassesParams, "pageToken"> = {}): Pages<ServiceClass> {
    return this.pages(operations.listServiceClasses, {}, params, "serviceClasses");
  }
}
