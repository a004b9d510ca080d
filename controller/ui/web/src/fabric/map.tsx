// The map: a canvas that is moved, zoomed and walked over with the mouse, by touch or with keys.

import { useLayoutEffect, useRef } from "preact/hooks";
import { cell, podOf, portAt, type Model, type Port } from "./model.js";
import { draw, picture, smaller, type Picture, type Shows, type View } from "./paint.js";

interface MapProps {
  model: Model;
  shows: Shows;
  chosen: Port | undefined;
  choose: (port: Port) => void;
  /** What the chosen port is, in words. */
  words: string;
}

/** How long nothing is zoomed until the picture is made anew at its size, in milliseconds. */
const RESTS = 150;
/** Pixels of a port at most, and of one where all of a small fabric is seen. */
const LARGEST = 160;
const FITTED = 88;

function isDark(): boolean {
  const theme = document.documentElement.dataset["theme"];
  return theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

/** What is drawn, beside the elements: kept over changes of what is shown. */
class Map2d {
  view: View = { x: 0, y: 0, scale: 1 };
  private base: Picture | undefined;
  /** The same as small as it is shown, so that moving it costs no more than copying it. */
  private shrunk: Picture | undefined;
  private made = "";
  private resting: ReturnType<typeof setTimeout> | undefined;
  private asked = 0;
  private fitted = "";
  props: MapProps;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    props: MapProps,
  ) {
    this.props = props;
  }

  private get size(): [number, number] {
    return [this.canvas.clientWidth, this.canvas.clientHeight];
  }

  /** All of it, in the middle. */
  fit(): void {
    const { model } = this.props;
    const [width, height] = this.size;
    const margin = 20;
    const scale = Math.min(FITTED, (width - 2 * margin) / model.width, (height - 2 * margin) / model.height);
    this.view = { scale, x: -(width / scale - model.width) / 2, y: -(height / scale - model.height) / 2 };
  }

  /** Draws at the next frame. */
  paint(remake = false): void {
    if (remake) this.made = "";
    this.asked ||= requestAnimationFrame(() => {
      this.asked = 0;
      this.now();
    });
  }

  private now(): void {
    const { model, shows, chosen } = this.props;
    const dark = isDark();
    const ratio = devicePixelRatio || 1;
    const [width, height] = this.size;
    if (!width || !height) return;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w) this.canvas.width = w;
    if (this.canvas.height !== h) this.canvas.height = h;
    const shape = `${model.width}x${model.height}/${width}x${height}`;
    if (this.fitted !== shape) {
      this.fitted = shape;
      this.fit();
    }
    const key = `${shows}${dark}`;
    if (this.made !== key || !this.base) {
      this.base = picture(model, shows, dark);
      this.shrunk = undefined;
      this.made = key;
    }
    const scale = this.view.scale * ratio;
    const painted = Number(this.canvas.dataset["painted"] ?? 0);
    // The first picture is there sooner without that.
    if (scale < 1 && this.shrunk?.scale !== scale) this.shrink(scale, !this.shrunk && painted > 0);
    const base = this.shrunk?.scale === scale ? this.shrunk : this.base;
    const context = this.canvas.getContext("2d");
    if (context) draw(context, model, base, this.view, shows, dark, ratio, chosen);
    this.canvas.dataset["painted"] = String(painted + 1);
  }

  /** Makes the picture as small as it is shown: now, or when nothing is zoomed for a while. */
  private shrink(scale: number, now: boolean): void {
    clearTimeout(this.resting);
    const make = () => {
      const { model, shows } = this.props;
      if (this.base) this.shrunk = smaller(this.base, scale, model, shows, isDark());
    };
    if (now) make();
    else
      this.resting = setTimeout(() => {
        make();
        this.paint();
      }, RESTS);
  }

  /** Draws nothing any more. */
  close(): void {
    clearTimeout(this.resting);
    cancelAnimationFrame(this.asked);
  }

  move(dx: number, dy: number): void {
    this.view.x -= dx / this.view.scale;
    this.view.y -= dy / this.view.scale;
    this.paint();
  }

  /** Zooms so that the place under a point of the canvas stays there. */
  zoom(factor: number, px = this.size[0] / 2, py = this.size[1] / 2): void {
    const { view } = this;
    const scale = Math.min(LARGEST, Math.max(0.05, view.scale * factor));
    view.x += px / view.scale - px / scale;
    view.y += py / view.scale - py / scale;
    view.scale = scale;
    this.paint();
  }

  at(px: number, py: number): Port | undefined {
    return portAt(this.props.model, this.view.x + px / this.view.scale, this.view.y + py / this.view.scale);
  }

  /** Moves the view as far as it takes to see a port. */
  show(port: Port): void {
    const found = cell(this.props.model, port);
    if (!found) return;
    const { view } = this;
    const [width, height] = [this.size[0] / view.scale, this.size[1] / view.scale];
    if (found.x < view.x || found.x + 1 > view.x + width) view.x = found.x - width / 2;
    if (found.y < view.y || found.y + 1 > view.y + height) view.y = found.y - height / 2;
    this.paint();
  }
}

