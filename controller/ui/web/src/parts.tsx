// Small parts that all pages are made of: words for times and sizes, marks of phases, meters, tables, faults.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Reason } from "../../../../cli/clients/typescript/src/index.js";

/** Marks of a job's phases: a shape beside the word, so that nothing is told by colour alone. */
const MARKS: Record<string, [string, string]> = {
  PENDING: ["○", "wait"],
  RESERVED: ["◔", "wait"],
  PREPARING: ["◑", "go"],
  RUNNING: ["●", "go"],
  RECOVERING: ["◐", "warn"],
  COMPLETED: ["✓", "ok"],
  FAILED: ["✕", "bad"],
  CANCELLED: ["⊘", "off"],
};

/** All phases, in the order of a job's life. */
export const PHASES = Object.keys(MARKS);

/** The mark of a phase and its tone. */
export function phaseMark(phase: string): { mark: string; tone: string } {
  const [mark, tone] = MARKS[phase] ?? ["?", "off"];
  return { mark, tone };
}

/** A phase as people read it. */
export function Phase({ of }: { of: string | undefined }) {
  const { mark, tone } = phaseMark(of ?? "PENDING");
  return (
    <span class={`phase tone-${tone}`}>
      <span aria-hidden="true">{mark}</span> {(of ?? "PENDING").toLowerCase()}
    </span>
  );
}

/** A word with a tone: ok, warn, bad, off, go or wait. */
export function Mark({ tone, children }: { tone: string; children: ComponentChildren }) {
  const mark = { ok: "✓", warn: "▲", bad: "✕", off: "⊘", go: "●", wait: "○" }[tone] ?? "·";
  return (
    <span class={`phase tone-${tone}`}>
      <span aria-hidden="true">{mark}</span> {children}
    </span>
  );
}

/** Milliseconds since 1970 of a time of the API; NaN without one. */
export function instant(text: string | undefined): number {
  return text ? Date.parse(text) : NaN;
}

/** Milliseconds of a duration of the API, as `90s`; NaN without one. */
export function lasting(text: string | undefined): number {
  const found = /^(-?[\d.]+)s$/.exec(text ?? "");
  return found ? Number(found[1]) * 1000 : NaN;
}

/** A span as people read it: `4 min 10 s`. */
export function span(ms: number): string {
  if (!Number.isFinite(ms)) return "—";
  const s = Math.max(0, ms / 1000);
  if (s < 1) return `${Math.round(ms)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const two = (whole: number, unit: string, rest: number, part: string) => (rest ? `${whole} ${unit} ${rest} ${part}` : `${whole} ${unit}`);
  if (s < 3600) return two(Math.floor(s / 60), "min", Math.floor(s % 60), "s");
  if (s < 86_400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return two(Math.floor(s / 86_400), "d", Math.floor((s % 86_400) / 3600), "h");
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });

/** A time in short: the clock of today, with the day before that. */
export function shortTime(at: string | undefined): string {
  const ms = instant(at);
  if (Number.isNaN(ms)) return "—";
  const near = Math.abs(Date.now() - ms) < 12 * 3_600_000;
  return `${near ? "" : `${DAY.format(ms)} `}${CLOCK.format(ms)}`;
}

/** A time in short; whole in its title. */
export function Time({ at }: { at: string | undefined }) {
  if (Number.isNaN(instant(at))) return <span class="quiet">—</span>;
  return (
    <time dateTime={at} title={new Date(instant(at)).toISOString()}>
      {shortTime(at)}
    </time>
  );
}

/** Bytes in binary units. */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (count >= 1024 && at < units.length - 1) {
    count /= 1024;
    at += 1;
  }
  return `${at && count < 100 ? count.toFixed(1) : Math.round(count)} ${units[at]}`;
}

/** Bytes a second as a line rate. */
export function rate(perSecond: number): string {
  const bits = perSecond * 8;
  if (bits >= 1e9) return `${(bits / 1e9).toFixed(1)} Gbit/s`;
  if (bits >= 1e6) return `${(bits / 1e6).toFixed(1)} Mbit/s`;
  return `${(bits / 1e3).toFixed(bits >= 1e4 ? 0 : 1)} kbit/s`;
}

/** A number of things in words. */
export function many(count: number, one: string, more = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : more}`;
}

