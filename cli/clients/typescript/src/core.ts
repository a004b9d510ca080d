// Calls: endpoints tried in turn, deadlines, and calls tried again where that is safe and can help.

import { ofAnswer } from "./answers.js";
import { ApiError, ConfigError } from "./errors.js";
import { DeadlineExceededError, InternalError, TlsError, TooLargeError, UnavailableError } from "./generated/errors.js";
import { Lines } from "./lines.js";

/** Bytes of an answer, and of one line of a stream, that are taken at most. */
export const MAX_ANSWER = 64 * 1024 * 1024;
/** Calls of one client that are under way at a time; others wait. Streams are not counted. */
const CALLS = 32;

/** The longest time of a timer, in milliseconds. */
const LONGEST = 2 ** 31 - 1;

/** What every call may be given. */
export interface CallOptions {
  /** The limit of one attempt, in milliseconds; the client's if left out. */
  timeoutMs?: number;
  /** Ends the call; it then throws the signal's reason. */
  signal?: AbortSignal;
}

/** What a watch may be given. */
export interface WatchOptions {
  /** The limit of all of it, in milliseconds; none if left out. */
  timeoutMs?: number;
  /** Ends the watch; it then throws the signal's reason. */
  signal?: AbortSignal;
}

/** One call of the API. */
export interface Operation {
  readonly name: string;
  readonly method: string;
  /** With `{field}` for what the path carries. */
  readonly path: string;
  /** Done twice it is as if done once, so that it is repeated where the answer was lost. */
  readonly repeatable: boolean;
  /** What it takes beside that. */
  readonly fields: readonly string[];
  /** The field that is the tenant's name where the caller gives none. */
  readonly tenant?: string;
  /** It takes a request id, which is made here where the caller gives none. */
  readonly requestId?: boolean;
  /** The fields are the body, not parameters. */
  readonly whole?: boolean;
  /** The body is a document that says of which tenant it is. */
  readonly owned?: boolean;
  /** Of a watch: the field of an event that has what it is about. */
  readonly thing?: string;
}

/** What a transport is asked to send. */
export interface Sent {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
  /** A connection that was used before may be taken. */
  readonly reuse: boolean;
}

/** Sends one request to one endpoint; `target` is path and query. Fails with `NotSent` where the request surely did not leave. */
export type Transport = (endpoint: string, target: string, sent: Sent) => Promise<Response>;

/** A connection could not be made, so that nothing was sent. `tls`: because of a certificate, so that trying again does not help. */
export class NotSent extends Error {
  constructor(
    message: string,
    readonly tls = "",
  ) {
    super(message);
  }
}

/** How often, how soon and for how long a call is repeated; times are milliseconds. */
export interface RetryPolicy {
  /** Calls in all, the first included. */
  attempts: number;
  /** The longest first wait; it doubles with every attempt. */
  firstMs: number;
  /** The longest wait of all. */
  longestMs: number;
  /** No call starts later than this after the first. */
  withinMs: number;
}

export const RETRY: Readonly<RetryPolicy> = { attempts: 5, firstMs: 100, longestMs: 2000, withinMs: 15000 };

/** Where the cluster is and as whom to speak. */
export interface Settings {
  /** Addresses of controllers, tried in turn. */
  readonly controller: readonly string[];
  /** An API token, or what gives one for each call. It is in no error. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
  /** The tenant to act for; empty: the caller's own, or all for an administrator's lists. */
  readonly tenant: string;
}

/** A call as it is sent. */
export interface Request {
  readonly operation: Operation;
  readonly target: string;
  readonly body: string | undefined;
  readonly repeatable: boolean;
}

/** Fields of a call by their names. */
export type Fields = Readonly<Record<string, unknown>>;

/** The backoff before jitter, after `made` attempts. */
export function ceiling(retry: RetryPolicy, made: number): number {
  return Math.min(retry.firstMs * 2 ** Math.min(Math.max(made - 1, 0), 32), retry.longestMs);
}

/** Milliseconds before the next attempt; undefined if the error must be given to the caller. `random` is in [0, 1). */
export function backoff(retry: RetryPolicy, made: number, elapsedMs: number, error: ApiError, random: number): number | undefined {
  const late = error.retryAfterMs;
  const again = error instanceof UnavailableError || (late !== undefined && error.status === "RESOURCE_EXHAUSTED");
  if (made >= retry.attempts || !again) return undefined;
  const most = ceiling(retry, made);
  const wait = late === undefined ? most / 2 + random * (most / 2) : late + random * most;
  return elapsedMs + wait <= retry.withinMs ? wait : undefined;
}

/** Waits; ends early with the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** A token that may stand in a header. What is wrong with it is not shown: it is the secret, written badly. */
function checked(token: string): string {
  if (!/^[\x21-\x7e]+$/.test(token)) throw new ConfigError("credentials: a token has neither blanks nor line ends, and is not empty");
  return token;
}

