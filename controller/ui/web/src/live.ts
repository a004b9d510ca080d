// What is followed: rows that come by the tab's one stream, and are drawn at most once a frame by whoever shows them; and answers that are
// asked for again when it says that they are others.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Job, Node } from "../../../../cli/clients/typescript/src/index.js";
import type { Session } from "./session.js";
import { Stream, type Kind } from "./stream.js";

/** How long rows are followed that nobody shows any more, in milliseconds. */
const LINGER = 20_000;

interface Event {
  type?: string;
}

interface Row {
  metadata?: { name?: string; tenant?: string; resourceVersion?: string };
}

/** The key of a row. */
export function keyOf(row: Row): string {
  return `${row.metadata?.tenant ?? ""}/${row.metadata?.name ?? ""}`;
}

/** Is told of a row as it was and as it is now; of neither where all rows are others. */
export type Noted<T> = (was: T | undefined, now: T | undefined) => void;

/** Rows of one kind, live. Begun by the first who shows them, ended when nobody does. */
export class Live<T extends Row> {
  rows = new Map<string, T>();
  /** All that there was has come. */
  synced = false;
  /** Why nothing comes at the moment; empty while all is well. */
  trouble = "";
  /** Counts changes. */
  version = 0;
  private readonly shown = new Set<() => void>();
  /** Those who are called too, but for whom alone nothing is followed. */
  private readonly beside = new Set<() => void>();
  private readonly noted = new Set<Noted<T>>();
  /** Rows that come anew; they are shown when all of them have come. */
  private coming: Map<string, T> | undefined;
  private drawn = false;
  private leave: (() => void) | undefined;
  private ending: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly stream: Stream,
    private readonly kind: Kind,
    private readonly pick: (event: Event) => T | undefined,
  ) {}

  /** Calls somebody after each change; gives what ends that. */
  subscribe(shown: () => void): () => void {
    this.shown.add(shown);
    clearTimeout(this.ending);
    this.leave ??= this.stream.join(this.kind, {
      begin: () => (this.coming = new Map()),
      event: (event) => this.take(event as Event),
      synced: () => this.synchronise(),
      trouble: (why) => {
        if (this.trouble === why) return;
        this.trouble = why;
        this.changed();
      },
    });
    return () => {
      this.shown.delete(shown);
      // The next page may show the same rows.
      if (!this.shown.size) this.ending = setTimeout(() => this.end(), LINGER);
    };
  }

  /** Calls somebody after each change, without that rows are followed for it; gives what ends that. */
  attend(shown: () => void): () => void {
    this.beside.add(shown);
    return () => this.beside.delete(shown);
  }

  /** Tells somebody of each change, at once; gives what ends that. Nothing is followed for it alone. */
  note(noted: Noted<T>): () => void {
    this.noted.add(noted);
    return () => this.noted.delete(noted);
  }

  /** Follows nothing any more. */
  end(): void {
    clearTimeout(this.ending);
    this.leave?.();
    this.leave = undefined;
    this.trouble = "";
    this.changed();
  }

  private changed(): void {
    this.version += 1;
    if (this.drawn) return;
    this.drawn = true;
    const draw = () => {
      this.drawn = false;
      for (const one of [...this.shown, ...this.beside]) one();
    };
    // A page that is not seen has no frames.
    if (document.hidden) setTimeout(draw, 100);
    else requestAnimationFrame(draw);
  }

  private synchronise(): void {
    this.rows = this.coming ?? this.rows;
    this.coming = undefined;
    this.synced = true;
    for (const one of this.noted) one(undefined, undefined);
    this.changed();
  }

  private take(event: Event): void {
    const row = this.pick(event);
    if (!row) return;
    // What is there comes first; until all of it has come, what was shown stays, and nothing is drawn.
    const rows = this.coming ?? this.rows;
    const key = keyOf(row);
    const was = rows.get(key);
    const now = event.type === "DELETE" ? undefined : row;
    if (now) rows.set(key, now);
    else rows.delete(key);
    if (this.coming) return;
    if (was || now) for (const one of this.noted) one(was, now);
    this.changed();
  }
}

/** What is live in a session. */
export interface Lives {
  jobs: Live<Job>;
  nodes: Live<Node>;
  stream: Stream;
}

