// Failures as errors: `ApiError` with a class for each class of error of the API (generated), and what the client raises by itself.

import type { Job } from "./generated/types/index.js";
import type { Changes } from "./apply.js";

/** One field of a request that is wrong: its path, as `spec.gang.nodes`, and what is wrong with it. */
export interface Violation {
  field: string;
  message: string;
}

/** What an `ApiError` is made of beside its message. */
export interface ErrorFields {
  reason?: string;
  violations?: readonly Violation[];
  retryAfterMs?: number | undefined;
  code?: number;
  status?: string;
  errorClass?: string;
  operation?: string;
}

/** Anything that this client raises by itself. */
export class ClientError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** No controller is known, or an argument, a file or a credential cannot be used; nothing was sent. */
export class ConfigError extends ClientError {}

/** The controller refused a call, or could not be asked. */
export class ApiError extends ClientError {
  /** The HTTP status. */
  readonly code: number;
  /** The gRPC code: NOT_FOUND. */
  readonly status: string;
  /** The API's word for the class: not-found. */
  readonly errorClass: string;
  /** For programs: JOB_NOT_FOUND. */
  readonly reason: string;
  /** Fields of the request that are wrong. */
  readonly violations: readonly Violation[];
  /** After how long trying again may help; undefined where the controller does not say that it does. */
  readonly retryAfterMs: number | undefined;
  /** The call, as createJob. */
  readonly operation: string;
  /** The message without the call and the reason. */
  readonly text: string;

  constructor(message: string, fields: ErrorFields = {}) {
    const { reason = "", operation = "" } = fields;
    super(`${operation ? `${operation}: ` : ""}${message}${reason ? ` [${reason}]` : ""}`);
    this.code = fields.code ?? 500;
    this.status = fields.status ?? "INTERNAL";
    this.errorClass = fields.errorClass ?? "internal";
    this.reason = reason;
    this.violations = fields.violations ?? [];
    this.retryAfterMs = fields.retryAfterMs;
    this.operation = operation;
    this.text = message;
  }
}

/** What was waited for did not come in time; the job itself goes on. `job` is as it was last. */
export class WaitTimeoutError extends ClientError {
  constructor(
    message: string,
    readonly job?: Job,
  ) {
    super(message);
  }
}

/** A job that was waited for has failed or was cancelled. */
export class JobFailedError extends ClientError {
  /** How it ended: FAILED or CANCELLED. */
  readonly phase: string;

  constructor(
    message: string,
    readonly job: Job,
  ) {
    super(message);
    this.phase = job.status?.phase ?? "FAILED";
  }
}

/** Some documents would be refused, so that none was applied. `changes` has all of them. */
export class ApplyRefusedError extends ClientError {
  constructor(readonly changes: Changes) {
    const refused = changes.all.filter((one) => one.outcome === "REFUSED");
    super(`nothing was applied:\n${refused.map((one) => `${one}: ${one.refusal?.message}`).join("\n")}`);
  }
}