/** A parameter as it stands in a query. */
function written(value: unknown): string {
  return Array.isArray(value) ? value.map(written).join(",") : String(value);
}

/** The JSON of a text; undefined if it is none. */
export function readable(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The way to the controllers of one cluster. */
export class Core {
  private first = 0;
  private running = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(
    readonly settings: Settings,
    readonly transport: Transport,
    readonly timeoutMs: number,
    readonly retry: RetryPolicy,
  ) {
    if (!settings.controller.length) throw new ConfigError("no controller is known: give the address of one");
  }

  /** The answer of a call. */
  async call(operation: Operation, path: Readonly<Record<string, string>>, params: object, body?: unknown): Promise<unknown> {
    const options = params as CallOptions;
    const request = this.request(operation, path, params as Fields, body);
    return this.repeat(request, options.signal, async (attempt) => {
      // A connection that waited may be closed already: what may not be repeated gets a new one, and so does what failed.
      const reuse = request.repeatable && attempt === 1;
      await this.enter(options.signal);
      try {
        return await this.exchange(request, reuse, options.timeoutMs ?? this.timeoutMs, options.signal);
      } finally {
        this.leave();
      }
    });
  }

  private async enter(signal?: AbortSignal): Promise<void> {
    while (this.running >= CALLS) {
      await new Promise<void>((resolve, reject) => {
        const stop = () => {
          this.waiting.splice(this.waiting.indexOf(go), 1);
          reject(signal?.reason);
        };
        const go = () => {
          signal?.removeEventListener("abort", stop);
          resolve();
        };
        signal?.throwIfAborted();
        signal?.addEventListener("abort", stop, { once: true });
        this.waiting.push(go);
      });
    }
    this.running += 1;
  }

  private leave(): void {
    this.running -= 1;
    this.waiting.shift()?.();
  }

  /** Tries until an answer comes that trying again would not change; bounded by the policy. */
  async repeat<T>(request: Request, signal: AbortSignal | undefined, once: (attempt: number) => Promise<T>): Promise<T> {
    const began = performance.now();
    for (let made = 1; ; made += 1) {
      try {
        return await once(made);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        // Nobody took a connection, or it was too much at once: then nothing was done.
        const surelyNot = error.reason === "UNREACHABLE" || error.status === "RESOURCE_EXHAUSTED";
        const wait = backoff(this.retry, made, performance.now() - began, error, Math.random());
        if (wait === undefined || !(request.repeatable || surelyNot)) throw error;
        await sleep(wait, signal);
      }
    }
  }

  /** A call as it is sent, with what the client fills in: the tenant, and a request id. */
  request(operation: Operation, path: Readonly<Record<string, string>>, params: Fields, body?: unknown): Request {
    const given: Record<string, unknown> = {};
    for (const name of operation.fields) {
      if (params[name] !== undefined && params[name] !== null) given[name] = params[name];
    }
    const { tenant } = operation;
    if (tenant && given[tenant] === undefined && this.settings.tenant) given[tenant] = this.settings.tenant;
    if (operation.requestId && !given["requestId"]) given["requestId"] = crypto.randomUUID();
    let target = operation.path;
    for (const [name, value] of Object.entries(path)) {
      if (!value) throw new ConfigError(`${operation.name}: ${name} is empty`);
      target = target.replace(`{${name}}`, encodeURIComponent(value));
    }
    let content: unknown;
    if (operation.whole) {
      if (tenant && given[tenant] === "") delete given[tenant];
      content = given;
    } else {
      content = operation.owned ? this.owned(body) : body;
      const query = new URLSearchParams();
      for (const [name, value] of Object.entries(given)) {
        if (written(value)) query.set(name, written(value));
      }
      // Not `size`, which older browsers have not.
      const asked = query.toString();
      if (asked) target += `?${asked}`;
    }
    let text: string | undefined;
    try {
      text = content === undefined ? undefined : JSON.stringify(content);
    } catch (error) {
      throw new ConfigError(`${operation.name}: the request is no JSON: ${error}`);
    }
    return { operation, target, body: text, repeatable: operation.repeatable || operation.requestId === true };
  }

  /** A document of the client's tenant, where it names none. */
  owned(document: unknown): unknown {
    if (typeof document !== "object" || document === null || !this.settings.tenant) return document;
    const metadata = (document as { metadata?: { tenant?: string } }).metadata ?? {};
    return metadata.tenant ? document : { ...document, metadata: { ...metadata, tenant: this.settings.tenant } };
  }

  /** Sends a request to the first controller that takes it; an answer that is an error is thrown. */
  private async open(request: Request, headers: Record<string, string>, reuse: boolean, signal: AbortSignal): Promise<Response> {
    const { token, controller } = this.settings;
    if (token !== undefined) headers["authorization"] = `Bearer ${checked(typeof token === "string" ? token : await token())}`;
    if (request.body !== undefined) headers["content-type"] = "application/json";
    const sent: Sent = { method: request.operation.method, headers, body: request.body, signal, reuse };
    const failures: string[] = [];
    let [lost, away, wrong] = [false, false, ""];
    for (let step = 0; step < controller.length; step += 1) {
      const at = (this.first + step) % controller.length;
      const endpoint = controller[at] as string;
      let answer: Response;
      try {
        answer = await this.transport(endpoint, request.target, sent);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof NotSent) {
          failures.push(error.message);
          if (error.tls) wrong ||= error.tls;
          else away = true;
          continue;
        }
        // Whether it was sent nobody knows; another controller may be asked only where that does no harm.
        failures.push(`${endpoint}: ${cause(error)}`);
        lost = true;
        if (!request.repeatable) break;
        continue;
      }
      this.first = at;
      if (answer.ok) return answer;
      throw ofAnswer(readable(await lossless(request, whole(answer), signal)), answer.status, request.operation.name);
    }
    const message = failures.join("; ");
    const operation = request.operation.name;
    // What may go well the next time counts for more than a certificate.
    if (lost) throw new UnavailableError(message, { reason: "CONNECTION_LOST", operation });
    if (wrong && !away) throw new TlsError(message, { reason: wrong, operation });
    throw new UnavailableError(message, { reason: "UNREACHABLE", operation });
  }

  /** One attempt of a call. */
  private exchange(request: Request, reuse: boolean, timeoutMs: number, signal?: AbortSignal): Promise<unknown> {
    const late = () => new DeadlineExceededError(`no answer within ${timeoutMs} ms`, { operation: request.operation.name });
    return within(timeoutMs, late, signal, async (limit) => {
      const milliseconds = Math.min(Math.max(Math.floor(timeoutMs), 1), 99_999_999);
      const answer = await this.open(request, { accept: "application/json", "grpc-timeout": `${milliseconds}m` }, reuse, limit);
      const value = readable(await lossless(request, whole(answer), limit));
      if (value === undefined) {
        throw new InternalError("the answer is no JSON", { reason: "BROKEN_ANSWER", operation: request.operation.name });
      }
      return value;
    });
  }

  /** A stream of JSON, begun; one attempt. `timeoutMs` is for its beginning. */
  async lines(request: Request, timeoutMs: number, signal?: AbortSignal): Promise<Lines> {
    const ending = new AbortController();
    const stop = () => ending.abort(signal?.reason);
    signal?.addEventListener("abort", stop, { once: true });
    const late = () => new DeadlineExceededError(`no answer within ${timeoutMs} ms`, { operation: request.operation.name });
    try {
      signal?.throwIfAborted();
      const answer = await within(timeoutMs, late, ending.signal, (limit) => {
        limit.addEventListener("abort", () => ending.abort(limit.reason), { once: true });
        return this.open(request, { accept: "application/x-ndjson" }, false, ending.signal);
      });
      return new Lines(answer, request.operation.name, () => {
        signal?.removeEventListener("abort", stop);
        ending.abort();
      });
    } catch (error) {
      signal?.removeEventListener("abort", stop);
      throw error;
    }
  }
}

