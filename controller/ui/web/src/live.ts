// What is watched: rows that follow the controller by one stream each, and are drawn at most once a frame by whoever shows them.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Client, Job, Node, Watch } from "../../../../cli/clients/typescript/src/index.js";

/** How long a watch that has failed waits before it begins again, in milliseconds: at first, and at most; half of it is by chance. */
const FIRST = 500;
const LONGEST = 15_000;
/** How long rows are followed that nobody shows any more, in milliseconds. */
const LINGER = 20_000;

interface Event {
  type?: string;
  revision?: string;
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
  private watch: Watch<Event> | undefined;
  private drawn = false;
  private following = false;
  private ended = false;
  private ending: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly open: () => Watch<Event>,
    private readonly pick: (event: Event) => T | undefined,
  ) {}

  /** Calls somebody after each change; gives what ends that. */
  subscribe(shown: () => void): () => void {
    this.shown.add(shown);
    clearTimeout(this.ending);
    if (!this.following) void this.follow();
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
    this.ended = true;
    this.watch?.close();
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

  private async follow(): Promise<void> {
    let wait = FIRST;
    [this.following, this.ended] = [true, false];
    while (!this.ended) {
      const watch = this.open();
      this.watch = watch;
      try {
        await this.take(watch, () => (wait = FIRST));
      } catch (error) {
        this.trouble = error instanceof Error ? error.message : String(error);
      }
      if (this.ended) break;
      this.changed();
      await new Promise((resolve) => setTimeout(resolve, wait * (0.5 + Math.random() / 2)));
      wait = Math.min(wait * 2, LONGEST);
    }
    this.following = false;
    this.trouble = "";
    this.changed();
    if (this.shown.size) void this.follow();
  }

  private async take(watch: Watch<Event>, well: () => void): Promise<void> {
    // What is there comes first; until all of it has come, what was shown stays, and nothing is drawn.
    const rows = new Map<string, T>();
    for await (const event of watch) {
      const row = this.pick(event);
      const key = row ? keyOf(row) : "";
      const was = rows.get(key);
      const now = event.type === "DELETE" ? undefined : row;
      if (event.type === "SYNCED") {
        well();
        this.trouble = "";
        this.rows = rows;
        this.synced = true;
        for (const one of this.noted) one(undefined, undefined);
      } else if (row) {
        if (now) rows.set(key, now);
        else rows.delete(key);
        if (rows === this.rows && (was || now)) for (const one of this.noted) one(was, now);
      }
      if (rows === this.rows) this.changed();
    }
  }
}

/** The live rows of a session. */
export interface Lives {
  jobs: Live<Job>;
  nodes: Live<Node>;
}

/** The watches of a client; none is begun before somebody shows its rows. */
export function lives(client: Client): Lives {
  return {
    jobs: new Live<Job>(
      () => client.jobs.watch() as Watch<Event>,
      (event) => (event as { job?: Job }).job,
    ),
    nodes: new Live<Node>(
      () => client.nodes.watch() as Watch<Event>,
      (event) => (event as { node?: Node }).node,
    ),
  };
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
 * next one is there. `every` may say after each answer how long that is; it then counts as the same, whatever it says. 0: not again.
 */
export function useAsked<T>(ask: (signal: AbortSignal) => Promise<T>, on: readonly unknown[], every: number | (() => number) = 0): Asked<T> {
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
    /** How long after it is asked it is asked again, if somebody wants it sooner. */
    let wanted: number | undefined;
    const wait = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(once, ms);
    };
    const sooner = (gap: number) => Math.max(0, begun + gap - performance.now());
    const once = async () => {
      [busy, begun, wanted] = [true, performance.now(), undefined];
      try {
        if (!document.hidden || first) {
          first = false;
          const value = await ask(end.signal);
          failed = false;
          if (!end.signal.aborted) set({ value });
        }
      } catch (error) {
        failed = true;
        if (!end.signal.aborted) set((before) => ({ ...before, error: error as Error }));
      }
      busy = false;
      if (end.signal.aborted) return;
      const later = typeof every === "number" ? every : every();
      if (wanted !== undefined && !failed) wait(sooner(wanted));
      else if (later) wait(later);
    };
    hasten.current = (gap) => {
      if (wanted !== undefined || failed) return;
      wanted = gap;
      if (!busy) wait(sooner(gap));
    };
    void once();
    return () => {
      hasten.current = undefined;
      end.abort();
      clearTimeout(timer);
    };
  }, [...on, count, typeof every === "number" ? every : "said"]);
  return { value: state.value, error: state.error, again: () => setCount((one) => one + 1), soon };
}
