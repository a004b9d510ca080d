// The fabric as numbers: one byte for each port, so that a million of them are a megabyte, and a place for each on a plane. The columns are
// those that the controller sends (controller/api/src/map.rs says their form); nothing is made for each node before somebody asks for it.

import type { Reason } from "../../../../../cli/clients/typescript/src/index.js";

/** What a port is: there is none, it is well, drained, or out of use. */
export const NONE = 0;
export const WELL = 1;
export const DRAINED = 2;
export const DOWN = 3;

/** One pod: where its nodes begin, and where it lies on the plane, in cells. */
export interface Pod {
  name: string;
  first: number;
  count: number;
  x: number;
  y: number;
}

/** A port: a node's number and a rail. */
export interface Port {
  node: number;
  rail: number;
}

/** All of a fabric. A node is a row of its pod, a rail a column. */
export interface Model {
  rails: number;
  nodes: number;
  pods: Pod[];
  /** By node and rail: NONE, WELL, DRAINED or DOWN. */
  ports: Uint8Array;
  /** By node: GPUs that it has, and those that are free. */
  gpus: Uint8Array;
  free: Uint8Array;
  names: Names;
  leaves: string[];
  /** Pairs in the order of rails, then nodes: a leaf's place in `leaves` from 1 on, and of how many ports it is. */
  runs: Uint32Array;
  findings: Reason[];
  /** Findings that the controller left out. */
  leftOut: number;
  /** How many ports are of each kind. */
  counts: Uint32Array;
  /** The first of those that are not usable. */
  amiss: Port[];
  /** Cells across and down, with the gaps between pods. */
  width: number;
  height: number;
}

