// What the classes of the services stand on: calls, lists in pages, streams.

import { ApiError } from "./errors.js";
import { InternalError } from "./generated/errors.js";
import type { CallOptions, Core, Fields, Operation, Request, WatchOptions } from "./core.js";
import type { Lines } from "./lines.js";
import { Follower, limits, Watch } from "./watch.js";

type Path = Readonly<Record<string, string>>;

/** Rows that are asked for at a time, and pages that a list has at most: a server that never ends one is wrong. */
const PAGE = 200;
const MAX_PAGES = 100_000;

/** The rows of a list, page by page: an async iterable, or all of them by `all`. */
export class Pages<T> implements AsyncIterable<T> {
  constructor(
    private readonly core: Core,
    private readonly operation: Operation,
    private readonly path: Path,
    private readonly params: object,
    private readonly rows: string,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let pageToken: string | undefined;
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const asked = { pageSize: PAGE, ...this.params, pageToken };
      const answer = (await this.core.call(this.operation, this.path, asked)) as Record<string, unknown>;
      yield* (answer[this.rows] ?? []) as T[];
      pageToken = answer["nextPageToken"] as string | undefined;
      if (!pageToken) return;
    }
    throw new InternalError("a list does not end", { reason: "BROKEN_ANSWER", operation: this.operation.name });
  }

  /** All rows. */
  async all(): Promise<T[]> {
    const found: T[] = [];
    for await (const row of this) found.push(row);
    return found;
  }
}

/** The rows of a stream that ends and is not resumed; begun with the first row, by a call that is tried again until it is answered. */
export class Records<T> implements AsyncIterable<T> {
  private lines: Lines | undefined;
  private closed = false;

  constructor(
    private readonly core: Core,
    private readonly request: Request,
    private readonly options: CallOptions,
  ) {}

  /** The next row; undefined at the end. A stream that is silent for five minutes throws DeadlineExceededError. */
  async next(): Promise<T | undefined> {
    if (this.closed) return undefined;
    const { signal } = this.options;
    try {
      if (!this.lines) {
        const limit = this.options.timeoutMs ?? this.core.timeoutMs;
        this.lines = await this.core.repeat(this.request, signal, () => this.core.lines(this.request, limit, signal));
      }
      const row = this.closed ? undefined : await this.lines.next(limits.silent);
      if (row === undefined) this.close();
      return row as T | undefined;
    } catch (error) {
      const ended = this.closed && error instanceof ApiError;
      this.close();
      signal?.throwIfAborted();
      if (ended) return undefined;
      throw error;
    }
  }

  /** Ends the stream. */
  close(): void {
    this.closed = true;
    this.lines?.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    try {
      for (let row = await this.next(); row !== undefined; row = await this.next()) yield row;
    } finally {
      this.close();
    }
  }
}

/** A watch, not yet begun; it begins after the revision that `params` names. */
export function follower(core: Core, operation: Operation, path: Path, params: object, doing = operation.name): Follower {
  const { timeoutMs, signal } = params as WatchOptions;
  const fields = params as Fields;
  const request = (revision: bigint) => core.request(operation, path, { ...fields, afterRevision: revision ? String(revision) : undefined });
  const found = new Follower(core, request, operation.thing ?? "", doing, timeoutMs, signal);
  found.resumer.revision = BigInt((fields["afterRevision"] as string | undefined) || 0);
  return found;
}

/** The calls of one service. Each throws ApiError, or the signal's reason. */
export class Resource {
  constructor(protected readonly core: Core) {}

  protected async call<T>(operation: Operation, path: Path, params: object, body: unknown): Promise<T> {
    return (await this.core.call(operation, path, params, body)) as T;
  }

  protected pages<T>(operation: Operation, path: Path, params: object, rows: string): Pages<T> {
    return new Pages(this.core, operation, path, params, rows);
  }

  protected watching<E>(operation: Operation, path: Path, params: object): Watch<E> {
    return new Watch(follower(this.core, operation, path, params));
  }

  protected records<T>(operation: Operation, path: Path, params: object): Records<T> {
    return new Records(this.core, this.core.request(operation, path, params as Fields), params as CallOptions);
  }
}
