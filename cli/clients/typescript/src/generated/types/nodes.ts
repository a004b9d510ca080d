// Messages of `Client.nodes`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, Metadata, QosPortState, Reason } from "./common.js";

export interface CreateJoinTokenRequest {
  /** Default and at most 10 minutes. */
  lifetime?: string;
}

export interface CreateJoinTokenResponse {
  /** Shown once; only its hash is kept. */
  token?: string;
  /** SHA-256 of the CA's public key, by which the joining server knows the controller. */
  caPin?: string;
  expires?: string;
}

export type DeleteNodeResponse = Record<string, never>;

/** An entry of a port's GID table. */
export interface Gid {
  /** Its place in the table now; it moves when addresses do. */
  index?: number;
  /** As an IPv6 address, for example ::ffff:10.0.0.5. */
  gid?: string;
  type?: GidType;
  /** The network device whose address it is. */
  netdev?: string;
}

export type GidType = "ROCE_V1" | "ROCE_V2";

export interface Gpu {
  index?: number;
  uuid?: string;
  model?: string;
  /** For example 0000:1b:00.0; empty if not known. */
  pciAddress?: string;
  /** -1 if not known. */
  numaNode?: number;
  memoryBytes?: Int64;
  /** Absent where the agent does not tell. */
  facts?: GpuFacts;
}

/** Which way a GPU's memory takes to its nearest NIC, and why not a better one. */
export interface GpuDirect {
  /** The way taken by programs that hold NICs themselves (NCCL). Railyard's engine takes it too, but for PEER_MEMORY, where it stages. */
  path?: GpuDirectPath;
  /** What speaks for it, in one line. */
  reason?: string;
  /** About better ways: why they cannot be taken. About the way taken: what makes it slow. */
  causes?: GpuDirectCause[];
}

/** One thing that is wrong with a way. */
export interface GpuDirectCause {
  path?: GpuDirectPath;
  /** UpperCamelCase, stable; for example ModuleMissing. */
  code?: string;
  /** What is wrong. */
  message?: string;
  /** What to do. */
  fix?: string;
}

export type GpuDirectPath = "DMA_BUF" | "PEER_MEMORY" | "HOST_STAGING";

/** What a GPU is, and what is near it. */
export interface GpuFacts {
  pci?: PciDevice;
  /** The kernel's driver, for example nvidia. */
  driver?: string;
  driverVersion?: string;
  /** Device of the NIC that is nearest to it. */
  nic?: string;
  nicDistance?: GpuFactsDistance;
  /** Links to other GPUs that carry data now (NVLink, xGMI), one entry for each other end. */
  links?: GpuLink[];
  /** How its memory reaches that NIC; absent where the agent does not tell. */
  gpuDirect?: GpuDirect;
  /** Where it is a partition of a GPU and not a whole one: which. */
  mig?: MigInstance;
}

/** How far a NIC is, as NCCL words it. */
export type GpuFactsDistance = "PIX" | "PXB" | "PHB" | "SYS";

/** Links between GPUs with the same other end. */
export interface GpuLink {
  peer?: GpuLinkPeer;
  /** The other GPU's index, where the peer is one. */
  gpu?: number;
  /** How many links. */
  count?: number;
  /** The generation, for example 4 for NVLink 4; 0 if not known. */
  version?: number;
}

export type GpuLinkPeer = "GPU" | "SWITCH";

/** GPUs and NICs that one job holds on one node. */
export interface Hold {
  tenant?: string;
  job?: string;
  jobUid?: string;
  gpus?: number[];
  /** Device names. */
  nics?: string[];
  /** CPUs, and bytes of main memory, that are the job's alone. */
  cpus?: number;
  memoryBytes?: Int64;
}

export interface Inventory {
  gpus?: Gpu[];
  nics?: Nic[];
  numaNodes?: number;
  cpus?: number;
  memoryBytes?: Int64;
  /** What the server hears over LLDP on its network devices. */
  neighbors?: Neighbor[];
  /** What the agent's health rules say of NICs; one that is not named is well, or not watched. */
  health?: NicHealth[];
  /** What the agent found odd: scope is the device or file. */
  findings?: Reason[];
  /** The last changes of the hardware, oldest first: scope is nic/DEVICE, gpu/INDEX, netdev/NAME or machine, since when. */
  changes?: Reason[];
  /** How NICs stand to the profile that is rolled out; empty where none is. */
  qos?: QosPort[];
  /** How far the server keeps jobs apart; absent where the agent is too old to say, which counts as not at all. */
  isolation?: Isolation;
}

