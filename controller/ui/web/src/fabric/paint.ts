// Draws the fabric: one picture with a pixel for each port, scaled; close up, ports with their marks and names.

import { DOWN, DRAINED, NONE, type Model, type Port } from "./model.js";

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

function colour(of: Model, shows: Shows, node: number, rail: number, by: Colours): Rgb {
  const kind = of.ports[node * of.rails + rail];
  if (shows === "use") {
    const gpus = of.gpus[node] ?? 0;
    if (!gpus) return by.none;
    const part = (gpus - (of.free[node] ?? 0)) / gpus;
    return by.ramp[Math.round(part * (by.ramp.length - 1))] as Rgb;
  }
  return kind === NONE ? by.none : kind === DRAINED ? by.drained : kind === DOWN ? by.down : by.well;
}

/** The whole fabric, a pixel for each port. */
export function picture(of: Model, shows: Shows, dark: boolean): HTMLCanvasElement {
  const by = colours(dark);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [of.width, of.height];
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const image = context.createImageData(of.width, of.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (const pod of of.pods) {
    for (let row = 0; row < pod.count; row += 1) {
      const line = (pod.y + row) * of.width + pod.x;
      for (let rail = 0; rail < of.rails; rail += 1) {
        const [r, g, b] = colour(of, shows, pod.first + row, rail, by);
        pixels[line + rail] = (255 << 24) | (b << 16) | (g << 8) | r;
      }
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** From so many pixels a cell on, ports are drawn one by one. */
const CLOSE = 9;

/** Draws what is seen of it. `ratio`: pixels of the device for each of the page. */
export function draw(on: CanvasRenderingContext2D, of: Model, base: HTMLCanvasElement, view: View, shows: Shows, dark: boolean, ratio: number, chosen?: Port): void {
  const { width, height } = on.canvas;
  const scale = view.scale * ratio;
  on.setTransform(1, 0, 0, 1, 0, 0);
  on.clearRect(0, 0, width, height);
  on.imageSmoothingEnabled = scale < 1;
  on.imageSmoothingQuality = "medium";
  const close = view.scale >= CLOSE;
  if (!close) on.drawImage(base, -view.x * scale, -view.y * scale, of.width * scale, of.height * scale);
  const by = colours(dark);
  for (const pod of of.pods) {
    const [left, top] = [(pod.x - view.x) * scale, (pod.y - view.y) * scale];
    if (left > width || top > height || left + of.rails * scale < 0 || top + pod.count * scale < 0) continue;
    if (close) ports(on, of, pod.first, pod.count, left, top, scale, ratio, shows, by);
    if (view.scale * of.rails > 70) {
      on.fillStyle = by.ink;
      on.font = `600 ${11 * ratio}px system-ui, sans-serif`;
      on.fillText(pod.name, left, Math.max(top - 5 * ratio, 11 * ratio));
    }
  }
  if (chosen) outline(on, of, view, scale, ratio, chosen, by);
}

function ports(on: CanvasRenderingContext2D, of: Model, first: number, count: number, left: number, top: number, scale: number, ratio: number, shows: Shows, by: Colours): void {
  const from = Math.max(0, Math.floor(-top / scale));
  const to = Math.min(count, Math.ceil((on.canvas.height - top) / scale));
  const gap = Math.max(ratio, scale * 0.08);
  const named = scale / ratio >= 34;
  on.textBaseline = "alphabetic";
  for (let row = from; row < to; row += 1) {
    const node = first + row;
    for (let rail = 0; rail < of.rails; rail += 1) {
      const [x, y, side] = [left + rail * scale, top + row * scale, scale - gap];
      if (x > on.canvas.width || x + side < 0) continue;
      const [r, g, b] = colour(of, shows, node, rail, by);
      on.fillStyle = `rgb(${r} ${g} ${b})`;
      on.fillRect(x, y, side, side);
      mark(on, of.ports[node * of.rails + rail] ?? NONE, x, y, side, ratio, by);
      if (named) {
        // On a dark blue or a strong orange the common ink is not read.
        on.fillStyle = r * 0.3 + g * 0.6 + b * 0.1 > 128 ? "#101418" : "#f2f4f6";
        on.font = `${10 * ratio}px system-ui, sans-serif`;
        on.fillText(`${rail}`, x + 3 * ratio, y + side - 3 * ratio);
        if (rail === 0) on.fillText(of.names[node] ?? "", x + 3 * ratio, y + 12 * ratio, scale * of.rails);
      }
    }
  }
}

/** A stroke through what is drained, a cross through what is out of use. */
function mark(on: CanvasRenderingContext2D, kind: number, x: number, y: number, side: number, ratio: number, by: Colours): void {
  if (kind !== DRAINED && kind !== DOWN) return;
  const inset = side * 0.28;
  on.strokeStyle = by.mark;
  on.lineWidth = Math.max(ratio, side * 0.07);
  on.beginPath();
  on.moveTo(x + inset, y + side - inset);
  on.lineTo(x + side - inset, y + inset);
  if (kind === DOWN) {
    on.moveTo(x + inset, y + inset);
    on.lineTo(x + side - inset, y + side - inset);
  }
  on.stroke();
}

function outline(on: CanvasRenderingContext2D, of: Model, view: View, scale: number, ratio: number, chosen: Port, by: Colours): void {
  const pod = of.pods.find((one) => chosen.node >= one.first && chosen.node < one.first + one.count);
  if (!pod) return;
  const x = (pod.x + chosen.rail - view.x) * scale;
  const y = (pod.y + chosen.node - pod.first - view.y) * scale;
  const side = Math.max(scale, 7 * ratio);
  on.strokeStyle = by.focus;
  on.lineWidth = 2.5 * ratio;
  on.strokeRect(x - ratio, y - ratio, side, side);
}