/** A part of a whole as a bar, with its numbers in words beside it. */
export function Meter({ value, of, label, tone = "go" }: { value: number; of: number; label: string; tone?: string }) {
  const part = of > 0 ? Math.min(1, value / of) : 0;
  return (
    <span class="meter" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={of} aria-valuenow={Math.min(value, of)}>
      <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        <rect class="meter-all" width="100" height="6" />
        <rect class={`fill-${tone}`} width={part * 100} height="6" />
      </svg>
    </span>
  );
}

/** Causes that say the same of several rails are one. */
function joined(of: Reason[]): Reason[] {
  const found = new Map<string, { one: Reason; rails: string[] }>();
  for (const one of of) {
    const key = `${one.code} ${(one.message ?? "").replace(/\brail \d+/, "rail")}`;
    const rail = /\brail (\d+)/.exec(one.message ?? "")?.[1];
    const same = found.get(key);
    if (same && rail) same.rails.push(rail);
    else found.set(same ? `${key} ${found.size}` : key, { one, rails: rail ? [rail] : [] });
  }
  return [...found.values()].map(({ one, rails }) =>
    rails.length < 2 ? one : { ...one, scope: "", message: one.message?.replace(/\brail \d+/, `each of rails ${rails.join(", ")}`) },
  );
}

/** Causes, one a line: the code for those who search, the sentence for those who read. */
export function Reasons({ of, none }: { of: Reason[] | undefined; none?: string }) {
  if (!of?.length) return none ? <p class="quiet">{none}</p> : null;
  return (
    <ul class="reasons">
      {joined(of).map((one, at) => (
        <li key={at}>
          <code>{one.code}</code> {one.message}
          {(one.count ?? 0) > 1 && <span class="quiet"> · {one.count}</span>}
          {one.scope && <span class="quiet"> · {one.scope}</span>}
        </li>
      ))}
    </ul>
  );
}

/** What the API refused, with every field that is wrong. */
export function Fault({ of }: { of: Error | undefined }) {
  if (!of) return null;
  const api = of instanceof ApiError ? of : undefined;
  if (api?.code === 403) {
    return (
      <p class="note" role="status">
        Your role may not see this: {api.text}
      </p>
    );
  }
  return (
    <div class="fault" role="alert">
      <p>
        <Mark tone="bad">{api ? api.text : of.message}</Mark> {api?.reason && <code>{api.reason}</code>}
      </p>
      {api && api.violations.length > 0 && (
        <ul>
          {api.violations.map((one, at) => (
            <li key={at}>
              <code>{one.field}</code> {one.message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** A part of a page with its heading. */
export function Panel({ title, aside, children, wide }: { title: string; aside?: ComponentChildren; children: ComponentChildren; wide?: boolean }) {
  const id = `panel-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return (
    <section class={wide ? "panel wide" : "panel"} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  );
}

/** A table that scrolls sideways by itself where the window is narrow. */
export function Table({ label, head, children, numbers = [] }: { label: string; head: string[]; children: ComponentChildren; numbers?: number[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {head.map((one, at) => (
              <th key={one} scope="col" class={numbers.includes(at) ? "number" : ""}>
                {one}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** A number with its name. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** The height of an element and how far it is scrolled, for lists of which only what is seen is drawn. */
export function useWindow<E extends HTMLElement>(): { ref: { current: E | null }; top: number; height: number } {
  const ref = useRef<E>(null);
  const [seen, set] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = () => set({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);
  return { ref, ...seen };
}

/** A button that does something at the controller: it asks once more first, and says what came of it. */
export function Act({ name, ask, danger, run }: { name: string; ask: string; danger?: boolean; run: () => Promise<unknown> }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [state, set] = useState<{ busy?: boolean; error?: Error }>({});
  const act = async (event: JSX.TargetedEvent) => {
    event.preventDefault();
    set({ busy: true });
    try {
      await run();
      set({});
      dialog.current?.close();
    } catch (error) {
      set({ error: error as Error });
    }
  };
  return (
    <>
      <button type="button" class={danger ? "danger" : ""} onClick={() => dialog.current?.showModal()}>
        {name}
      </button>
      <dialog ref={dialog} aria-label={name} onClose={() => set({})}>
        <p>{ask}</p>
        <Fault of={state.error} />
        <p class="actions">
          <button type="button" class={danger ? "danger" : "first"} disabled={state.busy} onClick={act}>
            {name}
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            Leave it
          </button>
        </p>
      </dialog>
    </>
  );
}