/** How far a server keeps the processes of different jobs apart. A feature that is not named is absent. */
export interface Isolation {
  features?: IsolationFeature[];
}

/** One way in which a server keeps a job's processes apart from everything else on it. */
export interface IsolationFeature {
  kind?: IsolationFeatureKind;
  /** Jobs on this server get it. */
  active?: boolean;
  /** How it is done, or why it is not. */
  reason?: string;
  /** What an administrator does to have it; empty where it is active, or where nothing can be done. */
  fix?: string;
}

export type IsolationFeatureKind =
  | "UID_PER_ATTEMPT"
  | "USER_NAMESPACE"
  | "PID_NAMESPACE"
  | "MOUNT_NAMESPACE"
  | "IPC_NAMESPACE"
  | "NETWORK_NAMESPACE"
  | "PRIVATE_TMP"
  | "HIDDEN_PROC"
  | "PRIVATE_DEV"
  | "NO_NEW_PRIVILEGES"
  | "SECCOMP"
  | "CGROUP_MEMORY"
  | "CGROUP_PIDS"
  | "CGROUP_CPUSET"
  | "CGROUP_DEVICES";

export interface ListNodeUsageResponse {
  /** Those whose agents are connected and tell it. */
  nodes?: NodeUsage[];
  nextPageToken?: string;
}

export interface ListNodesResponse {
  nodes?: Node[];
  nextPageToken?: string;
  /** The store's revision at which the list is valid. */
  revision?: Int64;
}

/** A partition of a GPU (NVIDIA Multi-Instance GPU): one compute instance of one GPU instance. */
export interface MigInstance {
  /** The driver's number of the GPU instance. */
  gpuInstance?: number;
  /** The driver's number of the compute instance in it. */
  computeInstance?: number;
}

/** A switch that a server hears. */
export interface Neighbor {
  netdev?: string;
  /** The name that the switch gives itself. */
  switch?: string;
  /** The switch's port. */
  port?: string;
}

export interface Nic {
  /** RDMA device name (mlx5_0), or the netdev's where there is none. */
  device?: string;
  netdev?: string;
  pciAddress?: string;
  /** -1 if not known. */
  numaNode?: number;
  /** Index of the rail that it serves. */
  rail?: number;
  /** The rail's IP address on this NIC. */
  address?: string;
  mtu?: number;
  speedMbps?: Int64;
  /** Link up. */
  up?: boolean;
  /** RoCEv2 GID index for `address`; -1 if the NIC has no RDMA. */
  gidIndex?: number;
  /** Absent where the agent does not tell. */
  facts?: NicFacts;
}

/** One thing that is wrong with a NIC or its rail. It is over only after proof. */
export interface NicCondition {
  /** UpperCamelCase, stable; for example Storm. */
  code?: string;
  severity?: NicConditionSeverity;
  /** What was seen, against which limit and whose, and what to do. */
  message?: string;
  since?: string;
  /** It has been quiet long enough: a probe of the path that passes now would end it. */
  probe?: boolean;
}

export type NicConditionSeverity = "NOTE" | "DEGRADED" | "DRAIN";

/** What a NIC is. */
export interface NicFacts {
  pci?: PciDevice;
  /** The kernel's driver of its network device, for example mlx5_core. */
  driver?: string;
  /** The firmware's version. */
  firmware?: string;
  /** Absent if the NIC has no RDMA. */
  port?: NicPort;
  /** GIDs of that port, by index. */
  gids?: Gid[];
  /** By which rule it serves its rail, in words. */
  railReason?: string;
}

/** How well a NIC and its rail are. */
export interface NicHealth {
  /** Device of a NIC. */
  device?: string;
  /** 100: nothing is known against it. 0: no new job should use it. */
  score?: number;
  conditions?: NicCondition[];
  /** The last probe of its path; absent where there was none. */
  probe?: NicProbe;
}

/** A port of an RDMA device. */
export interface NicPort {
  /** From 1. */
  number?: number;
  state?: NicPortState;
  physical?: NicPortPhysical;
}

export type NicPortPhysical = "SLEEP" | "POLLING" | "DISABLED" | "TRAINING" | "LINK_UP" | "ERROR_RECOVERY" | "PHY_TEST";

