// The rows that are seen. Their elements stay and are filled anew as the list is scrolled, so that a frame changes some texts and no more.

import type { Job } from "../../../../../cli/clients/typescript/src/index.js";
import { keyOf } from "../live.js";
import { instant, phaseMark, shortTime, span } from "../parts.js";
import { jobPage } from "../route.js";
import { gpus, nodes, phaseOf } from "./list.js";

/** Pixels of a row. */
export const ROW = 29;
/** Rows drawn above and below those that are seen. */
const MORE = 8;
/** How long nothing is scrolled until rows stand in the document in their order again, in milliseconds. */
const SETTLES = 120;

/** How long it has run, or waited. */
function age(job: Job, now: number): string {
  const { startTime, endTime, submitTime } = job.status ?? {};
  const from = instant(startTime ?? submitTime);
  return span((endTime ? instant(endTime) : now) - from);
}

/** The element of one row. */
class Slot {
  readonly element = document.createElement("div");
  readonly link = document.createElement("a");
  readonly cells: HTMLElement[];
  private readonly mark = document.createElement("span");
  private readonly phase = document.createElement("span");
  private readonly texts: Text[] = [];
  private tone = "";
  at = -1;
  job: Job | undefined;

  constructor() {
    this.element.setAttribute("role", "row");
    this.element.className = "row";
    const cell = (name: string, inside?: HTMLElement, tag = "span") => {
      const made = document.createElement(tag);
      made.setAttribute("role", "cell");
      if (name) made.className = name;
      const text = document.createTextNode("");
      (inside ?? made).append(text);
      if (inside) made.append(inside);
      this.texts.push(text);
      this.element.append(made);
      return made;
    };
    this.mark.setAttribute("aria-hidden", "true");
    this.cells = [
      cell("", this.phase),
      cell("cut", this.link),
      cell("cut"),
      cell("cut"),
      cell("cut"),
      cell("number"),
      cell("number"),
      cell("", undefined, "time"),
      cell("number"),
      cell("cut why"),
    ];
    this.phase.prepend(this.mark);
  }

  private write(column: number, text: string): void {
    const found = this.texts[column] as Text;
    if (found.data !== text) found.data = text;
  }

  /** Shows nothing, until it is filled. */
  hide(): void {
    if (!this.element.hidden) this.element.hidden = true;
    this.at = -1;
    this.job = undefined;
  }

  fill(job: Job, at: number): void {
    if (at !== this.at) {
      this.at = at;
      if (this.element.hidden) this.element.hidden = false;
      this.element.style.top = `${at * ROW}px`;
      this.element.setAttribute("aria-rowindex", String(at + 2));
    }
    if (job === this.job) return;
    this.job = job;
    const { metadata, spec, status } = job;
    const { mark, tone } = phaseMark(phaseOf(job));
    if (tone !== this.tone) this.phase.className = `phase tone-${(this.tone = tone)}`;
    if (this.mark.textContent !== mark) this.mark.textContent = mark;
    const why = phaseOf(job) === "COMPLETED" ? "" : (status?.reasons?.[0]?.message ?? "");
    const submit = status?.submitTime ?? "";
    const texts = [` ${phaseOf(job).toLowerCase()}`, metadata?.name, metadata?.tenant, status?.submitter?.user, spec?.queue, `${nodes(job)}`, `${gpus(job)}`, shortTime(submit)];
    texts.forEach((text, column) => this.write(column, text ?? ""));
    this.write(9, why);
    this.link.href = jobPage(metadata?.tenant, metadata?.name);
    const [time, since] = [this.cells[7] as HTMLTimeElement, instant(submit)];
    time.dateTime = submit;
    time.title = Number.isNaN(since) ? "" : new Date(since).toISOString();
    (this.cells[9] as HTMLElement).title = why;
  }

  /** What changes by itself, and with what is chosen. */
  refresh(now: number, chosen: string): void {
    if (!this.job) return;
    this.write(8, age(this.job, now));
    const name = keyOf(this.job) === chosen ? "row chosen" : "row";
    if (this.element.className !== name) this.element.className = name;
  }
}

