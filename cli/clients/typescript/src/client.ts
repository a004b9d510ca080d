// The client: where the cluster is, as whom to speak, and what goes over several calls.

import { apply, type AppliedDocument, type ApplyOptions, type Changes } from "./apply.js";
import { Core, NotSent, RETRY, type CallOptions, type RetryPolicy, type Settings, type Transport } from "./core.js";
import { ConfigError } from "./errors.js";
import { operations } from "./generated/operations.js";
import { Services } from "./generated/services/index.js";
import type { Job } from "./generated/types/index.js";
import { described, JobHandle, type SubmitOptions } from "./jobs.js";

/** What a client is made of. */
export interface ClientOptions {
  /** Addresses of controllers, tried in turn: `https://host:port`. In a browser: where the page comes from, if left out. */
  controller?: string | readonly string[];
  /** An API token, or what gives one for each call. */
  token?: string | (() => string | Promise<string>);
  /** The tenant to act for; empty: the caller's own, or all for an administrator's lists. */
  tenant?: string;
  /** The limit of one attempt of a call in milliseconds; 30 s if left out. */
  timeoutMs?: number;
  /** How calls are repeated. */
  retry?: Partial<RetryPolicy>;
  /** What sends requests; `fetch` if left out. */
  transport?: Transport;
}

/** `fetch` as a transport. It does not say whether a request was sent that nobody answered. */
export const fetching: Transport = (endpoint, target, sent) => {
  const { method, headers, body, signal } = sent;
  return fetch(endpoint + target, { method, headers, body, signal, cache: "no-store", redirect: "error" });
};

function addresses(given: string | readonly string[] | undefined): string[] {
  const origin = (globalThis as { location?: { origin?: string } }).location?.origin;
  const all = given === undefined ? (origin ? [origin] : []) : typeof given === "string" ? [given] : [...given];
  return all.map((one) => {
    // Before an @ stands a name, and perhaps a password.
    if (one.startsWith("http://")) throw new ConfigError(`\`${one.replace(/\/\/.*@/s, "//")}\`: there is no unencrypted API; write https://`);
    if (!/^(https:\/\/[^/?#@]+\/?|unix:\/.+)$/.test(one)) {
      throw new ConfigError(`an address of a controller is https://host:port${one.includes("@") ? "" : `, not \`${one}\``}`);
    }
    return one.replace(/\/$/, "");
  });
}

/** A cluster's API. */
export class Client extends Services {
  private readonly core: Core;

  constructor(options: ClientOptions = {}) {
    const { token, tenant = "", timeoutMs = 30_000, retry, transport } = options;
    const settings: Settings = { controller: addresses(options.controller), token, tenant };
    if (!transport && settings.controller.some((one) => one.startsWith("unix:"))) {
      throw new ConfigError("an address that is a unix socket is for `connect` of @railyard/client/node");
    }
    const core = new Core(settings, transport ?? fetching, timeoutMs, { ...RETRY, ...retry });
    super(core);
    this.core = core;
  }

  /** A job that is there, as an object. Throws NotFoundError. */
  async job(name: string, options: CallOptions & { tenant?: string } = {}): Promise<JobHandle> {
    return new JobHandle(this.core, (await this.core.call(operations.getJob, { name }, options)) as Job);
  }

  /**
   * Submits a job: a command (a list, or a text for a shell). Without a request id each call makes a job, exactly one however often it had
   * to be sent. Throws InvalidRequestError with the fields that are wrong, and other ApiErrors.
   */
  async submit(work: string | readonly string[], options: SubmitOptions = {}): Promise<JobHandle> {
    const { tenant: onBehalfOf, requestId, hold, timeoutMs, signal } = options;
    const params = { onBehalfOf, requestId, hold: hold || undefined, timeoutMs, signal };
    return new JobHandle(this.core, (await this.core.call(operations.createJob, {}, params, described(work, options))) as Job);
  }

  /**
   * Makes the cluster as documents say, and says what that changes; with `dryRun` it only says so, and nothing is stored. Documents are
   * judged together, each as if those before it had been applied: if one would be refused, nothing is applied and ApplyRefusedError says
   * why. What is as its document says is left alone.
   */
  async apply(documents: AppliedDocument | readonly AppliedDocument[], options: ApplyOptions = {}): Promise<Changes> {
    const all = Array.isArray(documents) ? (documents as readonly AppliedDocument[]) : [documents as AppliedDocument];
    return apply(this.core, all, options);
  }
}

export { NotSent };