/** Names of nodes, read when somebody asks for one. */
export class Names {
  private text = "";
  private starts: Uint32Array | undefined;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly count: number,
  ) {}

  private read(): Uint32Array {
    if (this.starts) return this.starts;
    this.text = `\n${new TextDecoder().decode(this.bytes)}`;
    this.starts = new Uint32Array(this.count + 1);
    for (let node = 0, at = 0; node <= this.count && at >= 0; node += 1, at = this.text.indexOf("\n", at + 1)) this.starts[node] = at + 1;
    return this.starts;
  }

  /** The name of a node. */
  of(node: number): string {
    const starts = this.read();
    return this.text.slice(starts[node], (starts[node + 1] ?? 1) - 1);
  }

  /** The number of the node of a name; undefined if there is none. */
  find(name: string): number | undefined {
    const starts = this.read();
    const at = name && !name.includes("\n") ? this.text.indexOf(`\n${name}\n`) + 1 : 0;
    if (!at) return undefined;
    let [low, high] = [0, this.count - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((starts[middle] as number) < at) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Cells between pods. */
const GAP = 2;
/** Ports that are not usable, and are listed. */
const LISTED = 200;

/** Lays pods in rows, so that the whole is about as wide as the window. */
function place(pods: Pod[], rails: number, aspect: number): { width: number; height: number } {
  const area = pods.reduce((sum, pod) => sum + (rails + GAP) * (pod.count + GAP), 0);
  const widest = Math.max(rails + GAP, Math.sqrt(area * aspect));
  let [x, y, tallest, width] = [0, 0, 0, 0];
  for (const pod of pods) {
    if (x > 0 && x + rails > widest) {
      y += tallest + GAP;
      [x, tallest] = [0, 0];
    }
    [pod.x, pod.y] = [x, y];
    x += rails + GAP;
    width = Math.max(width, x - GAP);
    tallest = Math.max(tallest, pod.count);
  }
  return { width: Math.max(1, width), height: Math.max(1, y + tallest) };
}

/** What stands before the columns. */
interface Head {
  rails: number;
  nodes: number;
  pods: [string, number][];
  leaves: string[];
  runs: number;
  findings: Reason[];
  findingsLeftOut: number;
}

function pods(of: Head): Pod[] {
  const found: Pod[] = [];
  let first = 0;
  for (const [name, count] of of.pods) {
    if (count) found.push({ name: name || "without a pod", first, count, x: 0, y: 0 });
    first += count;
  }
  return found;
}

/** How many ports are of each kind, and the first that are not usable. */
function judged(ports: Uint8Array, rails: number): { counts: Uint32Array; amiss: Port[] } {
  const counts = new Uint32Array(256);
  const amiss: Port[] = [];
  for (let at = 0; at < ports.length; at += 1) {
    const kind = ports[at] as number;
    (counts[kind] as number) += 1;
    if (kind > WELL && amiss.length < LISTED) amiss.push({ node: Math.floor(at / rails), rail: at % rails });
  }
  return { counts, amiss };
}

const UNREADABLE = "the map of the fabric cannot be read: load this page again, which may be of another release than the controller";

/** The model of what the controller sends; `aspect` is the width of the window against its height. Throws Error if it cannot be read. */
export function decode(bytes: ArrayBuffer, aspect: number): Model {
  try {
    return decoded(bytes, aspect);
  } catch (cause) {
    throw new Error(UNREADABLE, { cause });
  }
}

/** As `decode`; throws anything if the bytes are too few, or are not such a map. */
function decoded(bytes: ArrayBuffer, aspect: number): Model {
  const view = new DataView(bytes);
  if (view.getUint32(0) !== 0x524d4150 || view.getUint32(4, true) !== 1) throw new Error("not a map of this form");
  const length = view.getUint32(8, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 12, length))) as Head;
  const { nodes, leaves, findings } = head;
  let at = 12 + length;
  const column = (count: number) => new Uint8Array(bytes, (at += count) - count, count);
  const runs = new Uint32Array(bytes, at, head.runs * 2);
  at += head.runs * 8;
  const ports = column(nodes * head.rails);
  const [gpus, free] = [column(nodes), column(nodes)];
  // Whether each takes new jobs, which the map does not show.
  column(nodes);
  // Every name ends a line.
  if (nodes && view.getUint8(bytes.byteLength - 1) !== 10) throw new Error("cut off within names");
  const names = new Names(new Uint8Array(bytes, at), nodes);
  const rails = Math.max(1, head.rails);
  const laid = pods(head);
  return { rails, nodes, pods: laid, ports, gpus, free, names, leaves, runs, findings, leftOut: head.findingsLeftOut, ...judged(ports, rails), ...place(laid, rails, aspect) };
}

/** The name of a port's leaf; empty where it has none. */
export function leafOf(of: Model, { node, rail }: Port): string {
  let left = rail * of.nodes + node;
  for (let at = 0; at < of.runs.length; at += 2) {
    left -= of.runs[at + 1] as number;
    if (left < 0) return of.leaves[(of.runs[at] as number) - 1] ?? "";
  }
  return "";
}

/** What a port is. */
export function kindOf(of: Model, { node, rail }: Port): number {
  return of.ports[node * of.rails + rail] ?? NONE;
}

/** Where a port lies, in cells. */
export function cell(of: Model, { node, rail }: Port): { x: number; y: number } | undefined {
  const pod = podOf(of, node);
  return pod && { x: pod.x + rail, y: pod.y + node - pod.first };
}

/** The pod of a node: pods are in the order of their nodes. */
export function podOf(of: Model, node: number): Pod | undefined {
  let [low, high] = [0, of.pods.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const pod = of.pods[middle] as Pod;
    if (node < pod.first) high = middle - 1;
    else if (node >= pod.first + pod.count) low = middle + 1;
    else return pod;
  }
  return undefined;
}

/** The port at a place, in cells. */
export function portAt(of: Model, x: number, y: number): Port | undefined {
  const [column, row] = [Math.floor(x), Math.floor(y)];
  const pod = of.pods.find((one) => column >= one.x && column < one.x + of.rails && row >= one.y && row < one.y + one.count);
  return pod && { node: pod.first + row - pod.y, rail: column - pod.x };
}