/** The rows of a list that scrolls, in its body. */
export class Rows {
  private jobs: Job[] = [];
  private chosen = "";
  private slots: Slot[] = [];
  /** The row that stands in the first element, of all rows beginning with the first that is drawn. */
  private base = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly end = new AbortController();
  private readonly observer: ResizeObserver;
  private height: number;

  constructor(
    private readonly list: HTMLElement,
    private readonly body: HTMLElement,
  ) {
    const { signal } = this.end;
    this.height = list.clientHeight;
    this.observer = new ResizeObserver(() => {
      this.height = list.clientHeight;
      this.draw();
    });
    this.observer.observe(list);
    list.addEventListener("scroll", () => this.draw(), { signal, passive: true });
    // Whoever goes through rows by keys finds them in their order.
    list.addEventListener("keydown", () => this.settle(), { signal, capture: true });
    const clock = setInterval(() => this.refresh(), 1000);
    signal.addEventListener("abort", () => clearInterval(clock));
  }

  /** Draws nothing any more. */
  close(): void {
    this.end.abort();
    clearTimeout(this.timer);
    this.observer.disconnect();
  }

  /** Other jobs, or another one that is chosen. */
  show(jobs: Job[], chosen: string): void {
    [this.jobs, this.chosen] = [jobs, chosen];
    this.body.style.height = `${Math.max(jobs.length, 1) * ROW}px`;
    this.draw();
    this.refresh();
  }

  /** Scrolls as far as it takes to see a row. */
  see(at: number): void {
    const { list, height } = this;
    if (at * ROW < list.scrollTop) list.scrollTop = at * ROW;
    else if ((at + 2) * ROW > list.scrollTop + height) list.scrollTop = (at + 2) * ROW - height;
  }

  private refresh(): void {
    const now = Date.now();
    for (const slot of this.slots) slot.refresh(now, this.chosen);
  }

  /** As many elements as rows are drawn. */
  private resize(count: number): boolean {
    if (count === this.slots.length) return false;
    while (this.slots.length > count) this.slots.pop()?.element.remove();
    while (this.slots.length < count) {
      const slot = new Slot();
      this.slots.push(slot);
      this.body.append(slot.element);
    }
    return true;
  }

  private get first(): number {
    const first = Math.floor(this.list.scrollTop / ROW) - MORE;
    return Math.max(0, Math.min(first, this.jobs.length - this.slots.length));
  }

  /** The key of the row that has the focus; empty if none has. */
  private get focused(): string {
    const job = this.slots.find((slot) => slot.link === document.activeElement)?.job;
    return job ? keyOf(job) : "";
  }

  private draw(): void {
    // An element that goes takes the focus with it.
    const focused = this.focused;
    const resized = this.resize(Math.min(this.jobs.length, Math.ceil(this.height / ROW) + 2 * MORE + 1));
    // Asked for once, before anything is changed: afterwards the browser would have to lay all out to tell.
    const first = this.first;
    if (resized || this.body.contains(document.activeElement)) this.settle(first, focused);
    else this.fill(first);
    clearTimeout(this.timer);
    if (this.base !== first) this.timer = setTimeout(() => this.settle(), SETTLES);
  }

  /** Has elements in the document in the order of their rows, with the focus where it was. */
  private settle(first = this.first, focused = this.focused): void {
    this.base = first;
    this.fill(first);
    if (!focused) return;
    const slot = this.slots.find((one) => one.job && keyOf(one.job) === focused);
    (slot?.link ?? this.list).focus({ preventScroll: true });
  }

  private fill(first: number): void {
    const [count, now] = [this.slots.length, Date.now()];
    for (let at = first; at < first + count; at += 1) {
      const slot = this.slots[(((at - this.base) % count) + count) % count] as Slot;
      const job = this.jobs[at];
      // The list may have become shorter since it was last shown.
      if (!job) {
        slot.hide();
        continue;
      }
      if (slot.at === at && slot.job === job) continue;
      slot.fill(job, at);
      slot.refresh(now, this.chosen);
    }
  }
}
