// Draws the fabric: one picture with a pixel for each port, scaled; close up, ports with their marks and names.

import { cell, DOWN, DRAINED, kindOf, NONE, WELL, type Model, type Pod, type Port } from "./model.js";

/** What colours tell: the ports' health, or how many of a node's GPUs are held. */
export type Shows = "health" | "use";

/** Which part of the plane is seen: the place at the top left, in cells, and pixels for each cell. */
export interface View {
  x: number;
  y: number;
  scale: number;
}

type Rgb = readonly [number, number, number];

/** Colours that people of any colour vision tell apart: after Okabe and Ito, and a ramp that grows darker (or lighter, on dark). */
interface Colours {
  well: Rgb;
  drained: Rgb;
  down: Rgb;
  none: Rgb;
  ramp: readonly Rgb[];
  ink: string;
  mark: string;
  focus: string;
}

const LIGHT: Colours = {
  well: [150, 196, 184],
  drained: [230, 159, 0],
  down: [200, 70, 0],
  none: [232, 234, 236],
  ramp: [[226, 233, 240], [176, 201, 224], [116, 163, 203], [56, 118, 173], [16, 70, 124]],
  ink: "#30363c",
  mark: "#1c1400",
  focus: "#0b5cad",
};
const DARK: Colours = {
  well: [42, 98, 88],
  drained: [230, 159, 0],
  down: [255, 110, 50],
  none: [34, 38, 43],
  ramp: [[30, 38, 47], [33, 66, 99], [44, 104, 151], [84, 152, 199], [170, 211, 240]],
  ink: "#c3c9cf",
  mark: "#140e00",
  focus: "#7dbcf5",
};

export function colours(dark: boolean): Colours {
  return dark ? DARK : LIGHT;
}

/** Colours of ports by their kinds, in the order of these. */
function kinds(by: Colours): Rgb[] {
  return [by.none, by.well, by.drained, by.down];
}

/** How much of a node's GPUs is held, as a step of the ramp; undefined where it has none. */
function held(of: Model, node: number, steps: number): number | undefined {
  const gpus = of.gpus[node] as number;
  return gpus ? Math.round(((gpus - (of.free[node] as number)) / gpus) * (steps - 1)) : undefined;
}

function colour(of: Model, shows: Shows, port: Port, by: Colours): Rgb {
  if (shows === "use") return by.ramp[held(of, port.node, by.ramp.length) ?? -1] ?? by.none;
  return kinds(by)[kindOf(of, port)] ?? by.none;
}

