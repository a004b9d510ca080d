// Jobs as objects: submitted, waited for, and read.

import { ApiError, ConfigError, JobFailedError, WaitTimeoutError } from "./errors.js";
import { DeadlineExceededError, NotFoundError, TooLargeError } from "./generated/errors.js";
import { operations } from "./generated/operations.js";
import type { Job, JobEvent, JobSpec, JobStatusPhase, LogChunk } from "./generated/types/index.js";
import type { CallOptions, Core, WatchOptions } from "./core.js";
import type { Lines } from "./lines.js";
import { follower } from "./resource.js";
import { limits, Resumer } from "./watch.js";

/** Phases that a job never leaves. */
const ENDED: readonly string[] = ["COMPLETED", "FAILED", "CANCELLED"];
/** The longest wait where the caller does not say: 30 days. */
const LONG = 30 * 86_400_000;
/** A rank that wrote more may have lost its oldest output, so that what is sent again cannot be recognised. */
const RECOGNISED = 4 << 20;
/** Bytes of logs that `logs` takes at most; more is an error, for which `followLogs` is there. */
const MAX_LOGS = 256 << 20;

/** What a job is submitted with; `spec` is merged into the rest of the job's spec. */
export interface SubmitOptions extends CallOptions {
  nodes?: number;
  gpusPerNode?: number;
  ranksPerNode?: number;
  name?: string;
  env?: Record<string, string>;
  workingDir?: string;
  /** As the API has it: "90s". */
  timeLimit?: string;
  queue?: string;
  priority?: number;
  labels?: Record<string, string>;
  hold?: boolean;
  tenant?: string;
  /** Repeated with the same one and the same work, it gives the same job. */
  requestId?: string;
  spec?: JobSpec;
}

/** Which of a job's output is meant. */
export interface LogOptions extends CallOptions {
  /** All ranks if left out. */
  ranks?: readonly number[];
  /** Only so many lines of each rank. */
  tailLines?: number;
}

/** Some of what a rank wrote: STDOUT or STDERR, or a NOTE of Railyard's own. */
export interface LogOutput {
  readonly rank: number;
  readonly stream: string;
  readonly data: Uint8Array;
}

/** The bytes of a chunk. */
export function dataOf(chunk: LogChunk): Uint8Array {
  return Uint8Array.from(atob(chunk.data ?? ""), (one) => one.charCodeAt(0));
}

type Tree = Record<string, unknown>;

function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A document with what another one says in place of it, at any depth; lists are replaced whole. */
function merged(base: Tree, over: Tree): Tree {
  const found: Tree = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const before = found[key];
    found[key] = isTree(before) && isTree(value) ? merged(before, value) : value;
  }
  return found;
}

/** The document of a job. A text is a command for a shell. One server without GPUs needs no rails. */
export function described(work: string | readonly string[], options: SubmitOptions): Job {
  const { nodes = 1, gpusPerNode = 0, name } = options;
  const argv = typeof work === "string" ? ["/bin/sh", "-c", work] : [...work];
  if (!argv.length) throw new ConfigError("submit: the command is empty");
  if (options.spec?.array) throw new ConfigError("submit: an array is many jobs: use client.jobs.create");
  const said: Tree = {
    gang: { nodes, gpusPerNode, ranksPerNode: options.ranksPerNode },
    command: { argv, env: options.env, workingDir: options.workingDir },
    timeLimit: options.timeLimit,
    queue: options.queue,
    priority: options.priority,
  };
  const spec = merged(said, (options.spec ?? {}) as Tree);
  const { gang } = spec;
  const small = isTree(gang) && gang["nodes"] === 1 && !gang["gpusPerNode"];
  if (small && (spec["rails"] ?? undefined) === undefined) spec["rails"] = { none: true };
  const metadata = { ...(name ? { name } : { generateName: "job-" }), labels: options.labels };
  return { apiVersion: "rail/v1", kind: "Job", metadata, spec: spec as JobSpec };
}