/** Does something that a signal ends after some time, or when the caller's does. */
async function within<T>(
  ms: number,
  late: () => Error,
  signal: AbortSignal | undefined,
  work: (limit: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const limit = new AbortController();
  const stop = () => limit.abort(signal?.reason);
  signal?.addEventListener("abort", stop, { once: true });
  // A timer has 31 bits: with more it would end at once. Without a limit there is none.
  const timer = ms === Infinity ? undefined : setTimeout(() => limit.abort(late()), Math.min(ms, LONGEST));
  // What does not listen to the signal must not hold up the caller.
  const ended = new Promise<never>((_, reject) => limit.signal.addEventListener("abort", () => reject(limit.signal.reason), { once: true }));
  try {
    return await Promise.race([work(limit.signal), ended]);
  } catch (error) {
    if (limit.signal.aborted) throw limit.signal.reason;
    throw error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}

/** The text of an answer; a connection that is lost in the middle is UNAVAILABLE. */
async function lossless(request: Request, text: Promise<string>, signal: AbortSignal): Promise<string> {
  try {
    return await text;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ApiError) throw error;
    throw new UnavailableError(`the answer was lost: ${cause(error)}`, { reason: "CONNECTION_LOST", operation: request.operation.name });
  }
}

/** All of an answer's text. */
async function whole(answer: Response): Promise<string> {
  if (!answer.body) return "";
  const decoder = new TextDecoder();
  const reader = answer.body.getReader();
  let [text, size] = ["", 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.byteLength;
    if (size > MAX_ANSWER) {
      await reader.cancel();
      throw new TooLargeError(`an answer has more than ${MAX_ANSWER} bytes`, { reason: "ANSWER_TOO_LARGE" });
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** What went wrong with a connection, in few words. `fetch` hides it one level down. */
export function cause(error: unknown): string {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return inner instanceof Error ? inner.message || inner.name : String(inner);
}
