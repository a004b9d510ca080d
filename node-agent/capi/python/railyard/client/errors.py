"""Failures of the client as exceptions: one class for each class of error of the API, all of them an `ApiError`.

What a program must do differs between classes; `reason` is stable and says which case it is (docs/reasons.md lists them).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .types import Job


@dataclass(frozen=True)
class Violation:
    """One field of a request that is wrong: its path, as `spec.gang.nodes`, and what is wrong with it."""

    field: str
    message: str


class ClientError(Exception):
    """Anything that this client raises by itself."""


class ConfigError(ClientError, ValueError):
    """No controller is known, or the configuration, a credential or an argument cannot be used; nothing was sent."""


class ApiError(ClientError):
    """The controller refused a call, or could not be asked.

    `code` is the HTTP status and `status` the gRPC code (NOT_FOUND); `error_class` is the API's word for the class (not-found),
    `reason` is for programs (JOB_NOT_FOUND), `message` for people. `violations` names wrong fields. `retry_after` is in seconds, None
    where the controller does not say that trying again helps.
    """

    code = 500
    status = "INTERNAL"
    error_class = "internal"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        violations: tuple[Violation, ...] = (),
        retry_after: float | None = None,
        code: int | None = None,
        status: str | None = None,
        error_class: str | None = None,
        operation: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.violations = violations
        self.retry_after = retry_after
        self.operation = operation
        if code is not None:
            self.code = code
        if status is not None:
            self.status = status
        if error_class is not None:
            self.error_class = error_class

    def __str__(self) -> str:
        what = f"{self.operation}: " if self.operation else ""
        reason = f" [{self.reason}]" if self.reason else ""
        return f"{what}{self.message}{reason}"


class InvalidRequest(ApiError, ValueError):
    """The request says something that cannot be; `violations` names the fields."""

    code, status, error_class = 400, "INVALID_ARGUMENT", "invalid"


class TooLarge(InvalidRequest):
    """A message beyond its limit."""

    code, status, error_class = 413, "OUT_OF_RANGE", "too-large"


class Gone(ApiError):
    """A revision that the store does not have any more. Watches of this client begin anew by themselves."""

    code, status, error_class = 410, "OUT_OF_RANGE", "gone"


class Unauthenticated(ApiError):
    """The controller does not know the caller: no certificate and no token, or one that is not good (any more)."""

    code, status, error_class = 401, "UNAUTHENTICATED", "unauthenticated"


class PermissionDenied(ApiError, PermissionError):
    """The caller may not do this."""

    code, status, error_class = 403, "PERMISSION_DENIED", "denied"


class NotFound(ApiError, LookupError):
    """There is no such thing."""

    code, status, error_class = 404, "NOT_FOUND", "not-found"


class AlreadyExists(ApiError):
    """The name is taken."""

    code, status, error_class = 409, "ALREADY_EXISTS", "already-exists"


class Conflict(ApiError):
    """Somebody else wrote first: read again."""

    code, status, error_class = 409, "ABORTED", "conflict"


class Infeasible(ApiError):
    """Sound, but it cannot be on this cluster or in this state."""

    code, status, error_class = 422, "FAILED_PRECONDITION", "infeasible"


class QuotaExceeded(ApiError):
    """Beyond what the tenant may have."""

    code, status, error_class = 429, "RESOURCE_EXHAUSTED", "quota"


class Overloaded(ApiError):
    """Too much at once; `retry_after` says when to try again."""

    code, status, error_class = 429, "RESOURCE_EXHAUSTED", "overloaded"


class DeadlineExceeded(ApiError, TimeoutError):
    """The call took longer than it may. What became of it is unknown."""

    code, status, error_class = 504, "DEADLINE_EXCEEDED", "timeout"


class Unavailable(ApiError, ConnectionError):
    """Nobody answers, or nobody leads at the moment."""

    code, status, error_class = 503, "UNAVAILABLE", "unavailable"


class TlsError(ApiError, ConnectionError):
    """The controller's certificate cannot be verified, or it does not take ours. Trying again does not help."""

    code, status, error_class = 401, "UNAUTHENTICATED", "unauthenticated"


class Cancelled(ApiError):
    """The call was ended."""

    code, status, error_class = 499, "CANCELLED", "cancelled"


class Unimplemented(ApiError, NotImplementedError):
    """The controller's release does not have this call."""

    code, status, error_class = 501, "UNIMPLEMENTED", "unimplemented"


class InternalError(ApiError):
    """A defect of the controller, or an answer that cannot be read."""


class DataLoss(ApiError):
    """Stored data is damaged."""

    code, status, error_class = 500, "DATA_LOSS", "data-loss"


class WaitTimeout(ClientError, TimeoutError):
    """What was waited for did not come in time; the job itself goes on. `job` is as it was last."""

    def __init__(self, message: str, job: Job | None = None) -> None:
        super().__init__(message)
        self.job = job


class JobFailed(ClientError):
    """A job that was waited for has failed or was cancelled. `job` is the whole of it, `phase` how it ended."""

    def __init__(self, message: str, job: Job) -> None:
        super().__init__(message)
        self.job = job
        self.phase = job.get("status", {}).get("phase", "FAILED")


class FunctionFailed(ClientError):
    """A submitted function raised on a rank, or gave a value that is no JSON. `remote_traceback` is the rank's own text."""

    def __init__(self, message: str, rank: int, remote_traceback: str = "") -> None:
        super().__init__(message)
        self.rank = rank
        self.remote_traceback = remote_traceback


_KINDS: tuple[type[ApiError], ...] = (
    InvalidRequest,
    TooLarge,
    Gone,
    Unauthenticated,
    PermissionDenied,
    NotFound,
    AlreadyExists,
    Conflict,
    Infeasible,
    QuotaExceeded,
    Overloaded,
    DeadlineExceeded,
    Unavailable,
    Cancelled,
    Unimplemented,
    InternalError,
    DataLoss,
)
_CLASSES = {kind.error_class: kind for kind in _KINDS}
_CLASSES.update({"media-type": InvalidRequest, "method": Unimplemented})
_CODES = {kind.code: kind for kind in _KINDS}
_CODES.update(
    {405: Unimplemented, 409: Conflict, 415: InvalidRequest, 429: Overloaded, 500: InternalError, 502: Unavailable}
)


def of_answer(body: Any, code: int, operation: str) -> ApiError:
    """The exception for an answer that is an error. A class that is newer than this package goes by the HTTP status."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        kind = _CODES.get(code, InvalidRequest if 400 <= code < 500 else InternalError)
        return kind(f"the answer has HTTP status {code} and no error of the API", code=code, operation=operation)
    return of_error(error, code, operation)


def of_error(error: dict[str, Any], code: int, operation: str) -> ApiError:
    """The exception for what stands below `error` in an answer, or in the refusal of a planned document."""
    code = int(error.get("code", code))
    word = str(error.get("class", ""))
    default = _CODES.get(code, InvalidRequest if 400 <= code < 500 else InternalError)
    kind = _CLASSES.get(word, default)
    after = error.get("retryAfterMs")
    return kind(
        str(error.get("message", "")),
        reason=str(error.get("reason", "")),
        violations=tuple(
            Violation(str(one.get("field", "")), str(one.get("message", ""))) for one in error.get("violations", ())
        ),
        retry_after=None if after is None else int(after) / 1000,
        code=code or kind.code,
        status=error.get("status"),
        error_class=word or None,
        operation=operation,
    )
