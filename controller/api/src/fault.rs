//! Every refusal of the rooms below, as the one error that crosses the border.

use std::time::Duration;

use controller_core::{CoreError, ErrorKind, values::ValuesError};
use controller_leader::{Refusal, RevokeError, UserTokenError};
use controller_store::StoreError;
use proto_rpc::{ErrorClass, REVOKED, RpcError, ca::CaError};
use proto_wire::FieldErrors;

/// Told to callers whom a store without space turned away.
const UNWRITABLE_RETRY: Duration = Duration::from_secs(2);

/// The error that a caller gets for a refusal of the leader loop.
#[must_use]
pub fn refused(refusal: &Refusal) -> RpcError {
    let text = refusal.to_string();
    match refusal {
        Refusal::Core(error) => core(error),
        Refusal::Busy { retry_after, .. } => {
            RpcError::new(ErrorClass::Unavailable, "QUEUE_FULL", text).with_retry_after(*retry_after)
        }
        Refusal::Unwritable { .. } => RpcError::new(ErrorClass::Unavailable, "STORE_UNWRITABLE", text)
            .with_retry_after(UNWRITABLE_RETRY),
        Refusal::Unconfirmed { .. } => RpcError::new(ErrorClass::Unavailable, "LEAD_UNCONFIRMED", text)
            .with_retry_after(UNWRITABLE_RETRY),
        Refusal::Unknown { .. } => RpcError::new(ErrorClass::Unavailable, "OUTCOME_UNKNOWN", text),
        Refusal::TooLarge { .. } => RpcError::new(ErrorClass::TooLarge, "TRANSACTION_TOO_LARGE", text),
        Refusal::Unreadable { .. } => RpcError::new(ErrorClass::Unavailable, "STORE_UNREADABLE", text),
        Refusal::Corrupt(_) => RpcError::new(ErrorClass::DataLoss, "STORED_VALUE_CORRUPT", text),
        Refusal::Stopped { .. } => RpcError::new(ErrorClass::Unavailable, "NOT_LEADING", text)
            .with_retry_after(Duration::from_millis(200)),
    }
}

/// The error that a caller gets for an error of the core.
fn core(error: &CoreError) -> RpcError {
    if let CoreError::TemplateRefused { cause } = error {
        let mut fault = core(cause);
        fault.message = error.to_string();
        for violation in &mut fault.violations {
            // As the field is called in the document.
            if let Some(rest) = violation.field.strip_prefix("spec.") {
                violation.field = format!("spec.jobTemplate.spec.{rest}");
            }
        }
        return fault;
    }
    let class = match (error.kind(), error) {
        (ErrorKind::Conflict, CoreError::NameTaken { .. } | CoreError::RequestIdReused { .. }) => {
            ErrorClass::AlreadyExists
        }
        (
            ErrorKind::Exhausted,
            CoreError::QuotaExceeded { .. }
            | CoreError::StoredBytesExceeded { .. }
            | CoreError::SchedulesExceeded { .. }
            | CoreError::ClassWaiting { .. }
            | CoreError::Values(ValuesError::TooMuch { .. }),
        ) => ErrorClass::Quota,
        (ErrorKind::Invalid, _) => ErrorClass::Invalid,
        (ErrorKind::NotFound, _) => ErrorClass::NotFound,
        (ErrorKind::Denied, _) => ErrorClass::Denied,
        (ErrorKind::Conflict | ErrorKind::Precondition, _) => ErrorClass::Conflict,
        (ErrorKind::Exhausted, _) => ErrorClass::Overloaded,
        (ErrorKind::Infeasible, _) => ErrorClass::Infeasible,
    };
    let mut fault = RpcError::new(class, error.code(), error.to_string());
    match error {
        CoreError::Invalid { field, message } => fault = fault.with_violation(*field, message.clone()),
        CoreError::Contradiction { flaw } => {
            fault = fault.with_violation(format!("spec.{}", flaw.field()), flaw.to_string());
        }
        CoreError::ClassLimit { field, .. } => fault = fault.with_violation(*field, error.to_string()),
        CoreError::ClassNotAllowed { .. } => {
            fault = fault.with_violation("spec.serviceClass", error.to_string());
        }
        CoreError::LicenseTooFew { license, .. } => {
            fault = fault.with_violation(format!("spec.licenses.{license}"), error.to_string());
        }
        CoreError::Values(ValuesError::Empty(_)) => {
            fault = fault.with_violation("data", error.to_string());
        }
        CoreError::Values(ValuesError::EnvSource { field, flaw }) => {
            fault = fault.with_violation(field.clone(), flaw.to_string());
        }
        CoreError::DependencyCycle { .. } => fault = fault.with_violation("spec.after", error.to_string()),
        CoreError::RailAmbiguous { .. } => fault = fault.with_violation("target", error.to_string()),
        CoreError::PriorityTooHigh { .. } => {
            fault = fault.with_violation("spec.priority", error.to_string());
        }
        _ => {}
    }
    for reason in error.reasons() {
        let field = if reason.scope.is_empty() { reason.code.to_string() } else { reason.scope.clone() };
        fault = fault.with_violation(field, format!("{}: {}", reason.code, reason.message));
    }
    fault
}

