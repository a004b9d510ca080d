//! Errors on the wire: the one mapping between an error's class, gRPC codes, HTTP statuses and exit codes.
//!
//! | class | gRPC code | HTTP | exit | for |
//! |---|---|---|---|---|
//! | Invalid | INVALID_ARGUMENT | 400 | 2 | the request says something that cannot be |
//! | TooLarge | OUT_OF_RANGE | 413 | 2 | a message beyond its limit |
//! | MediaType | INVALID_ARGUMENT | 415 | 2 | a body in a format that is not taken |
//! | Method | UNIMPLEMENTED | 405 | 2 | an HTTP method that a path does not have |
//! | Gone | OUT_OF_RANGE | 410 | 1 | a watch's revision that was compacted; list again |
//! | Unauthenticated | UNAUTHENTICATED | 401 | 4 | nobody, or a bad token |
//! | Denied | PERMISSION_DENIED | 403 | 4 | somebody who may not |
//! | NotFound | NOT_FOUND | 404 | 3 | |
//! | AlreadyExists | ALREADY_EXISTS | 409 | 5 | the name is taken |
//! | Conflict | ABORTED | 409 | 5 | somebody wrote first; read again |
//! | Infeasible | FAILED_PRECONDITION | 422 | 6 | sound, but cannot be on this cluster or in this state |
//! | Quota | RESOURCE_EXHAUSTED | 429 | 6 | beyond what the tenant may have |
//! | Overloaded | RESOURCE_EXHAUSTED | 429 | 7 | too much at once; try later |
//! | Timeout | DEADLINE_EXCEEDED | 504 | 7 | |
//! | Unavailable | UNAVAILABLE | 503 | 7 | nobody answers, or not the leader |
//! | Cancelled | CANCELLED | 499 | 1 | the caller went away |
//! | Unimplemented | UNIMPLEMENTED | 501 | 1 | |
//! | Internal | INTERNAL | 500 | 1 | a defect |
//! | DataLoss | DATA_LOSS | 500 | 1 | stored data is damaged |
//!
//! Details travel as google.rpc messages in `grpc-status-details-bin`: ErrorInfo (domain `rail`, reason, class in
//! its metadata), BadRequest (violations) and RetryInfo. REST carries the same as a JSON body.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::fmt;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

/// The ErrorInfo domain of our own errors.
pub const DOMAIN: &str = "rail";
/// The reason of an error about a job that does not run: no step begins in it.
pub const NOT_RUNNING: &str = "NOT_RUNNING";
/// Key of the class in ErrorInfo's metadata.
const CLASS_KEY: &str = "class";
/// Violations that travel with one error; further ones are counted in a last entry.
pub const MAX_VIOLATIONS: usize = 32;
// Bounds so that a Status always fits into the 16 KiB of headers that HTTP/2 peers accept, percent-encoded and
// in base64.
const MAX_MESSAGE: usize = 2048;
const MAX_FIELD: usize = 128;
const MAX_DETAILS: usize = 6 * 1024;

/// What kind of failure it is: what a caller must do differs between classes, not between reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the table at the top of this file says what each one is for")]
pub enum ErrorClass {
    Invalid,
    TooLarge,
    MediaType,
    Method,
    Gone,
    Unauthenticated,
    Denied,
    NotFound,
    AlreadyExists,
    Conflict,
    Infeasible,
    Quota,
    Overloaded,
    Timeout,
    Unavailable,
    Cancelled,
    Unimplemented,
    Internal,
    DataLoss,
}

impl ErrorClass {
    /// All classes, for tables and tests.
    pub const ALL: [ErrorClass; 19] = [
        ErrorClass::Invalid,
        ErrorClass::TooLarge,
        ErrorClass::MediaType,
        ErrorClass::Method,
        ErrorClass::Gone,
        ErrorClass::Unauthenticated,
        ErrorClass::Denied,
        ErrorClass::NotFound,
        ErrorClass::AlreadyExists,
        ErrorClass::Conflict,
        ErrorClass::Infeasible,
        ErrorClass::Quota,
        ErrorClass::Overloaded,
        ErrorClass::Timeout,
        ErrorClass::Unavailable,
        ErrorClass::Cancelled,
        ErrorClass::Unimplemented,
        ErrorClass::Internal,
        ErrorClass::DataLoss,
    ];

