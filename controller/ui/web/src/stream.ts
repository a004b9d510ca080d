// The one stream of a tab: all that its pages follow comes on one connection, which goes on where it was when it was lost.

import { ApiError } from "../../../../cli/clients/typescript/src/index.js";

/** What can be followed. */
export type Kind = "jobs" | "nodes" | "rails" | "rollouts" | "tenants" | "queues" | "reservations";

/** Opens the stream: `query` says of what, `last` is the id behind which it goes on, or empty. Throws ApiError. */
export type Open = (query: string, last: string, signal: AbortSignal) => Promise<Response>;

/** Who follows a kind. */
export interface Follower {
  /** All that there is comes anew; until `synced` what was there stays as it is. */
  begin?(): void;
  /** Something has changed, or is there. */
  event(data: unknown): void;
  /** All that there is has come. */
  synced?(): void;
  /** Why nothing comes at the moment; empty when it comes again. */
  trouble?(why: string): void;
}

/** How long it waits before it tries again, in milliseconds: at first, and at most; half of it is by chance. */
const FIRST = 500;
const LONGEST = 15_000;
/** A stream that says nothing for so long is taken for lost; it says that it lives every 15 s. */
const SILENT = 45_000;
/** A tab that was hidden for so long follows nothing until it is seen again. */
const HIDDEN = 10_000;
/** Changes of what is wanted that come together, in milliseconds. */
const TOGETHER = 20;
/** Characters that wait for the end of their event at most. */
const LARGEST = 64 * 1024 * 1024;

/** One event of a `text/event-stream`. */
interface Sent {
  id: string;
  event: string;
  data: string;
}

/** Takes a `text/event-stream` apart, however its bytes arrive. */
export class Parser {
  private waiting = "";
  private id = "";
  private readonly decoder = new TextDecoder();

  /** The events that have come to their end. An event without data only says where the stream may go on. Throws for one without end. */
  take(bytes: Uint8Array): Sent[] {
    this.waiting += this.decoder.decode(bytes, { stream: true });
    const parts = this.waiting.split("\n\n");
    this.waiting = parts.pop() ?? "";
    if (this.waiting.length > LARGEST) throw new Error("an event of the stream has no end");
    return parts.map((part) => {
      const sent: Sent = { id: this.id, event: "", data: "" };
      for (const line of part.split("\n")) {
        const at = line.indexOf(": ");
        const [name, value] = at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 2)];
        if (name === "id") sent.id = this.id = value;
        else if (name === "event" || name === "data") sent[name] = value;
      }
      return sent;
    });
  }
}

/** The stream. It is open while somebody follows something and the tab is seen. */
export class Stream {
  /** Nothing is known to be amiss. */
  well = false;
  private readonly followers = new Map<Kind, Set<Follower>>();
  /** Kinds of which all has come, and that go on behind `last`. */
  private readonly had = new Set<Kind>();
  private last = "";
  /** What the connection is of, and what of that nobody followed for a moment, so that it has to come anew. */
  private carried: Kind[] = [];
  private readonly left = new Set<Kind>();
  private running = false;
  private connection: AbortController | undefined;
  /** Ends the wait before the next connection. */
  private hasten: (() => void) | undefined;
  private soon: ReturnType<typeof setTimeout> | undefined;
  private hiding: ReturnType<typeof setTimeout> | undefined;
  private wait = FIRST;