function pointers(canvas: HTMLCanvasElement, map: Map2d): () => void {
  const end = new AbortController();
  const { signal } = end;
  const down = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const where = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, where(event));
    moved = 0;
  }, { signal });
  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const now = where(event);
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const distance = (one: { x: number; y: number }) => Math.hypot(one.x - other.x, one.y - other.y) || 1;
      map.zoom(distance(now) / distance(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
    } else {
      map.move(now.x - before.x, now.y - before.y);
    }
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    down.set(event.pointerId, now);
  }, { signal });
  const up = (event: PointerEvent) => {
    const was = down.delete(event.pointerId);
    const { x, y } = where(event);
    const port = was && moved < 5 && event.type === "pointerup" ? map.at(x, y) : undefined;
    if (port) map.props.choose(port);
  };
  canvas.addEventListener("pointerup", up, { signal });
  canvas.addEventListener("pointercancel", up, { signal });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y } = where(event);
    map.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), x, y);
  }, { signal, passive: false });
  return () => end.abort();
}

/** What an arrow chooses: the next port beside the chosen one, over the borders of pods. */
function step(model: Model, from: Port | undefined, key: string): Port | undefined {
  if (!from) return model.nodes ? { node: 0, rail: 0 } : undefined;
  const { node, rail } = from;
  const pod = podOf(model, node);
  if (!pod) return undefined;
  if (key === "ArrowUp" || key === "ArrowDown") {
    const next = node + (key === "ArrowUp" ? -1 : 1);
    return next >= 0 && next < model.nodes ? { node: next, rail } : from;
  }
  const next = rail + (key === "ArrowLeft" ? -1 : 1);
  if (next >= 0 && next < model.rails) return { node, rail: next };
  const beside = model.pods[model.pods.indexOf(pod) + (next < 0 ? -1 : 1)];
  if (!beside) return from;
  return { node: beside.first + Math.min(node - pod.first, beside.count - 1), rail: next < 0 ? model.rails - 1 : 0 };
}

function Tools({ map }: { map: { current: Map2d | undefined } }) {
  return (
    <div class="map-tools">
      <button type="button" aria-label="Zoom in" onClick={() => map.current?.zoom(1.4)}>
        +
      </button>
      <button type="button" aria-label="Zoom out" onClick={() => map.current?.zoom(1 / 1.4)}>
        −
      </button>
      <button
        type="button"
        onClick={() => {
          map.current?.fit();
          map.current?.paint();
        }}
      >
        All
      </button>
    </div>
  );
}

/** The map with its buttons. */
export function FabricMap(props: MapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const map = useRef<Map2d>();
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    const made = new Map2d(element, props);
    map.current = made;
    const stop = pointers(element, made);
    const again = () => made.paint(true);
    const observer = new ResizeObserver(() => made.paint());
    observer.observe(element);
    addEventListener("themechange", again);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", again);
    return () => {
      stop();
      made.close();
      observer.disconnect();
      removeEventListener("themechange", again);
      scheme.removeEventListener("change", again);
    };
  }, []);
  useLayoutEffect(() => {
    const made = map.current;
    if (!made) return;
    const { model, shows, chosen } = made.props;
    const other = model !== props.model;
    made.props = props;
    if (other || shows !== props.shows || chosen?.node !== props.chosen?.node || chosen?.rail !== props.chosen?.rail) made.paint(other);
  });
  const press = (event: KeyboardEvent) => {
    const made = map.current;
    if (!made || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) {
      const next = step(props.model, props.chosen, event.key);
      if (next) {
        props.choose(next);
        made.show(next);
      }
    } else if (event.key === "+" || event.key === "=") made.zoom(1.4);
    else if (event.key === "-") made.zoom(1 / 1.4);
    else if (event.key === "0") {
      made.fit();
      made.paint();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="map">
      <canvas ref={canvas} tabIndex={0} role="application" aria-label="Map of the fabric: arrows walk over ports, plus and minus zoom" aria-describedby="map-words" onKeyDown={press} />
      <p id="map-words" class="sr" aria-live="polite">
        {props.words}
      </p>
      <Tools map={map} />
    </div>
  );
}