    /// The table's row: name on the wire, gRPC code, HTTP status, exit code of the command line.
    fn row(self) -> (&'static str, Code, u16, u8) {
        match self {
            ErrorClass::Invalid => ("invalid", Code::InvalidArgument, 400, 2),
            ErrorClass::TooLarge => ("too-large", Code::OutOfRange, 413, 2),
            ErrorClass::MediaType => ("media-type", Code::InvalidArgument, 415, 2),
            ErrorClass::Method => ("method", Code::Unimplemented, 405, 2),
            ErrorClass::Gone => ("gone", Code::OutOfRange, 410, 1),
            ErrorClass::Unauthenticated => ("unauthenticated", Code::Unauthenticated, 401, 4),
            ErrorClass::Denied => ("denied", Code::PermissionDenied, 403, 4),
            ErrorClass::NotFound => ("not-found", Code::NotFound, 404, 3),
            ErrorClass::AlreadyExists => ("already-exists", Code::AlreadyExists, 409, 5),
            ErrorClass::Conflict => ("conflict", Code::Aborted, 409, 5),
            ErrorClass::Infeasible => ("infeasible", Code::FailedPrecondition, 422, 6),
            ErrorClass::Quota => ("quota", Code::ResourceExhausted, 429, 6),
            ErrorClass::Overloaded => ("overloaded", Code::ResourceExhausted, 429, 7),
            ErrorClass::Timeout => ("timeout", Code::DeadlineExceeded, 504, 7),
            ErrorClass::Unavailable => ("unavailable", Code::Unavailable, 503, 7),
            ErrorClass::Cancelled => ("cancelled", Code::Cancelled, 499, 1),
            ErrorClass::Unimplemented => ("unimplemented", Code::Unimplemented, 501, 1),
            ErrorClass::Internal => ("internal", Code::Internal, 500, 1),
            ErrorClass::DataLoss => ("data-loss", Code::DataLoss, 500, 1),
        }
    }

    /// The class's name in details.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The gRPC code that the class is sent as.
    #[must_use]
    pub fn code(self) -> Code {
        self.row().1
    }

    /// The HTTP status of REST.
    #[must_use]
    pub fn http_status(self) -> u16 {
        self.row().2
    }

    /// The exit code of `railctl`.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        self.row().3
    }

    /// The class of a Status that carries no details of ours.
    #[must_use]
    pub fn of_code(code: Code) -> Self {
        match code {
            Code::InvalidArgument => ErrorClass::Invalid,
            Code::OutOfRange => ErrorClass::TooLarge,
            Code::Unauthenticated => ErrorClass::Unauthenticated,
            Code::PermissionDenied => ErrorClass::Denied,
            Code::NotFound => ErrorClass::NotFound,
            Code::AlreadyExists => ErrorClass::AlreadyExists,
            Code::Aborted => ErrorClass::Conflict,
            Code::FailedPrecondition => ErrorClass::Infeasible,
            Code::ResourceExhausted => ErrorClass::Overloaded,
            Code::DeadlineExceeded => ErrorClass::Timeout,
            Code::Unavailable => ErrorClass::Unavailable,
            Code::Cancelled => ErrorClass::Cancelled,
            Code::Unimplemented => ErrorClass::Unimplemented,
            Code::DataLoss => ErrorClass::DataLoss,
            Code::Ok | Code::Unknown | Code::Internal => ErrorClass::Internal,
        }
    }

    /// The class of an HTTP status, for clients of REST.
    #[must_use]
    pub fn of_http(status: u16) -> Self {
        ErrorClass::ALL
            .into_iter()
            .find(|class| class.http_status() == status)
            .unwrap_or(if (400..500).contains(&status) { ErrorClass::Invalid } else { ErrorClass::Internal })
    }

    fn named(name: &str, code: Code) -> Option<Self> {
        ErrorClass::ALL.into_iter().find(|class| class.as_str() == name && class.code() == code)
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One field of a request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field, as in `spec.resources.nodes`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// An error as it crosses the border between processes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// The class of the failure, which decides about codes.
    pub class: ErrorClass,
    /// For programs: upper-case words, as in `QUOTA_EXCEEDED`; stable.
    pub reason: String,
    /// The message for people, in one sentence.
    pub message: String,
    /// Fields that are wrong, for class Invalid and Infeasible.
    pub violations: Vec<Violation>,
    /// When trying again makes sense, if the server knows.
    pub retry_after: Option<Duration>,
}

