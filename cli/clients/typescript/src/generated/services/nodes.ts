// Calls of `Client.nodes`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions, WatchOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import type { Watch } from "../../watch.js";
import { operations } from "../operations.js";
import type { Int64 } from "../types/common.js";
import type { CreateJoinTokenResponse, DeleteNodeResponse, ListNodeUsageResponse, ListNodesResponse, Node, NodeEvent, NodeSpec, NodeUsage, UpdateNodeRequestPart } from "../types/nodes.js";

export interface CreateJoinTokenParams extends CallOptions {
  /** Default and at most 10 minutes. */
  lifetime?: string;
}

export interface DeleteNodeParams extends CallOptions {
  /**
   * The caller vouches that nothing runs on the server any more (it is gone for good): what jobs hold there is
   * released. Needs `uid`.
   */
  force?: boolean;
  /**
   * If given, refused with a conflict unless it is the node's uid, so that a repeated request cannot hit a server
   * that has joined under the same name since.
   */
  uid?: string;
}

export interface GetNodeParams extends CallOptions {
}

export interface ListNodeUsageParams extends CallOptions {
  /** At most this many; 0 means the server's limit. */
  pageSize?: number;
  pageToken?: string;
}

export interface ListNodesParams extends CallOptions {
  /** At most this many; 0 means the server's limit. */
  pageSize?: number;
  pageToken?: string;
}

export interface ReturnNodeParams extends CallOptions {
}

export interface UpdateNodeParams extends CallOptions {
  /** If not 0, refused with a conflict unless it is the current one. */
  ifResourceVersion?: Int64;
  /** What of `spec` is changed; empty means SCHEDULING. */
  parts?: UpdateNodeRequestPart[];
}

export interface WatchNodesParams extends WatchOptions {
  /** Resume after this revision; 0 begins with the present state. */
  afterRevision?: Int64;
}

/** `Client.nodes`. */
export class NodesService extends Resource {
  /** A single-use token with which one named server may join. */
  async createJoinToken(node: string, params: CreateJoinTokenParams = {}): Promise<CreateJoinTokenResponse> {
    return this.call(operations.createJoinToken, { node }, params, undefined);
  }

  /** Refused while a job holds anything on it, unless forced. */
  async delete(name: string, params: DeleteNodeParams = {}): Promise<DeleteNodeResponse> {
    return this.call(operations.deleteNode, { name }, params, undefined);
  }

  /** The call getNode of the API. */
  async get(name: string, params: GetNodeParams = {}): Promise<Node> {
    return this.call(operations.getNode, { name }, params, undefined);
  }

  /** What servers use now, as their agents told it last. */
  async listUsage(params: ListNodeUsageParams = {}): Promise<ListNodeUsageResponse> {
    return this.call(operations.listNodeUsage, {}, params, undefined);
  }

  /** All rows of `listUsage`, page by page. */
  listUsageAll(params: Omit<ListNodeUsageParams, "pageToken"> = {}): Pages<NodeUsage> {
    return this.pages(operations.listNodeUsage, {}, params, "nodes");
  }

  /** The call listNodes of the API. */
  async list(params: ListNodesParams = {}): Promise<ListNodesResponse> {
    return this.call(operations.listNodes, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListNodesParams, "pageToken"> = {}): Pages<Node> {
    return this.pages(operations.listNodes, {}, params, "nodes");
  }

  /** Takes a node that killed jobs back into service. */
  async return(name: string, params: ReturnNodeParams = {}): Promise<Node> {
    return this.call(operations.returnNode, { name }, params, undefined);
  }

  /** Changes `spec` only. */
  async update(name: string, nodeSpec: NodeSpec, params: UpdateNodeParams = {}): Promise<Node> {
    return this.call(operations.updateNode, { name }, params, nodeSpec);
  }

  /** The call watchNodes of the API. */
  watch(params: WatchNodesParams = {}): Watch<NodeEvent> {
    return this.watching(operations.watchNodes, {}, params);
  }
}
