// @railyard/client: the controller's API for programs, in Node and in browsers.

export { Client, fetching, NotSent, type ClientOptions } from "./client.js";
export type { CallOptions, RetryPolicy, Sent, Transport, WatchOptions } from "./core.js";
export * from "./errors.js";
export * from "./generated/errors.js";
export * from "./generated/services/index.js";
export type * from "./generated/types/index.js";
export { Change, Changes, type AppliedDocument, type ApplyOptions, type FieldChange, type Outcome } from "./apply.js";
export { dataOf, JobHandle, type LogOptions, type LogOutput, type SubmitOptions } from "./jobs.js";
export { Pages, Records } from "./resource.js";
export { Watch, type WatchEvent } from "./watch.js";
