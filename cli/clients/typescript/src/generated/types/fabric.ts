// Messages of `Client.fabric`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, Metadata, Reason } from "./common.js";

export interface DeleteFabricResponse {
  /** Servers that the document cables, or did. */
  nodes?: number;
  /** Jobs that hold something on them; they go on. */
  jobs?: number;
  /** The tenants of those jobs. */
  tenants?: string[];
}

/** One document describes one cluster's fabric. */
export interface Fabric {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Fabric". */
  kind?: string;
  metadata?: Metadata;
  spec?: FabricSpec;
  status?: FabricStatus;
}

export interface FabricSpec {
  /** A rail is one network plane; NIC k of every server is on rail k. */
  rails?: Rail[];
  leaves?: Leaf[];
  links?: Link[];
  /** Many like cables at once; together with `links` they are all the cables from servers to leaves. */
  linkGroups?: LinkGroup[];
  /** The switches above the leaves. Without any, the leaves of a rail (and plane) are taken to reach each other. */
  spines?: Spine[];
  /** The cables between leaves and spines, and between spines and those above them. */
  uplinks?: Uplink[];
  /**
   * Many like leaves, and many like spines, at once; together with `leaves` and `spines` they are all the switches.
   * Answers of the controller name every switch by itself.
   */
  leafGroups?: LeafGroup[];
  spineGroups?: SpineGroup[];
}

export interface FabricStatus {
  nodes?: number;
  pods?: number;
  /** What differs between this document and the nodes' inventories. */
  findings?: Reason[];
}

/** A leaf switch belongs to one pod, and to one rail or several. */
export interface Leaf {
  name?: string;
  /** Index of its rail. */
  rail?: number;
  /** The set of servers that share their leaves, one leaf (or pair) per rail. */
  pod?: string;
  /** Where a NIC has two ports on two leaves: 0 for the first leaf, 1 for the second. Planes of one rail do not meet. */
  plane?: number;
  /** Known not to work, or taken out: its cables are not used. */
  down?: boolean;
  /**
   * In place of `rail`: all rails that it serves, for example all of a server whose NICs share one leaf. Each cable to
   * it says its own rail.
   */
  rails?: number[];
}

/** Leaves of one rail and plane. */
export interface LeafGroup {
  /** A list of leaves, for example r0-leaf[001-157]. */
  names?: string;
  rail?: number;
  /** A list of pods as long as that of the leaves, or one pod for all. */
  pods?: string;
  plane?: number;
  /** In place of `rail`: all rails that each of them serves. */
  rails?: number[];
}

/** One cable from a server's NIC to a leaf. */
export interface Link {
  node?: string;
  /** Device or netdev name of the NIC on that server. */
  nic?: string;
  leaf?: string;
  port?: string;
  /** Line rate in Mbit/s; 0 if not known. */
  speedMbps?: Int64;
  /** Known not to work: it is not used. */
  down?: boolean;
  /** The NIC's rail, where the leaf serves several; else that of the leaf. */
  rail?: number;
}

/** The cables of many servers whose NIC of one name goes to one leaf. */
export interface LinkGroup {
  /** A list of servers, for example gpu[001-064,070]. */
  nodes?: string;
  /** Device or netdev name of the NIC; the same on each of the servers. */
  nic?: string;
  leaf?: string;
  /**
   * A list of the leaf's ports, as long as that of the servers and in the same order, for example Ethernet[1-65];
   * empty if not known.
   */
  ports?: string;
  /** Line rate of each in Mbit/s; 0 if not known. */
  speedMbps?: Int64;
  /**
   * In place of `leaf`: a list of leaves, each for the next `nodes_per_leaf` of the servers. `ports` is then the list
   * of each leaf's ports, as long as `nodes_per_leaf`.
   */
  leaves?: string;
  nodesPerLeaf?: number;
  /**
   * In place of `nic`: a list of NICs, each of them on each of the servers. `leaves` then lists the leaves of the first
   * NIC, then those of the second, and so on; one `leaf`, or the leaves of one NIC, are those of every NIC. `ports` is as
   * above, the same on each leaf and for each NIC, or the list of all ports: those of the first NIC in the order of the
   * servers, then those of the second, and so on.
   */
  nics?: string;
  /** The rail of each NIC, where a leaf serves several; else that of the leaf. */
  rails?: number[];
}

export interface Rail {
  /** 0, 1, 2, ... */
  index?: number;
  name?: string;
}

/** A switch above the leaves of one rail and plane. */
export interface Spine {
  name?: string;
  /** Index of its rail. */
  rail?: number;
  plane?: number;
  /** Known not to work, or taken out. */
  down?: boolean;
  /** In place of `rail`: all rails that it serves. */
  rails?: number[];
}

/** Spines of one rail and plane. */
export interface SpineGroup {
  names?: string;
  rail?: number;
  plane?: number;
  /** In place of `rail`: all rails that each of them serves. */
  rails?: number[];
}

export interface Topology {
  pods?: TopologyPod[];
  rails?: number;
  findings?: Reason[];
}

export interface TopologyNode {
  name?: string;
  gpus?: number;
  gpusFree?: number;
  schedulable?: boolean;
  /** One entry per rail of the fabric, in order. */
  ports?: TopologyPort[];
}

export interface TopologyPod {
  name?: string;
  rails?: TopologyRail[];
  nodes?: TopologyNode[];
}

export interface TopologyPort {
  rail?: number;
  nic?: string;
  leaf?: string;
  /** False if the NIC is missing or down. A drained one is placed all the same: its engines use the other rails. */
  usable?: boolean;
  /** An administrator has drained it, its leaf, or its rail. */
  drained?: boolean;
}

export interface TopologyRail {
  rail?: number;
  leaves?: string[];
}

/** Cables between two layers of switches: each of `lower` has `cables` of them to each of `upper`. */
export interface Uplink {
  /** A list of leaves, or of spines below others, for example r0-leaf[1-64]. */
  lower?: string;
  /** A list of spines. */
  upper?: string;
  /** Cables of each pair; 0 means 1. */
  cables?: number;
  /** Line rate of each cable in Mbit/s; 0 if not known. */
  speedMbps?: Int64;
  /** How many cables of each pair are known not to work. */
  down?: number;
}
