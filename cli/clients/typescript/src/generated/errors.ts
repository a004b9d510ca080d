// One class for each class of error of the API. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import { ApiError } from "../errors.js";
import type { ErrorFields } from "../errors.js";

/** The request says something that cannot be; `violations` names the fields. */
export class InvalidRequestError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 400, status: "INVALID_ARGUMENT", errorClass: "invalid", ...fields });
    this.name = "InvalidRequestError";
  }
}

/** A message beyond its limit. */
export class TooLargeError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 413, status: "OUT_OF_RANGE", errorClass: "too-large", ...fields });
    this.name = "TooLargeError";
  }
}

/** A revision that the store does not have any more. Watches of this client begin anew by themselves. */
export class GoneError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 410, status: "OUT_OF_RANGE", errorClass: "gone", ...fields });
    this.name = "GoneError";
  }
}

/** The controller does not know the caller: no certificate and no token, or one that is not good (any more). */
export class UnauthenticatedError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 401, status: "UNAUTHENTICATED", errorClass: "unauthenticated", ...fields });
    this.name = "UnauthenticatedError";
  }
}

/** The caller may not do this. */
export class PermissionDeniedError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 403, status: "PERMISSION_DENIED", errorClass: "denied", ...fields });
    this.name = "PermissionDeniedError";
  }
}

/** There is no such thing. */
export class NotFoundError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 404, status: "NOT_FOUND", errorClass: "not-found", ...fields });
    this.name = "NotFoundError";
  }
}

/** The name is taken. */
export class AlreadyExistsError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 409, status: "ALREADY_EXISTS", errorClass: "already-exists", ...fields });
    this.name = "AlreadyExistsError";
  }
}

/** Somebody else wrote first: read again. */
export class ConflictError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 409, status: "ABORTED", errorClass: "conflict", ...fields });
    this.name = "ConflictError";
  }
}

/** Sound, but it cannot be on this cluster or in this state. */
export class InfeasibleError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 422, status: "FAILED_PRECONDITION", errorClass: "infeasible", ...fields });
    this.name = "InfeasibleError";
  }
}

/** Beyond what the tenant may have. */
export class QuotaExceededError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 429, status: "RESOURCE_EXHAUSTED", errorClass: "quota", ...fields });
    this.name = "QuotaExceededError";
  }
}

/** Too much at once; `retryAfterMs` says when to try again. */
export class OverloadedError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 429, status: "RESOURCE_EXHAUSTED", errorClass: "overloaded", ...fields });
    this.name = "OverloadedError";
  }
}

/** The call took longer than it may. What became of it is unknown. */
export class DeadlineExceededError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 504, status: "DEADLINE_EXCEEDED", errorClass: "timeout", ...fields });
    this.name = "DeadlineExceededError";
  }
}

/** Nobody answers, or nobody leads at the moment. */
export class UnavailableError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 503, status: "UNAVAILABLE", errorClass: "unavailable", ...fields });
    this.name = "UnavailableError";
  }
}

/** The call was ended. */
export class CancelledError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 499, status: "CANCELLED", errorClass: "cancelled", ...fields });
    this.name = "CancelledError";
  }
}

/** The controller's release does not have this call. */
export class UnimplementedError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 501, status: "UNIMPLEMENTED", errorClass: "unimplemented", ...fields });
    this.name = "UnimplementedError";
  }
}

/** A defect of the controller, or an answer that cannot be read. */
export class InternalError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 500, status: "INTERNAL", errorClass: "internal", ...fields });
    this.name = "InternalError";
  }
}

/** Stored data is damaged. */
export class DataLossError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 500, status: "DATA_LOSS", errorClass: "data-loss", ...fields });
    this.name = "DataLossError";
  }
}

/** The controller's certificate cannot be verified, or it does not take ours. Trying again does not help. */
export class TlsError extends ApiError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, { code: 401, status: "UNAUTHENTICATED", errorClass: "unauthenticated", ...fields });
    this.name = "TlsError";
  }
}

/** Classes by the API's word for them. */
export const byClass = {
  "invalid": InvalidRequestError,
  "too-large": TooLargeError,
  "gone": GoneError,
  "unauthenticated": UnauthenticatedError,
  "denied": PermissionDeniedError,
  "not-found": NotFoundError,
  "already-exists": AlreadyExistsError,
  "conflict": ConflictError,
  "infeasible": InfeasibleError,
  "quota": QuotaExceededError,
  "overloaded": OverloadedError,
  "timeout": DeadlineExceededError,
  "unavailable": UnavailableError,
  "cancelled": CancelledError,
  "unimplemented": UnimplementedError,
  "internal": InternalError,
  "data-loss": DataLossError,
} as const;
