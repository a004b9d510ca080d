// Watches that are resumed by revision when the connection is lost, so that each change is given once and none is lost.

import { CancelledError, DeadlineExceededError, GoneError, InternalError, OverloadedError, UnavailableError } from "./generated/errors.js";
import { ApiError, WaitTimeoutError } from "./errors.js";
import { ceiling, sleep, type Core, type Request } from "./core.js";
import type { Lines } from "./lines.js";

/** Limits of streams in milliseconds; tests have others. */
export const limits = {
  /** A connection that cannot be had again for so long ends a watch. */
  away: 60_000,
  /** A stream on which nothing came for so long is opened anew: nothing is lost by it. */
  silent: 300_000,
  /** A stream that lived for so long was a good connection, whether or not something came. */
  steady: 5_000,
};

/** Failures that a new connection may heal. */
const HEALED = [UnavailableError, OverloadedError, InternalError, CancelledError, DeadlineExceededError];

/** When a stream that was lost is opened again, and where it begins. */
export class Resumer {
  /** All changes up to this revision were given, so that a stream may go on behind it; 0: with the present state. */
  revision = 0n;
  private failures = 0;
  private awaySince: number | undefined;
  private openedAt: number | undefined;
  private readonly deadline: number | undefined;

  constructor(
    readonly core: Core,
    readonly doing: string,
    timeoutMs: number | undefined,
    readonly signal: AbortSignal | undefined,
  ) {
    this.deadline = timeoutMs === undefined ? undefined : performance.now() + timeoutMs;
  }

  /** Notes that there is a stream again. */
  opened(): void {
    this.openedAt = performance.now();
  }

  /** Notes that something arrived: the connection works. `forward`: the next stream will go on behind it, and not say it again. */
  arrived(forward = true): void {
    this.awaySince = undefined;
    if (forward) this.failures = 0;
  }

  /** Notes that all changes up to this revision were given. */
  reached(revision: bigint): void {
    if (revision > this.revision) this.revision = revision;
  }

  /** Milliseconds to wait for the next line. Throws WaitTimeoutError behind the deadline, and the signal's reason. */
  wait(): number {
    this.signal?.throwIfAborted();
    if (this.deadline === undefined) return limits.silent;
    const left = this.deadline - performance.now();
    if (left <= 0) throw new WaitTimeoutError(`${this.doing}: it did not come in time`);
    return Math.min(limits.silent, left);
  }

  /** Waits before the next attempt, or throws the error that ends the stream. undefined: it has ended well. */
  async lost(error: ApiError | undefined): Promise<void> {
    this.wait();
    const now = performance.now();
    if (this.openedAt !== undefined && now - this.openedAt >= limits.steady) {
      this.failures = 0;
      this.awaySince = undefined;
    }
    this.openedAt = undefined;
    if (error instanceof GoneError) {
      // The revision is too old to be resumed: begin with the present state.
      this.revision = 0n;
    } else if (error) {
      if (!HEALED.some((kind) => error instanceof kind)) throw error;
      this.awaySince ??= now;
      if (now - this.awaySince >= limits.away) throw error;
    }
    this.failures += 1;
    const most = ceiling(this.core.retry, this.failures);
    await sleep(Math.min(most / 2 + (Math.random() * most) / 2, this.wait()), this.signal);
  }
}

interface Metadata {
  name?: string;
  tenant?: string;
  uid?: string;
  resourceVersion?: string;
}

/** An event of a watch, of any kind. */
export interface WatchEvent {
  type?: string;
  revision?: string;
}

/**
 * Events of a watch, each once: what a resumed watch says again is left out, and what it does not say is added.
 *
 * A stream that begins with revision 0 first gives a snapshot: what is, in the order of names, each with the revision of its own last
 * change. Only SYNCED says that all of it has come, so a stream that is lost before begins anew. What vanished between two snapshots has
 * no event of the server's: its DELETE is made here, when the later snapshot is complete.
 */
export class Follower {
  readonly resumer: Resumer;
  private lines: Lines | undefined;
  private synced = false;
  private closed = false;
  /** Ends whatever is waited for: by `close`, or by the caller's signal. */
  private readonly ending = new AbortController();
  private readonly stop: () => void;
  /** What there is, as it was given: uid and version by tenant and name. */
  private readonly seen = new Map<string, { uid: string; version: bigint }>();
  /** What the present snapshot has given so far; undefined behind its SYNCED. */
  private snapshot: Set<string> | undefined;
  /** The revision of the last change, and of what it was given: one revision may change many things. */
  private last = { revision: 0n, keys: new Set<string>() };
  /** Events that came, or follow from what came, and were not given yet. */
  private readonly due: WatchEvent[] = [];

  constructor(
    private readonly core: Core,
    private readonly open: (revision: bigint) => Request,
    private readonly thing: string,
    doing: string,
    timeoutMs: number | undefined,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.resumer = new Resumer(core, doing, timeoutMs, this.ending.signal);
    this.stop = () => this.ending.abort(signal?.reason);
    if (signal?.aborted) this.stop();
    else signal?.addEventListener("abort", this.stop, { once: true });
  }

  /** Ends the watch: there are no further events. Whoever waits for one is woken. */
  close(): void {
    this.closed = true;
    this.signal?.removeEventListener("abort", this.stop);
    this.drop();
    this.ending.abort();
  }