/** A colour as a pixel. */
function pixel([r, g, b]: Rgb): number {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** The whole fabric as it is painted once, and copied for each frame; `scale`: its pixels for each cell. */
export interface Picture {
  canvas: HTMLCanvasElement;
  scale: number;
}

/** The whole fabric, a pixel for each port. */
export function picture(of: Model, shows: Shows, dark: boolean): Picture {
  const by = colours(dark);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [of.width, of.height];
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const image = context.createImageData(of.width, of.height);
  const pixels = new Uint32Array(image.data.buffer);
  const [none, ramp] = [pixel(by.none), by.ramp.map(pixel)];
  const kind = new Uint32Array(256).fill(none);
  kind.set(kinds(by).map(pixel));
  const { rails, ports } = of;
  for (const pod of of.pods) {
    for (let row = 0; row < pod.count; row += 1) {
      const node = pod.first + row;
      const line = (pod.y + row) * of.width + pod.x;
      if (shows === "use") pixels.fill(ramp[held(of, node, ramp.length) ?? -1] ?? none, line, line + rails);
      else for (let rail = 0; rail < rails; rail += 1) pixels[line + rail] = kind[ports[node * rails + rail] ?? NONE] as number;
    }
  }
  context.putImageData(image, 0, 0);
  return { canvas, scale: 1 };
}

/** Ports that are not usable and are made larger than they are: of more, the picture tells by itself. */
const PICKED = 20_000;
/** Pixels of such a port across. */
const PICK = 2;

/** A picture with fewer pixels, each of them the mean of those that it stands for; ports that are not usable stay large enough to be seen. */
export function smaller({ canvas }: Picture, scale: number, of: Model, shows: Shows, dark: boolean): Picture {
  const made = document.createElement("canvas");
  [made.width, made.height] = [Math.ceil(canvas.width * scale), Math.ceil(canvas.height * scale)];
  const context = made.getContext("2d") as CanvasRenderingContext2D;
  context.imageSmoothingQuality = "medium";
  context.drawImage(canvas, 0, 0, canvas.width * scale, canvas.height * scale);
  const { counts, ports, rails } = of;
  if (shows === "use" || (counts[DRAINED] as number) + (counts[DOWN] as number) > PICKED) return { canvas: made, scale };
  const styles = kinds(colours(dark)).map(([r, g, b]) => `rgb(${r} ${g} ${b})`);
  for (const pod of of.pods) {
    const end = (pod.first + pod.count) * rails;
    for (let at = pod.first * rails; at < end; at += 1) {
      const kind = ports[at] ?? NONE;
      if (kind <= WELL) continue;
      context.fillStyle = styles[kind] ?? "";
      context.fillRect(Math.floor((pod.x + (at % rails)) * scale), Math.floor((pod.y + Math.floor(at / rails) - pod.first) * scale), PICK, PICK);
    }
  }
  return { canvas: made, scale };
}

/** From so many pixels a cell on, ports stand apart, with their marks. */
const CLOSE = 9;
/** From so many on, they have their names. */
const NAMED = 34;

/** Draws what is seen of it. `ratio`: pixels of the device for each of the page. */
export function draw(on: CanvasRenderingContext2D, of: Model, base: Picture, view: View, shows: Shows, dark: boolean, ratio: number, chosen?: Port): void {
  const { width, height } = on.canvas;
  const scale = view.scale * ratio;
  on.setTransform(1, 0, 0, 1, 0, 0);
  on.clearRect(0, 0, width, height);
  if (base.scale === scale) on.drawImage(base.canvas, Math.round(-view.x * scale), Math.round(-view.y * scale));
  else enlarged(on, of, base.canvas, view, scale);
  const by = colours(dark);
  const titled = view.scale * of.rails > 70;
  if (titled || view.scale >= CLOSE) {
    for (const pod of of.pods) {
      const [left, top] = [(pod.x - view.x) * scale, (pod.y - view.y) * scale];
      if (left > width || top > height || left + of.rails * scale < 0 || top + pod.count * scale < 0) continue;
      if (view.scale >= CLOSE) ports(on, of, pod, left, top, scale, ratio, shows, by);
      if (titled) {
        on.fillStyle = by.ink;
        on.font = `600 ${11 * ratio}px system-ui, sans-serif`;
        on.fillText(pod.name, left, Math.max(top - 5 * ratio, 11 * ratio));
      }
    }
  }
  if (chosen) outline(on, of, view, scale, ratio, chosen, by);
}

/** Draws so much of the picture as is seen, larger or, while it is zoomed, smaller. */
function enlarged(on: CanvasRenderingContext2D, of: Model, base: HTMLCanvasElement, view: View, scale: number): void {
  on.imageSmoothingEnabled = scale < 1;
  on.imageSmoothingQuality = "low";
  const [x, y] = [Math.max(0, Math.floor(view.x)), Math.max(0, Math.floor(view.y))];
  const width = Math.min(of.width, Math.ceil(view.x + on.canvas.width / scale)) - x;
  const height = Math.min(of.height, Math.ceil(view.y + on.canvas.height / scale)) - y;
  if (width > 0 && height > 0) on.drawImage(base, x, y, width, height, (x - view.x) * scale, (y - view.y) * scale, width * scale, height * scale);
}

/** Parts the ports of a pod that are seen, and gives them marks and names. */
function ports(on: CanvasRenderingContext2D, of: Model, pod: Pod, left: number, top: number, scale: number, ratio: number, shows: Shows, by: Colours): void {
  const seen = (start: number, size: number, count: number): [number, number] => [Math.max(0, Math.floor(-start / scale)), Math.min(count, Math.ceil((size - start) / scale))];
  const [from, to] = seen(top, on.canvas.height, pod.count);
  const [first, last] = seen(left, on.canvas.width, of.rails);
  const gap = Math.max(ratio, scale * 0.08);
  const side = scale - gap;
  for (let row = from; row < to; row += 1) on.clearRect(left + first * scale, top + row * scale + side, (last - first) * scale, gap);
  for (let rail = first; rail < last; rail += 1) on.clearRect(left + rail * scale + side, top + from * scale, gap, (to - from) * scale);
  on.strokeStyle = by.mark;
  on.lineWidth = Math.max(ratio, side * 0.07);
  on.beginPath();
  const named = scale / ratio >= NAMED;
  for (let row = from; row < to; row += 1) {
    for (let rail = first; rail < last; rail += 1) {
      const port = { node: pod.first + row, rail };
      mark(on, kindOf(of, port), left + rail * scale, top + row * scale, side);
    }
  }
  on.stroke();
  if (!named) return;
  on.textBaseline = "alphabetic";
  on.font = `${10 * ratio}px system-ui, sans-serif`;
  for (let row = from; row < to; row += 1) {
    for (let rail = first; rail < last; rail += 1) {
      const port = { node: pod.first + row, rail };
      const [r, g, b] = colour(of, shows, port, by);
      // On a dark blue or a strong orange the common ink is not read.
      on.fillStyle = r * 0.3 + g * 0.6 + b * 0.1 > 128 ? "#101418" : "#f2f4f6";
      const [x, y] = [left + rail * scale + 3 * ratio, top + row * scale];
      on.fillText(`${rail}`, x, y + side - 3 * ratio);
      if (rail === 0) on.fillText(of.names.of(port.node), x, y + 12 * ratio, scale * of.rails);
    }
  }
}

/** A stroke through what is drained, a cross through what is out of use. */
function mark(on: CanvasRenderingContext2D, kind: number, x: number, y: number, side: number): void {
  if (kind !== DRAINED && kind !== DOWN) return;
  const inset = side * 0.28;
  on.moveTo(x + inset, y + side - inset);
  on.lineTo(x + side - inset, y + inset);
  if (kind === DOWN) {
    on.moveTo(x + inset, y + inset);
    on.lineTo(x + side - inset, y + side - inset);
  }
}

function outline(on: CanvasRenderingContext2D, of: Model, view: View, scale: number, ratio: number, chosen: Port, by: Colours): void {
  const found = cell(of, chosen);
  if (!found) return;
  const [x, y] = [(found.x - view.x) * scale, (found.y - view.y) * scale];
  const side = Math.max(scale, 7 * ratio);
  on.strokeStyle = by.focus;
  on.lineWidth = 2.5 * ratio;
  on.strokeRect(x - ratio, y - ratio, side, side);
}
