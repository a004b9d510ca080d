// Calls of `Client.fabric`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import { operations } from "../operations.js";
import type { Int64 } from "../types/common.js";
import type { DeleteFabricResponse, Fabric, Topology } from "../types/fabric.js";

export interface ApplyFabricParams extends CallOptions {
  dryRun?: boolean;
  /**
   * Without it a document is refused that cables none, or much fewer, of the servers that the present one cables: that leaves out more than
   * one of them and more than a tenth.
   */
  allowShrink?: boolean;
}

export interface DeleteFabricParams extends CallOptions {
  /** What the fabric is called: nothing is deleted if it has another name. */
  name: string;
  /** If not 0, refused unless it is the document's resource version. */
  resourceVersion?: Int64;
  /** Tells what it would cost, and deletes nothing. */
  dryRun?: boolean;
}

export interface GetFabricParams extends CallOptions {
}

export interface GetTopologyParams extends CallOptions {
}

/** `Client.fabric`. */
export class FabricService extends Resource {
  /** Creates or replaces the fabric. All findings of a faulty document come in one answer; nothing is stored then. */
  async apply(fabric: Fabric, params: ApplyFabricParams = {}): Promise<Fabric> {
    return this.call(operations.applyFabric, {}, params, fabric);
  }

  /** Removes the document of this name; the scheduler then knows only what the nodes' inventories tell. */
  async delete(params: DeleteFabricParams): Promise<DeleteFabricResponse> {
    return this.call(operations.deleteFabric, {}, params, undefined);
  }

  /** The call getFabric of the API. */
  async get(params: GetFabricParams = {}): Promise<Fabric> {
    return this.call(operations.getFabric, {}, params, undefined);
  }

  /** The fabric as the scheduler sees it: document and inventories joined. */
  async getTopology(params: GetTopologyParams = {}): Promise<Topology> {
    return this.call(operations.getTopology, {}, params, undefined);
  }
}
