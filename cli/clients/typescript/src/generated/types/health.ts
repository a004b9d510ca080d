// Messages of `Client.health`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, Reason } from "./common.js";

export interface ClusterHealth {
  version?: string;
  /** The leader's fencing number. */
  epoch?: Int64;
  storeRevision?: Int64;
  /** False while the store refuses writes; running jobs go on. */
  storeWritable?: boolean;
  nodesReady?: number;
  nodesTotal?: number;
  gpusTotal?: number;
  gpusHeld?: number;
  jobsPending?: number;
  jobsRunning?: number;
  rails?: RailHealth[];
  reasons?: Reason[];
  time?: string;
  /** Which controller leads, for people: host and process id. */
  leader?: string;
  /** Servers and their rails, those that are least well first; at most 256. */
  nodes?: NodeRailHealth[];
  /** Servers that `nodes` leaves out. */
  nodesLeftOut?: number;
  /** Switches that are known, those that are least well first; at most 256. */
  switches?: SwitchHealth[];
  /** Switches that `switches` leaves out. */
  switchesLeftOut?: number;
}

/** One server's rails. */
export interface NodeRailHealth {
  node?: string;
  /** Rails on which it has a NIC. */
  rails?: RailScore[];
}

export interface RailHealth {
  rail?: number;
  nicsUp?: number;
  nicsTotal?: number;
}

export interface RailScore {
  rail?: number;
  /** 100: nothing is known against it. 0: down, or no new job should use it. */
  score?: number;
  /** New jobs may use it. */
  usable?: boolean;
  /** What is wrong, by code, for example Storm; Down where the NIC is down or on no leaf that can be relied on. */
  codes?: string[];
}

/** One switch at a glance. */
export interface SwitchHealth {
  switch?: string;
  /** Its agent answers. */
  connected?: boolean;
  /** Ports whose link is up, of those that are cabled by the fabric document and were read. */
  portsUp?: number;
  portsTotal?: number;
  /** What its configuration and its ports tell, as in SwitchStatus; at most 32. */
  reasons?: Reason[];
}