impl RpcError {
    /// An error without violations.
    pub fn new(class: ErrorClass, reason: impl Into<String>, message: impl Into<String>) -> Self {
        RpcError {
            class,
            reason: reason.into(),
            message: message.into(),
            violations: Vec::new(),
            retry_after: None,
        }
    }

    /// Adds a wrong field.
    #[must_use]
    pub fn with_violation(mut self, field: impl Into<String>, message: impl Into<String>) -> Self {
        self.violations.push(Violation { field: field.into(), message: message.into() });
        self
    }

    /// Says when trying again makes sense.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Reads what a server sent; a Status without our details gets the class of its code and its code's name
    /// as reason.
    #[must_use]
    pub fn from_status(status: &Status) -> Self {
        let details = status.get_error_details();
        let ours = details.error_info().filter(|info| info.domain == DOMAIN);
        let class = ours
            .and_then(|info| info.metadata.get(CLASS_KEY))
            .and_then(|name| ErrorClass::named(name, status.code()))
            .unwrap_or_else(|| ErrorClass::of_code(status.code()));
        let reason = ours.map_or_else(|| code_name(status.code()).to_owned(), |info| info.reason.clone());
        let violations = details.bad_request().map(|bad| &bad.field_violations[..]).unwrap_or_default();
        RpcError {
            class,
            reason,
            message: status.message().to_owned(),
            violations: violations
                .iter()
                .map(|v| Violation { field: v.field.clone(), message: v.description.clone() })
                .collect(),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
        }
    }

    /// The exit code of `railctl`.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.class.exit_code()
    }

    /// The body of a REST answer.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let mut error = serde_json::json!({
            "code": self.class.http_status(),
            "status": code_name(self.class.code()),
            "class": self.class.as_str(),
            "reason": self.reason,
            "message": self.message,
        });
        if !self.violations.is_empty() {
            error["violations"] = self
                .violations
                .iter()
                .map(|v| serde_json::json!({"field": v.field, "message": v.message}))
                .collect();
        }
        if let Some(after) = self.retry_after {
            error["retryAfterMs"] = u64::try_from(after.as_millis()).unwrap_or(u64::MAX).into();
        }
        serde_json::json!({ "error": error })
    }

    /// The same error, with texts and lists cut so that it fits into HTTP headers whatever it was made from.
    fn bounded(&self) -> (String, Vec<FieldViolation>) {
        let mut room = MAX_DETAILS;
        let mut kept = Vec::new();
        for violation in self.violations.iter().take(MAX_VIOLATIONS) {
            let (field, message) =
                (cut(&violation.field, MAX_FIELD), cut(&violation.message, MAX_MESSAGE / 2));
            let size = field.len() + message.len() + 64;
            if size > room {
                break;
            }
            room -= size;
            kept.push(FieldViolation::new(field, message));
        }
        let left = self.violations.len() - kept.len();
        if left > 0 {
            kept.push(FieldViolation::new("", format!("and {left} more")));
        }
        (cut(&self.message, MAX_MESSAGE), kept)
    }
}

impl From<&RpcError> for Status {
    fn from(error: &RpcError) -> Self {
        let (message, violations) = error.bounded();
        let class = (CLASS_KEY.to_owned(), error.class.as_str().to_owned());
        let mut details = ErrorDetails::with_error_info(
            cut(&error.reason, 63),
            DOMAIN,
            std::iter::once(class).collect::<std::collections::HashMap<_, _>>(),
        );
        if !violations.is_empty() {
            details.set_bad_request(violations);
        }
        if let Some(after) = error.retry_after {
            details.set_retry_info(Some(after));
        }
        Status::with_error_details(error.class.code(), message, details)
    }
}

impl From<RpcError> for Status {
    fn from(error: RpcError) -> Self {
        Status::from(&error)
    }
}

impl From<Status> for RpcError {
    fn from(status: Status) -> Self {
        RpcError::from_status(&status)
    }
}

/// REST: the class's HTTP status, the JSON body, and Retry-After in whole seconds where it is known.
impl IntoResponse for RpcError {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.class.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self.to_json())).into_response();
        if let Some(after) = self.retry_after {
            let seconds = after.as_millis().div_ceil(1000);
            if let Ok(value) = HeaderValue::from_str(&seconds.to_string()) {
                response.headers_mut().insert(header::RETRY_AFTER, value);
            }
        }
        response
    }
}

