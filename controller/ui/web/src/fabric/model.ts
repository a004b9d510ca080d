// The fabric as numbers: one byte for each port, so that a million of them are a megabyte, and a place for each on a plane.

import type { Topology } from "../../../../../cli/clients/typescript/src/index.js";

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
  pods: Pod[];
  names: string[];
  /** By node and rail: NONE, WELL, DRAINED or DOWN. */
  ports: Uint8Array;
  /** By node: GPUs that it has, and those that are free. */
  gpus: Uint16Array;
  free: Uint16Array;
  schedulable: Uint8Array;
  /** By node and rail, a number into `leaves`. */
  leaf: Uint32Array;
  leaves: string[];
  /** Cells across and down, with the gaps between pods. */
  width: number;
  height: number;
  numbers: Map<string, number>;
}

/** Cells between pods. */
const GAP = 2;

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

/** The model of what the controller says; `aspect` is the width of the window against its height. */
export function model(topology: Topology, aspect: number): Model {
  const given = topology.pods ?? [];
  const count = given.reduce((sum, pod) => sum + (pod.nodes?.length ?? 0), 0);
  const rails = Math.max(1, topology.rails ?? 0);
  const pods: Pod[] = [];
  const found: Model = {
    rails,
    pods,
    names: new Array<string>(count),
    ports: new Uint8Array(count * rails),
    gpus: new Uint16Array(count),
    free: new Uint16Array(count),
    schedulable: new Uint8Array(count),
    leaf: new Uint32Array(count * rails),
    leaves: [""],
    width: 1,
    height: 1,
    numbers: new Map(),
  };
  const leaves = new Map<string, number>([["", 0]]);
  let at = 0;
  for (const pod of given) {
    const nodes = pod.nodes ?? [];
    if (!nodes.length) continue;
    pods.push({ name: pod.name || "without a pod", first: at, count: nodes.length, x: 0, y: 0 });
    for (const node of nodes) {
      found.names[at] = node.name ?? "";
      found.numbers.set(node.name ?? "", at);
      found.gpus[at] = node.gpus ?? 0;
      found.free[at] = node.gpusFree ?? 0;
      found.schedulable[at] = node.schedulable ? 1 : 0;
      for (const port of node.ports ?? []) {
        const rail = port.rail ?? 0;
        if (rail >= rails) continue;
        const leaf = port.leaf ?? "";
        let number = leaves.get(leaf);
        if (number === undefined) {
          number = found.leaves.push(leaf) - 1;
          leaves.set(leaf, number);
        }
        found.leaf[at * rails + rail] = number;
        found.ports[at * rails + rail] = port.drained ? DRAINED : port.usable ? WELL : DOWN;
      }
      at += 1;
    }
  }
  return Object.assign(found, place(pods, rails, aspect));
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

/** How many ports are of each kind. */
export function counts(of: Model): [number, number, number, number] {
  const found: [number, number, number, number] = [0, 0, 0, 0];
  for (const kind of of.ports) found[kind as 0 | 1 | 2 | 3] += 1;
  return found;
}