export type NicPortState = "DOWN" | "INIT" | "ARMED" | "ACTIVE" | "ACTIVE_DEFER";

/** A probe of a rail that is out of use: the way between its NIC and that of another server, both ways. */
export interface NicProbe {
  /** Which: the id of its RailProof. */
  id?: Int64;
  /** The other server. */
  peer?: string;
  outcome?: NicProbeOutcome;
  /** What was seen. */
  message?: string;
  /** When it ended. */
  time?: string;
}

export type NicProbeOutcome = "PASSED" | "FAILED" | "UNABLE";

export interface Node {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Node". */
  kind?: string;
  metadata?: Metadata;
  spec?: NodeSpec;
  status?: NodeStatus;
}

export interface NodeEvent {
  type?: NodeEventType;
  node?: Node;
  revision?: Int64;
}

export type NodeEventType = "PUT" | "DELETE" | "SYNCED";

export interface NodeSpec {
  /** True: no new job is placed here; running ones go on. */
  unschedulable?: boolean;
  /** Why, in the administrator's words. */
  reason?: string;
  /** Key/value pairs that jobs select nodes by. */
  labels?: Record<string, string>;
  /** What keeps jobs off it unless they tolerate it. */
  taints?: Taint[];
}

export interface NodeStatus {
  phase?: NodeStatusPhase;
  lastHeartbeat?: string;
  inventory?: Inventory;
  /** What running jobs hold on this node. */
  holds?: Hold[];
  reasons?: Reason[];
  agentVersion?: string;
  /** No job is placed here until somebody has seen to it, and why. */
  quarantined?: Reason;
  /** Attempts that failed by this node within the last hour; at three it is quarantined. */
  strikes?: Strike[];
  /**
   * What it has said that cannot be true: the evidence for its quarantine. While there is any, no job is placed here, not even one
   * that tolerates railyard.io/quarantined; `railctl node return` ends it.
   */
  quarantine?: Reason[];
  /** Of its hardware, what another node claims that was away when this one came with it: address/RAIL/IP, gid/RAIL/GID, gpu/UUID. */
  provisional?: string[];
  /**
   * Rails of NICs that are up and well and all the same not used: the fabric document does not cable them there, or says that
   * their cable or leaf is down, or the server hears another leaf.
   */
  railsCut?: number[];
}

export type NodeStatusPhase = "READY" | "NOT_READY";

/** What one server uses. */
export interface NodeUsage {
  node?: string;
  /** When it was told. */
  time?: string;
  /** Thousandths of one CPU that are busy. */
  cpuMillis?: Int64;
  cpus?: number;
  memoryUsedBytes?: Int64;
  memoryBytes?: Int64;
  /** GPUs, and those that jobs hold. */
  gpus?: number;
  gpusHeld?: number;
}

/** A PCI device, as sysfs shows it. */
export interface PciDevice {
  /** Vendor and device in hexadecimal, for example 15b3:1021. */
  id?: string;
  /** Class code, for example 0x020000. */
  class?: string;
  /** From the host bridge down, for example pci0000:17/0000:17:01.0/0000:18:00.0. */
  path?: string;
  /**
   * Speed of its link, for example 32.0 GT/s PCIe: now for a NIC; what it was built for for a GPU, which slows its
   * link down while idle.
   */
  speed?: string;
  /** Lanes of its link, likewise; 0 if not known. */
  width?: number;
  /** The physical slot's name, where the firmware tells it. */
  slot?: string;
}

/** How one NIC stands to its desired profile. */
export interface QosPort {
  /** Device of a NIC. */
  device?: string;
  /** Of the rollout that this is about. */
  generation?: Int64;
  state?: QosPortState;
  /** What differs, or what failed. */
  message?: string;
  /** Generation of the last desired state that the agent is done with here, whatever came of it. 0: the agent does not tell. */
  observedGeneration?: Int64;
}

export type ReturnNodeRequest = Record<string, never>;

/** One attempt of a job that failed by a node. */
export interface Strike {
  time?: string;
  jobUid?: string;
  attempt?: number;
  /** The code of what the node said, for example EngineLost. */
  code?: string;
}

export interface Taint {
  key?: string;
  value?: string;
}

export type UpdateNodeRequestPart = "SCHEDULING" | "LABELS" | "TAINTS";