/// Wrong fields, their paths put below `under` (empty: as they are).
#[must_use]
pub fn fields(errors: FieldErrors, under: &str) -> RpcError {
    let path = |field: &str| match (under.is_empty(), field.is_empty()) {
        (true, _) => field.to_owned(),
        (false, true) => under.to_owned(),
        (false, false) => format!("{under}.{field}"),
    };
    let named: Vec<(String, String)> = errors.0.into_iter().map(|e| (path(&e.field), e.message)).collect();
    let text =
        named.iter().map(|(field, message)| format!("{field}: {message}")).collect::<Vec<_>>().join("; ");
    named
        .into_iter()
        .fold(RpcError::new(ErrorClass::Invalid, "INVALID_FIELD", text), |error, (field, message)| {
            error.with_violation(field, message)
        })
}

/// The error for one field of a request; `message` says what is wrong with it.
pub fn field(field: &str, message: impl std::fmt::Display) -> RpcError {
    fields(FieldErrors::one(field, message.to_string()), "")
}

/// A failed read of the store.
#[must_use]
pub fn store(error: &StoreError) -> RpcError {
    match error {
        StoreError::Compacted { compact_revision } => RpcError::new(
            ErrorClass::Gone,
            "REVISION_COMPACTED",
            format!(
                "revisions up to {compact_revision} are gone; list again and watch from that list's revision"
            ),
        ),
        StoreError::FutureRevision { .. } => {
            let text = error.to_string();
            RpcError::new(ErrorClass::Invalid, "REVISION_IN_FUTURE", text.clone())
                .with_violation("afterRevision", text)
        }
        StoreError::Lagged { .. } => {
            RpcError::new(ErrorClass::Unavailable, "WATCH_LAGGED", error.to_string())
        }
        StoreError::Closed => {
            RpcError::new(ErrorClass::Unavailable, "NOT_LEADING", "the controller is ending")
        }
        _ => RpcError::new(ErrorClass::Unavailable, "STORE_UNREADABLE", error.to_string()),
    }
}

/// The certificate authority's refusal: a bad request of the caller's, or a defect of ours.
#[must_use]
pub fn ca(error: &CaError) -> RpcError {
    match error {
        CaError::BadRequest { .. } => field("csrPem", error),
        CaError::Identity(_) => RpcError::new(ErrorClass::Invalid, "BAD_IDENTITY", error.to_string())
            .with_violation("user", error.to_string()),
        _ => RpcError::new(ErrorClass::Internal, "CA_FAILED", error.to_string()),
    }
}

/// A bearer token's refusal. What it says does not depend on whether the id exists.
#[must_use]
pub fn token(error: &UserTokenError) -> RpcError {
    match error {
        UserTokenError::Refused(refusal) => refused(refusal),
        UserTokenError::Token(_) | UserTokenError::Invalid | UserTokenError::Identity(_) => {
            RpcError::new(ErrorClass::Unauthenticated, "BAD_TOKEN", "the bearer token is not valid")
        }
        UserTokenError::Revoked => RpcError::new(ErrorClass::Unauthenticated, REVOKED, error.to_string()),
        UserTokenError::Expired => {
            RpcError::new(ErrorClass::Unauthenticated, "TOKEN_EXPIRED", error.to_string())
        }
    }
}

/// The error for a revocation that was not made.
#[must_use]
pub fn revoke(error: &RevokeError) -> RpcError {
    match error {
        RevokeError::Refused(refusal) => refused(refusal),
        RevokeError::TooMany { .. } => {
            RpcError::new(ErrorClass::Overloaded, "TOO_MANY_REVOCATIONS", error.to_string())
        }
        RevokeError::Tokens(cause) => token(cause),
    }
}
