// From the API's JSON of an error to the error that is thrown.

import { byClass, InternalError, InvalidRequestError, OverloadedError, UnavailableError, UnimplementedError } from "./generated/errors.js";
import * as classes from "./generated/errors.js";
import type { ApiError, ErrorFields, Violation } from "./errors.js";

type Made = new (message: string, fields?: ErrorFields) => ApiError;

const BY_WORD: Readonly<Record<string, Made>> = { ...byClass, "media-type": InvalidRequestError, method: UnimplementedError };
const BY_CODE: Readonly<Record<number, Made>> = {
  400: classes.InvalidRequestError,
  401: classes.UnauthenticatedError,
  403: classes.PermissionDeniedError,
  404: classes.NotFoundError,
  405: UnimplementedError,
  409: classes.ConflictError,
  410: classes.GoneError,
  413: classes.TooLargeError,
  415: InvalidRequestError,
  422: classes.InfeasibleError,
  429: OverloadedError,
  499: classes.CancelledError,
  501: UnimplementedError,
  502: UnavailableError,
  503: UnavailableError,
  504: classes.DeadlineExceededError,
};

function ofCode(code: number): Made {
  return BY_CODE[code] ?? (code >= 400 && code < 500 ? InvalidRequestError : InternalError);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The error for an answer that is one. A class that is newer than this package goes by the HTTP status. */
export function ofAnswer(body: unknown, code: number, operation: string): ApiError {
  const error = isObject(body) ? body["error"] : undefined;
  if (!isObject(error)) {
    return new (ofCode(code))(`the answer has HTTP status ${code} and no error of the API`, { code, operation });
  }
  return ofError(error, code, operation);
}

/** The error for what stands below `error` in an answer, or in the refusal of a planned document. */
export function ofError(error: Readonly<Record<string, unknown>>, status: number, operation: string): ApiError {
  const code = Number(error["code"] ?? status) || 0;
  const word = String(error["class"] ?? "");
  const known = Object.hasOwn(BY_WORD, word) ? BY_WORD[word] : undefined;
  const after = error["retryAfterMs"];
  const violations = Array.isArray(error["violations"]) ? error["violations"] : [];
  const fields: ErrorFields = {
    reason: String(error["reason"] ?? ""),
    violations: violations.filter(isObject).map((one): Violation => ({ field: String(one["field"] ?? ""), message: String(one["message"] ?? "") })),
    retryAfterMs: after === undefined || after === null ? undefined : Number(after),
    operation,
  };
  if (code) fields.code = code;
  if (error["status"]) fields.status = String(error["status"]);
  if (word) fields.errorClass = word;
  return new (known ?? ofCode(code))(String(error["message"] ?? ""), fields);
}