/** One job, by tenant, name and uid: another one of its name is not taken for it. */
export class JobHandle {
  constructor(
    private readonly core: Core,
    /** All of it, as it was when it was last asked for. */
    public document: Job,
  ) {}

  get name(): string {
    return this.document.metadata?.name ?? "";
  }

  get tenant(): string {
    return this.document.metadata?.tenant ?? "";
  }

  get uid(): string {
    return this.document.metadata?.uid ?? "";
  }

  /** As it was last. */
  get phase(): JobStatusPhase {
    return this.document.status?.phase ?? "PENDING";
  }

  /** It had ended when it was last asked for. */
  get ended(): boolean {
    return ENDED.includes(this.phase);
  }

  /** The causes of its phase. */
  get why(): string {
    return (this.document.status?.reasons ?? []).map((one) => `${one.code}: ${one.message}`).join("; ");
  }

  toString(): string {
    return this.tenant ? `${this.tenant}/${this.name}` : this.name;
  }

  /** Asks for it. */
  async refresh(options: CallOptions = {}): Promise<Job> {
    const params = { ...options, tenant: this.tenant };
    this.document = (await this.core.call(operations.getJob, { name: this.name }, params)) as Job;
    return this.document;
  }

  /** Waits until it has one of these phases, or has ended. Throws WaitTimeoutError, NotFoundError if it is deleted, ApiError. */
  async waitFor(phases: readonly JobStatusPhase[], options: WatchOptions = {}): Promise<Job> {
    const wanted: readonly string[] = [...phases, ...ENDED];
    if (wanted.includes(this.phase)) return this.document;
    const timeoutMs = options.timeoutMs ?? LONG;
    const params = { ...options, timeoutMs, tenant: this.tenant, name: this.name };
    const watch = follower(this.core, operations.watchJobs, {}, params, `wait for job ${this}`);
    const deleted = () => new NotFoundError(`job ${this} was deleted while it was waited for`, { reason: "JOB_NOT_FOUND" });
    let known = false;
    try {
      for (;;) {
        const event = (await watch.next()) as JobEvent | undefined;
        if (!event || (event.type === "SYNCED" && !known)) throw deleted();
        const seen = event.job;
        if (!seen) continue;
        const gone = event.type === "DELETE";
        const uid = seen.metadata?.uid ?? "";
        // A DELETE without the last value names no uid: then none of this name is there any more.
        if (this.uid && uid !== this.uid && !(gone && !uid)) continue;
        known = true;
        if (!gone || seen.status) {
          this.document = seen;
          if (wanted.includes(this.phase)) return seen;
        }
        if (gone) throw deleted();
      }
    } catch (error) {
      if (!(error instanceof WaitTimeoutError)) throw error;
      throw new WaitTimeoutError(`job ${this} is ${this.phase} after ${timeoutMs} ms`, this.document);
    } finally {
      watch.close();
    }
  }

  /** Waits for its end, at most 30 days. Throws JobFailedError if it has not completed, unless `check` is false, and as `waitFor`. */
  async wait(options: WatchOptions & { check?: boolean } = {}): Promise<Job> {
    const document = await this.waitFor([], options);
    if (options.check !== false && this.phase !== "COMPLETED") {
      throw new JobFailedError(`job ${this} ended as ${this.phase}${this.why ? `: ${this.why}` : ""}`, document);
    }
    return document;
  }