/// The code's name as the gRPC specification writes it.
#[must_use]
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// At most `limit` bytes of `text`, cut between characters and marked.
fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit.saturating_sub(3)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_round_trips_through_a_status() {
        for class in ErrorClass::ALL {
            let error = RpcError::new(class, "SOME_REASON", "what happened")
                .with_violation("spec.nodes", "must be at least 1")
                .with_retry_after(Duration::from_millis(1500));
            let status = Status::from(&error);
            assert_eq!(status.code(), class.code());
            assert_eq!(RpcError::from_status(&status), error);
            assert!((400..600).contains(&class.http_status()), "{class}");
            assert!((1..=7).contains(&class.exit_code()), "{class}");
        }
    }

    #[test]
    fn every_code_has_a_class_that_maps_back() {
        for number in 1..=16 {
            let code = Code::from_i32(number);
            let class = ErrorClass::of_code(code);
            let expected = if code == Code::Unknown { Code::Internal } else { code };
            assert_eq!(class.code(), expected);
            let error = RpcError::from_status(&Status::new(code, "m"));
            assert_eq!((error.class, error.reason.as_str()), (class, code_name(code)));
        }
    }

    #[test]
    fn exit_codes_are_those_of_the_command_line() {
        let exits = |class: ErrorClass| class.exit_code();
        assert_eq!(exits(ErrorClass::Internal), 1);
        assert_eq!(exits(ErrorClass::Invalid), 2);
        assert_eq!(exits(ErrorClass::NotFound), 3);
        assert_eq!((exits(ErrorClass::Denied), exits(ErrorClass::Unauthenticated)), (4, 4));
        assert_eq!((exits(ErrorClass::Conflict), exits(ErrorClass::AlreadyExists)), (5, 5));
        assert_eq!((exits(ErrorClass::Infeasible), exits(ErrorClass::Quota)), (6, 6));
        assert_eq!((exits(ErrorClass::Timeout), exits(ErrorClass::Unavailable)), (7, 7));
    }

    #[test]
    fn every_class_is_found_by_its_http_status() {
        for class in ErrorClass::ALL {
            assert_eq!(ErrorClass::of_http(class.http_status()).http_status(), class.http_status());
        }
        assert_eq!(ErrorClass::of_http(418), ErrorClass::Invalid);
        assert_eq!(ErrorClass::of_http(599), ErrorClass::Internal);
    }

    #[test]
    fn a_class_in_details_must_fit_its_code() {
        let forged = Status::from(RpcError::new(ErrorClass::Quota, "QUOTA_EXCEEDED", "no"));
        let moved = Status::with_details(Code::Internal, "no", forged.details().to_vec().into());
        assert_eq!(RpcError::from_status(&moved).class, ErrorClass::Internal);
    }

    #[test]
    fn the_largest_error_still_fits_into_headers() {
        let mut error = RpcError::new(ErrorClass::Invalid, "R".repeat(500), "\u{2603}".repeat(100_000));
        for i in 0..10_000 {
            error = error.with_violation(format!("field{i}{}", "x".repeat(i)), "y".repeat(i));
        }
        let status = Status::from(&error);
        let response = status.clone().into_http::<()>();
        let headers = response.headers();
        let size: usize = headers.iter().map(|(k, v)| k.as_str().len() + v.len() + 32).sum();
        assert!(size < 16 * 1024, "{size} bytes of headers");
        let back = RpcError::from_status(&status);
        assert!(back.violations.last().unwrap().message.starts_with("and "));
    }

    #[test]
    fn rest_says_the_same() {
        let error =
            RpcError::new(ErrorClass::Quota, "QUOTA_EXCEEDED", "tenant research: 8 of 8 GPUs are used")
                .with_violation("spec.nodes", "too many")
                .with_retry_after(Duration::from_millis(1200));
        let json = error.to_json();
        assert_eq!(json["error"]["code"], 429);
        assert_eq!(json["error"]["status"], "RESOURCE_EXHAUSTED");
        assert_eq!(json["error"]["violations"][0]["field"], "spec.nodes");
        let response = error.into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
    }
}