  constructor(private readonly open: Open) {
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.hiding);
      if (document.hidden) this.hiding = setTimeout(() => this.connection?.abort(), HIDDEN);
      else this.hasten?.();
    });
  }

  /** Follows a kind; gives what ends that. Of a kind whose rows come whole there is one follower at a time. */
  join(kind: Kind, follower: Follower): () => void {
    const all = this.followers.get(kind) ?? new Set();
    this.followers.set(kind, all.add(follower));
    this.changed();
    return () => {
      if (!all.delete(follower) || all.size) return;
      this.followers.delete(kind);
      this.had.delete(kind);
      this.left.add(kind);
      this.changed();
    };
  }

  private changed(): void {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => {
      const wanted = this.wanted();
      if (wanted.join() === this.carried.join() && !wanted.some((kind) => this.left.has(kind))) return;
      this.connection?.abort();
      this.hasten?.();
      if (!this.running && wanted.length) void this.run();
    }, TOGETHER);
  }

  private wanted(): Kind[] {
    return [...this.followers.keys()].sort();
  }

  private each(kinds: Iterable<Kind>, call: (follower: Follower) => void): void {
    for (const kind of kinds) for (const one of [...(this.followers.get(kind) ?? [])]) call(one);
  }

  private async run(): Promise<void> {
    this.running = true;
    while (this.followers.size) {
      if (document.hidden) {
        await this.until(undefined);
        continue;
      }
      const connection = (this.connection = new AbortController());
      try {
        await this.read(connection);
        if (!connection.signal.aborted) throw new Error("the stream has ended");
      } catch (error) {
        if (!connection.signal.aborted) {
          this.well = false;
          const why = error instanceof Error ? error.message : String(error);
          this.each(this.wanted(), (one) => one.trouble?.(why));
        }
      }
      this.carried = [];
      // Somebody wants something else, or the tab was hidden: nothing was amiss.
      if (connection.signal.aborted) continue;
      await this.until(this.wait * (0.5 + Math.random() / 2));
      this.wait = Math.min(this.wait * 2, LONGEST);
    }
    [this.running, this.well, this.connection] = [false, false, undefined];
  }

  /** Waits so long, or until it is hastened. */
  private until(ms: number | undefined): Promise<void> {
    return new Promise<void>((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.hasten = () => {
        clearTimeout(timer);
        resolve();
      };
    }).then(() => {
      this.hasten = undefined;
    });
  }

  private async read(connection: AbortController): Promise<void> {
    const kinds = (this.carried = this.wanted());
    this.left.clear();
    const fresh = kinds.filter((kind) => !this.had.has(kind));
    if (fresh.length === kinds.length) this.last = "";
    const query = `kinds=${kinds.join()}${this.last && fresh.length ? `&fresh=${fresh.join()}` : ""}`;
    this.well = false;
    const parser = new Parser();
    let silence: ReturnType<typeof setTimeout> | undefined;
    let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
    // A connection that answers nothing is lost, too, however far it came; its end is no wish of ours.
    const lost = new AbortController();
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => lost.abort(new Error("nothing has come for too long")), SILENT);
    };
    const both = AbortSignal.any([connection.signal, lost.signal]);
    try {
      heard();
      const answer = await this.open(query, this.last, both).catch((error: unknown) => {
        // Where its ids are not taken, it can only begin anew.
        if (error instanceof ApiError && error.code === 400) this.forget();
        throw lost.signal.aborted ? lost.signal.reason : error;
      });
      reader = answer.body?.getReader();
      if (!reader) throw new Error("the answer has no body");
      this.each(fresh, (one) => one.begin?.());
      for (;;) {
        heard();
        const part = await reader.read();
        if (part.done) return;
        for (const sent of parser.take(part.value)) this.take(sent, kinds);
      }
    } finally {
      clearTimeout(silence);
      void reader?.cancel().catch(() => undefined);
    }
  }

  /** Goes on nowhere: all has to come anew. */
  private forget(): void {
    this.had.clear();
    this.last = "";
  }

  private take({ id, event, data }: Sent, kinds: readonly Kind[]): void {
    if (id) this.last = id;
    if (!event) return;
    const read = JSON.parse(data) as { kinds?: Kind[]; error?: { message?: string } };
    if (event === "refused") throw new Error(read.error?.message ?? "the controller has ended the stream");
    if (event === "reset") {
      this.forget();
      this.each(kinds, (one) => one.begin?.());
    } else if (event === "synced") {
      this.well = true;
      this.wait = FIRST;
      for (const kind of read.kinds ?? []) if (this.followers.has(kind)) this.had.add(kind);
      this.each(kinds, (one) => one.trouble?.(""));
      this.each(read.kinds ?? [], (one) => one.synced?.());
    } else {
      this.each([event as Kind], (one) => one.event(read));
    }
  }
}