  /** What ranks wrote and is kept, rank after rank; lines of several ranks begin with `[RANK] `. `stream`: STDOUT or STDERR alone. */
  async logs(options: LogOptions & { attempt?: number; stream?: "STDOUT" | "STDERR" } = {}): Promise<string> {
    const { signal } = options;
    const request = this.core.request(operations.streamLogs, { name: this.name }, { ...options, stream: undefined, tenant: this.tenant });
    const open = () => this.core.lines(request, options.timeoutMs ?? this.core.timeoutMs, signal);
    const lines = await this.core.repeat(request, signal, open);
    const texts = new Map<number, { decoder: TextDecoder; text: string }>();
    let size = 0;
    try {
      for (let line = await lines.next(limits.silent); line; line = await lines.next(limits.silent)) {
        const chunk = line as LogChunk;
        const data = dataOf(chunk);
        size += data.length;
        if (size > MAX_LOGS) {
          throw new TooLargeError(`the logs of job ${this} have more than ${MAX_LOGS} bytes`, { reason: "LOGS_TOO_LARGE" });
        }
        if (chunk.stream === "NOTE" || (options.stream && chunk.stream !== options.stream)) continue;
        const rank = chunk.rank ?? 0;
        const one = texts.get(rank) ?? { decoder: new TextDecoder(), text: "" };
        one.text += one.decoder.decode(data, { stream: true });
        texts.set(rank, one);
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      lines.close();
    }
    const clean = [...texts].sort(([a], [b]) => a - b).map(([rank, one]) => ({ rank, text: one.text + one.decoder.decode() }));
    const ranks = this.document.status?.placement?.ranks?.length ?? 0;
    if (options.ranks?.length === 1 || (clean.length <= 1 && ranks <= 1)) return clean.map((one) => one.text).join("");
    const split = (text: string) => (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
    return clean.flatMap(({ rank, text }) => (text ? split(text).map((line) => `[${rank}] ${line}\n`) : [])).join("");
  }

  /**
   * What ranks write, as it comes, until the job has ended; `timeoutMs` is for all of it. Where a lost connection leaves it in doubt what
   * was given, it is given again.
   */
  async *followLogs(options: LogOptions = {}): AsyncGenerator<LogOutput, void, undefined> {
    const found = new LogFollower(this.core, this, options);
    try {
      for (let one = await found.next(); one; one = await found.next()) yield one;
    } finally {
      found.close();
    }
  }

  /** Ends it: SIGTERM, then SIGKILL after the grace period ("30s"). A job that has ended stays as it is. */
  async cancel(gracePeriod?: string, options: CallOptions = {}): Promise<Job> {
    const params = { ...options, tenant: this.tenant, gracePeriod };
    this.document = (await this.core.call(operations.cancelJob, { name: this.name }, params)) as Job;
    return this.document;
  }

  /** Removes it; it must have ended. */
  async delete(options: CallOptions = {}): Promise<void> {
    await this.core.call(operations.deleteJob, { name: this.name }, { ...options, tenant: this.tenant });
  }
}

/**
 * What ranks write, as it comes, until the job has ended; resumed when the connection is lost.
 *
 * A stream begins with all that is kept of the job's present attempt, and goes on with later ones without saying where they begin. So what
 * was given is counted from the beginning of one attempt on (`attempt`), and a stream that is lost is resumed with that attempt: if others
 * have followed it meanwhile, it is read to its end, then the next. Where it is in doubt what was given, it is given again.
 */
class LogFollower {
  private readonly resumer: Resumer;
  private lines: Lines | undefined;
  private closed = false;
  /** From the beginning of which attempt on `given` counts; undefined before the first stream. */
  private attempt: number | undefined;
  /** The present stream is of an attempt that others have followed; it has said something of Railyard's own. */
  private past = false;
  private noted = false;
  /** Bytes that were given, and bytes of the present stream that are still to be left out, by rank and stream. */
  private given = new Map<string, number>();
  private skip = new Map<string, number>();

  constructor(
    private readonly core: Core,
    private readonly job: JobHandle,
    private readonly options: LogOptions,
  ) {
    this.resumer = new Resumer(core, `follow the logs of job ${job}`, options.timeoutMs ?? LONG, options.signal);
  }

  close(): void {
    this.closed = true;
    this.drop();
  }

  private drop(): void {
    this.lines?.close();
    this.lines = undefined;
  }

  /** Whether what was given can be told from what is new. */
  private recognised(): boolean {
    return !this.options.tailLines && [...this.given.values()].every((size) => size <= RECOGNISED);
  }

  /** Decides of which attempt the next stream is: that which was lost, or the first behind it that is known. */
  private choose(document: Job): void {
    const present = document.status?.attempt ?? 0;
    const before = this.attempt ?? present;
    const earlier = this.options.tailLines ? [] : (document.status?.pastAttempts ?? []).map((one) => one.attempt ?? 0);
    this.attempt = Math.min(present, ...earlier.filter((one) => before <= one && one < present));
    if (this.attempt !== before || (this.attempt !== present && !this.recognised())) this.given.clear();
    this.past = this.attempt !== present;
    this.noted = false;
  }

  /** The next stream; undefined if an attempt began meanwhile, so that it is unknown with which one the stream begins. */
  private async begin(): Promise<Lines | undefined> {
    const { signal, ranks, tailLines } = this.options;
    this.choose(await this.job.refresh({ signal }));
    const more = this.past ? { attempt: this.attempt } : { follow: true };
    const params = { ranks, tailLines, tenant: this.job.tenant, ...more };
    const request = this.core.request(operations.streamLogs, { name: this.job.name }, params);
    const lines = await this.core.lines(request, this.core.timeoutMs, signal);
    try {
      if (this.given.size && !this.past && ((await this.job.refresh({ signal })).status?.attempt ?? 0) !== this.attempt) {
        lines.close();
        return undefined;
      }
    } catch (error) {
      lines.close();
      throw error;
    }
    this.skip = this.recognised() ? new Map(this.given) : new Map();
    return lines;
  }

  /** A past attempt was read to its end: what is still to be left out was given of the next one. */
  private finish(): void {
    this.given = this.noted ? new Map() : new Map([...this.skip].filter(([, size]) => size));
    this.attempt = (this.attempt ?? 0) + 1;
  }

  /** The next output that is new; undefined at the end. */
  async next(): Promise<LogOutput | undefined> {
    while (!this.closed) {
      let chunk: LogChunk | undefined;
      let over: boolean;
      try {
        if (!this.lines) {
          this.resumer.wait();
          this.lines = await this.begin();
          if (!this.lines) continue;
          this.resumer.opened();
        }
        chunk = (await this.lines.next(this.resumer.wait())) as LogChunk | undefined;
        over = !chunk && !this.past && (await this.finished());
      } catch (error) {
        // Ranks that write nothing are no fault.
        if (error instanceof DeadlineExceededError && this.lines && !this.lines.closed) continue;
        this.drop();
        if (!(error instanceof ApiError)) throw error;
        await this.resumer.lost(error);
        continue;
      }
      if (chunk) {
        this.resumer.arrived();
        const found = this.fresh(chunk);
        if (found) return found;
        continue;
      }
      this.drop();
      if (over) this.closed = true;
      else if (this.past) this.finish();
      else await this.resumer.lost(undefined);
    }
    return undefined;
  }

  private async finished(): Promise<boolean> {
    await this.job.refresh({ signal: this.options.signal });
    return this.job.ended;
  }

  /** The part of a chunk that was not given yet. */
  private fresh(chunk: LogChunk): LogOutput | undefined {
    const rank = chunk.rank ?? 0;
    const stream = chunk.stream ?? "";
    const data = dataOf(chunk);
    const key = `${rank} ${stream}`;
    this.noted ||= stream === "NOTE";
    const left = this.skip.get(key) ?? 0;
    const known = Math.min(left, data.length);
    this.skip.set(key, left - known);
    this.given.set(key, (this.given.get(key) ?? 0) + data.length - known);
    return known < data.length ? { rank, stream, data: data.subarray(known) } : undefined;
  }
}