  /** The next event that is new; undefined when the watch was closed. Throws ApiError, WaitTimeoutError, or the signal's reason. */
  async next(): Promise<WatchEvent | undefined> {
    while (!this.closed) {
      const event = this.due.shift();
      if (event) {
        if (this.fresh(event)) return event;
        continue;
      }
      try {
        const [came, silent] = await this.line();
        if (came) {
          // One by one: a call takes only so many arguments.
          for (const one of this.withDeleted(came)) this.due.push(one);
          continue;
        }
        this.drop();
        if (!silent) await this.lost(undefined);
      } catch (error) {
        this.drop();
        if (this.closed) break;
        if (!(error instanceof ApiError)) throw error;
        await this.lost(error);
      }
    }
    this.drop();
    return undefined;
  }

  /** Waits before the next stream; `close` ends it. */
  private async lost(error: ApiError | undefined): Promise<void> {
    try {
      if (!this.closed) await this.resumer.lost(error);
    } catch (failed) {
      if (!this.closed) throw failed;
    }
  }

  /** The next event of the present stream, or of a new one (undefined: it ended), and whether nothing came for long. */
  private async line(): Promise<[WatchEvent | undefined, boolean]> {
    if (!this.lines) {
      const limit = Math.min(this.core.timeoutMs, this.resumer.wait());
      const lines = await this.core.lines(this.open(this.resumer.revision), limit, this.resumer.signal);
      this.snapshot = this.resumer.revision ? undefined : new Set();
      this.lines = lines;
      this.resumer.opened();
      if (this.closed) return [undefined, false];
    }
    const { lines } = this;
    try {
      return [(await lines.next(this.resumer.wait())) as WatchEvent | undefined, false];
    } catch (error) {
      if (!(error instanceof DeadlineExceededError) || lines.closed) throw error;
      this.resumer.wait();
      return [undefined, true];
    }
  }

  private drop(): void {
    const { lines } = this;
    this.lines = undefined;
    lines?.close();
  }

  /** What an event is about: tenant and name, uid, and version. */
  private about(event: WatchEvent): { key: string; uid: string; version: bigint } {
    const thing = (event as Record<string, { metadata?: Metadata } | undefined>)[this.thing];
    const metadata = thing?.metadata ?? {};
    const key = `${metadata.tenant ?? ""}/${metadata.name ?? ""}`;
    return { key, uid: metadata.uid ?? "", version: BigInt(metadata.resourceVersion || 0) };
  }

  /** An event that came, behind the DELETEs that follow from it where it is of a snapshot. */
  private withDeleted(event: WatchEvent): WatchEvent[] {
    const last = event.type === "SYNCED";
    this.resumer.arrived(last || !this.snapshot);
    const { snapshot } = this;
    if (!snapshot) return [event];
    let gone: string[];
    if (last) {
      gone = [...this.seen.keys()].filter((key) => !snapshot.has(key));
    } else {
      // Another thing of the same name: the one that was given is not there any more.
      const { key, uid } = this.about(event);
      const before = this.seen.get(key);
      gone = before && before.uid !== uid ? [key] : [];
    }
    return [...gone.map((key) => this.deleted(key, event.revision ?? "0")), event];
  }

  /** The DELETE of what is known, as the server gives it where it does not know the last value, and with uid and version. */
  private deleted(key: string, revision: string): WatchEvent {
    const slash = key.indexOf("/");
    const { uid, version } = this.seen.get(key) ?? { uid: "", version: 0n };
    const metadata: Metadata = { name: key.slice(slash + 1) };
    if (slash) metadata.tenant = key.slice(0, slash);
    if (uid) metadata.uid = uid;
    if (version) metadata.resourceVersion = String(version);
    return { type: "DELETE", [this.thing]: { metadata }, revision } as WatchEvent;
  }

  /** Notes an event; false if it says what is known. */
  private fresh(event: WatchEvent): boolean {
    const revision = BigInt(event.revision || 0);
    if (event.type === "SYNCED") {
      this.snapshot = undefined;
      this.resumer.reached(revision);
      const known = this.synced;
      this.synced = true;
      return !known;
    }
    const { key, uid, version } = this.about(event);
    if (this.snapshot) {
      this.snapshot.add(key);
    } else if (revision > 0n) {
      // Further changes of this revision may follow, so that a stream which goes on must give it again.
      this.resumer.reached(revision - 1n);
      if (revision !== this.last.revision) this.last = { revision, keys: new Set() };
      if (this.last.keys.has(key)) return false;
      this.last.keys.add(key);
    }
    if (event.type === "DELETE") {
      this.seen.delete(key);
      return true;
    }
    const before = this.seen.get(key);
    this.seen.set(key, { uid, version });
    return !before || before.uid !== uid || version === 0n || version > before.version;
  }
}

/**
 * Events, as they come: an async iterable without an end, which `close`, the signal, or the limit of the watch (WaitTimeoutError) ends.
 * First comes what is, as PUT, then SYNCED, then every change. A lost connection is resumed where it was.
 */
export class Watch<E> implements AsyncIterable<E> {
  constructor(private readonly follower: Follower) {}

  /**
   * Up to here all was given: a later watch goes on behind it with `afterRevision`. A watch that begins with what is there has "0" before
   * SYNCED. After a change it is the revision before, because more may have changed in the same one: a later watch gives that change again.
   */
  get revision(): string {
    return String(this.follower.resumer.revision);
  }

  /** The next event; undefined when the watch was closed. */
  async next(): Promise<E | undefined> {
    return (await this.follower.next()) as E | undefined;
  }

  /** Ends the watch, also while somebody waits for its next event. */
  close(): void {
    this.follower.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<E, void, undefined> {
    try {
      for (let event = await this.next(); event !== undefined; event = await this.next()) yield event;
    } finally {
      this.close();
    }
  }
}