/** The live rows of a session; none come before somebody shows them. */
export function lives(session: Session): Lives {
  const stream = new Stream(session.events);
  return {
    jobs: new Live<Job>(stream, "jobs", (event) => (event as { job?: Job }).job),
    nodes: new Live<Node>(stream, "nodes", (event) => (event as { node?: Node }).node),
    stream,
  };
}

/**
 * Calls somebody when things of these kinds have changed, when the stream has begun (what came before it is asked for once), and when it is
 * lost, so that who asks by the clock meanwhile begins.
 */
export function useChanges(stream: Stream, kinds: readonly Kind[], called: () => void): void {
  useEffect(() => {
    const leave = kinds.map((kind) => stream.join(kind, { event: called, synced: called, trouble: (why) => why && called() }));
    return () => leave.forEach((one) => one());
  }, [stream, called, kinds.join()]);
}

/** Draws again after each change of live rows, if it `follows` them; gives how many there were. */
export function useLive<T extends Row>(live: Live<T>, follows = true): number {
  const [version, set] = useState(live.version);
  useEffect(() => (follows ? live.subscribe(() => set(live.version)) : undefined), [live, follows]);
  return version;
}

/** Why live rows may be old; empty while all is well, or nobody follows them. */
export function useTrouble(live: Live<Job> | Live<Node> | undefined): string {
  const [trouble, set] = useState(live?.trouble ?? "");
  useEffect(() => {
    set(live?.trouble ?? "");
    return live?.attend(() => set(live.trouble));
  }, [live]);
  return trouble;
}

/** What an asked-for value is at the moment. */
export interface Asked<T> {
  value: T | undefined;
  error: Error | undefined;
  /** Asks again. */
  again: () => void;
  /**
   * Asks again sooner than `every` says, so many milliseconds after it was last asked: at once, if that is past. What is under way is not
   * disturbed, and asked again after it; after an error `every` stays as it is. Always the same function.
   */
  soon: (gap: number) => void;
}

/**
 * Asks when something of `on` changes, and so many milliseconds after each answer, while the page is seen; the value before stays until the
 * next one is there. `every` may say after each answer, and after what has `failed`, how long that is; it then counts as the same, whatever it says. 0: not again.
 */
export function useAsked<T>(ask: (signal: AbortSignal) => Promise<T>, on: readonly unknown[], every: number | ((failed: boolean) => number) = 0): Asked<T> {
  const [state, set] = useState<{ value?: T; error?: Error }>({});
  const [count, setCount] = useState(0);
  const hasten = useRef<(gap: number) => void>();
  const soon = useCallback((gap: number) => hasten.current?.(gap), []);
  useEffect(() => set({}), on);
  useEffect(() => {
    const end = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let first = true;
    let [busy, failed, begun] = [false, false, 0];
    /** Its time came while the page was hidden: it is asked when the page is seen again. */
    let missed = false;
    /** How long after it is asked it is asked again, if somebody wants it sooner. */
    let wanted: number | undefined;
    const wait = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(once, ms);
    };
    const sooner = (gap: number) => Math.max(0, begun + gap - performance.now());
    const once = async () => {
      if (document.hidden && !first) {
        missed = true;
        return;
      }
      clearTimeout(timer);
      [first, busy, begun, wanted] = [false, true, performance.now(), undefined];
      try {
        const value = await ask(end.signal);
        failed = false;
        if (!end.signal.aborted) set({ value });
      } catch (error) {
        failed = true;
        if (!end.signal.aborted) set((before) => ({ ...before, error: error as Error }));
      }
      busy = false;
      if (end.signal.aborted) return;
      const later = typeof every === "number" ? every : every(failed);
      if (wanted !== undefined && !failed) wait(sooner(wanted));
      else if (later) wait(later);
    };
    hasten.current = (gap) => {
      if (wanted !== undefined || failed) return;
      wanted = gap;
      if (!busy) wait(sooner(gap));
    };
    const seen = () => {
      if (document.hidden || !missed) return;
      missed = false;
      void once();
    };
    document.addEventListener("visibilitychange", seen);
    void once();
    return () => {
      hasten.current = undefined;
      document.removeEventListener("visibilitychange", seen);
      end.abort();
      clearTimeout(timer);
    };
  }, [...on, count, typeof every === "number" ? every : "said"]);
  return { value: state.value, error: state.error, again: () => setCount((one) => one + 1), soon };
}
