// Messages of `Client.rails`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { RailReportState } from "./common.js";

export interface DrainRailRequest {
  /** As in ListRailsRequest; required. */
  target?: string;
  reason?: string;
  /** Also where it is the last rail of a running job: that job goes on using it until it has another. */
  force?: boolean;
}

export interface DrainRailResponse {
  drain?: RailDrain;
  /** False if it was so already. */
  changed?: boolean;
  pending?: RailUse[];
  pendingTotal?: number;
}

export interface ListRailsResponse {
  rails?: RailStatus[];
  drains?: RailDrain[];
  /** At most 100. */
  pending?: RailUse[];
  /** 0 once every running job is off what is drained. */
  pendingTotal?: number;
}

/** What an administrator took out of use. It stays so, for engines that start later too, until it is undrained. */
export interface RailDrain {
  /** rail/1, leaf/NAME, or node/NAME:1 for one server's port of a rail. */
  target?: string;
  reason?: string;
  /** Who did it. */
  by?: string;
  since?: string;
}

/** A job that holds a rail. */
export interface RailJob {
  tenant?: string;
  job?: string;
  jobUid?: string;
  /** On how many servers. */
  nodes?: number;
}

export interface RailStateCount {
  /** STATE_UNSPECIFIED counts engines that have not said. */
  state?: RailReportState;
  engines?: number;
}

/** One rail of the fabric, or those of its ports that were asked for. */
export interface RailStatus {
  rail?: number;
  /** Empty without a fabric document. */
  name?: string;
  /** Leaves that serve it. */
  leaves?: string[];
  /** Servers that have a NIC on it. */
  nodes?: number;
  /** Those of them whose NIC is up. */
  nodesUp?: number;
  /** Those of them whose port is drained. */
  nodesDrained?: number;
  /** Targets of the drains that concern it. */
  drains?: string[];
  /** Jobs that hold it, at most 100; of other tenants' jobs only the number is told. */
  jobs?: RailJob[];
  jobsTotal?: number;
  /** How the engines on it see it. */
  engines?: RailStateCount[];
}

/** An engine that is not off a drained rail yet. */
export interface RailUse {
  /** Empty for other tenants' jobs. */
  tenant?: string;
  job?: string;
  jobUid?: string;
  node?: string;
  rail?: number;
  state?: RailReportState;
  /** What it waits for. */
  note?: string;
}

export interface UndrainRailRequest {
  /** As in ListRailsRequest; required. */
  target?: string;
}

export interface UndrainRailResponse {
  /** As RailDrain names it. */
  target?: string;
  /** False if it was not drained. */
  changed?: boolean;
  /** What still drains some of its ports. */
  remaining?: RailDrain[];
}
