//! Deadlines: `grpc-timeout` read from calls, enforced on handlers, and handed on to the calls they make.
//!
//! A deadline bounds the time to the head of the response. For unary calls that is the whole handler; a stream,
//! once it has begun, lives as long as its connection and its handler let it.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

use crate::refusal::refuse;
use crate::status::{ErrorClass, RpcError};

/// The header in which a gRPC caller says how long it waits.
pub const GRPC_TIMEOUT: &str = "grpc-timeout";
/// A value of `grpc-timeout` has at most this many digits (gRPC over HTTP/2, "Timeout").
const MAX_DIGITS: usize = 8;

/// The instant after which nobody waits for the answer. Found in the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// A deadline from now on.
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        let now = Instant::now();
        // A duration too long for the clock is no deadline; a year is as good.
        Deadline(now.checked_add(timeout).unwrap_or(now + Duration::from_secs(365 * 24 * 3600)))
    }

    /// The deadline of a request, where the layer has put one.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get::<Deadline>().copied()
    }

    /// The instant itself, for `timeout_at`.
    #[must_use]
    pub fn instant(self) -> Instant {
        self.0
    }

    /// What is left; zero when it has passed. Give it to the calls that a handler makes.
    #[must_use]
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Awaits `operation` no longer than this deadline.
    ///
    /// # Errors
    /// An [`RpcError`] of class `Timeout` if the operation has not ended by then; it is dropped.
    pub async fn bound<T>(self, operation: impl Future<Output = T>) -> Result<T, RpcError> {
        tokio::time::timeout_at(self.0, operation).await.map_err(|_| expired())
    }
}

/// How long handlers may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadlinePolicy {
    /// For callers that name no time.
    pub default: Duration,
    /// The longest that a caller can ask for.
    pub longest: Duration,
}

impl Default for DeadlinePolicy {
    /// 30 s, and at most 5 min.
    fn default() -> Self {
        DeadlinePolicy { default: Duration::from_secs(30), longest: Duration::from_secs(300) }
    }
}

/// Middleware: reads the caller's timeout, puts a [`Deadline`] into the extensions, and answers
/// DEADLINE_EXCEEDED (504 in REST) when it passes; the handler is then dropped.
pub async fn enforce(State(policy): State<DeadlinePolicy>, mut request: Request, next: Next) -> Response {
    let grpc = crate::refusal::is_grpc(request.headers());
    let timeout = match asked(request.headers()) {
        Ok(asked) => asked.unwrap_or(policy.default).min(policy.longest),
        Err(error) => return refuse(grpc, &error),
    };
    let deadline = Deadline::after(timeout);
    request.extensions_mut().insert(deadline);
    match deadline.bound(next.run(request)).await {
        Ok(response) => response,
        Err(error) => refuse(grpc, &error),
    }
}

/// Says to the server how long we wait, unless the call already does.
pub(crate) fn set_default(headers: &mut HeaderMap, timeout: Duration) {
    if !headers.contains_key(GRPC_TIMEOUT)
        && let Ok(value) = HeaderValue::from_str(&format(timeout))
    {
        headers.insert(GRPC_TIMEOUT, value);
    }
}

/// Writes a duration as `grpc-timeout`: the finest unit that fits into eight digits, rounded down.
#[must_use]
pub fn format(timeout: Duration) -> String {
    let nanos = timeout.as_nanos();
    let units = [(1, 'n'), (1_000, 'u'), (1_000_000, 'm'), (1_000_000_000, 'S'), (60_000_000_000, 'M')];
    for (size, unit) in units {
        if nanos / size < 100_000_000 {
            return format!("{}{unit}", nanos / size);
        }
    }
    format!("{}H", (nanos / 3_600_000_000_000).min(99_999_999))
}

/// Reads a `grpc-timeout`; none if it is malformed.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(value * 3600)),
        "M" => Some(Duration::from_secs(value * 60)),
        "S" => Some(Duration::from_secs(value)),
        "m" => Some(Duration::from_millis(value)),
        "u" => Some(Duration::from_micros(value)),
        "n" => Some(Duration::from_nanos(value)),
        _ => None,
    }
}

fn asked(headers: &HeaderMap) -> Result<Option<Duration>, RpcError> {
    let Some(value) = headers.get(GRPC_TIMEOUT) else { return Ok(None) };
    value.to_str().ok().and_then(parse).map(Some).ok_or_else(|| {
        RpcError::new(
            ErrorClass::Invalid,
            "BAD_TIMEOUT",
            "header grpc-timeout: expected 1 to 8 digits and one of H M S m u n",
        )
    })
}

fn expired() -> RpcError {
    RpcError::new(ErrorClass::Timeout, "DEADLINE_EXCEEDED", "the deadline passed before the answer was ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_survive_their_text() {
        for (text, value) in [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("99999999S", Duration::from_secs(99_999_999)),
            ("5m", Duration::from_millis(5)),
            ("7u", Duration::from_micros(7)),
            ("0n", Duration::ZERO),
        ] {
            assert_eq!(parse(text), Some(value), "{text}");
        }
        for millis in [0, 1, 30_000, 3_600_000, 359_999_000_000_000] {
            let value = Duration::from_millis(millis);
            let back = parse(&format(value)).unwrap();
            assert!(back <= value && value - back < Duration::from_secs(3600), "{value:?} -> {back:?}");
        }
        assert_eq!(parse(&format(Duration::MAX)), Some(Duration::from_secs(99_999_999 * 3600)));
    }

    #[test]
    fn malformed_timeouts_are_refused() {
        for text in
            ["", "S", "1", "1x", "123456789S", "-1S", "+1S", "1.5S", " 1S", "1S ", "\u{2603}", "1\u{2603}"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_deadline_ends_what_waits() {
        let deadline = Deadline::after(Duration::from_millis(1));
        let error = deadline.bound(std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Timeout);
        assert_eq!(deadline.remaining(), Duration::ZERO);
        assert!(Deadline::after(Duration::MAX).remaining() > Duration::from_secs(3600));
    }
}
