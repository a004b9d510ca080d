//! `/livez`, `/readyz` and `/healthz`: whether a process lives, and whether it can do its work.
//!
//! With `?verbose` the answer names each check; without it only those that fail.

use axum::Router;
use axum::extract::RawQuery;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::fmt::Write as _;
use std::sync::Arc;

/// One thing that a process needs for its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The check's name, one word, for example `leader`.
    pub name: &'static str,
    /// How it is, or what is missing.
    pub outcome: Result<String, String>,
}

/// Looks at all that a process needs; called for every question, so it must not wait.
pub type Checks = Arc<dyn Fn() -> Vec<Check> + Send + Sync>;

/// The routes. A process that answers lives, so only readiness has checks.
pub fn router(ready: Checks) -> Router {
    let lives = || vec![Check { name: "process", outcome: Ok("it answers".to_owned()) }];
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route(
            "/livez",
            get(move |RawQuery(query): RawQuery| async move { answer(&lives(), is_verbose(query)) }),
        )
        .route(
            "/readyz",
            get(move |RawQuery(query): RawQuery| async move { answer(&ready(), is_verbose(query)) }),
        )
}

fn is_verbose(query: Option<String>) -> bool {
    let query = query.unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "verbose" | "verbose=" | "verbose=1" | "verbose=true"))
}

fn answer(checks: &[Check], verbose: bool) -> Response {
    let passed = checks.iter().all(|check| check.outcome.is_ok());
    let status = if passed { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    ([(header::CACHE_CONTROL, "no-store")], (status, text(checks, verbose))).into_response()
}

/// The body of the answer: one line per check, then the verdict.
fn text(checks: &[Check], verbose: bool) -> String {
    let mut text = String::new();
    for check in checks {
        // Writing to a String does not fail.
        let _ = match &check.outcome {
            Ok(words) if verbose => writeln!(text, "[+] {}: {words}", check.name),
            Ok(_) => Ok(()),
            Err(cause) => writeln!(text, "[-] {}: {cause}", check.name),
        };
    }
    text.push_str(if checks.iter().all(|check| check.outcome.is_ok()) { "ok\n" } else { "not ready\n" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    fn checks(leader: Result<&str, &str>) -> Vec<Check> {
        let leader = leader.map(str::to_owned).map_err(str::to_owned);
        vec![
            Check { name: "leader", outcome: leader },
            Check { name: "store", outcome: Ok("it takes writes".to_owned()) },
        ]
    }

    #[tokio::test]
    async fn each_check_is_named() {
        for (leader, path, status, body) in [
            (Ok("here"), "/readyz", 200, "ok\n"),
            (Ok("here"), "/readyz?verbose", 200, "[+] leader: here\n[+] store: it takes writes\nok\n"),
            (Ok("here"), "/readyz?a&verbose=true", 200, "[+] leader: here\n[+] store: it takes writes\nok\n"),
            (Err("nobody"), "/readyz", 503, "[-] leader: nobody\nnot ready\n"),
            (
                Err("nobody"),
                "/readyz?verbose=1",
                503,
                "[-] leader: nobody\n[+] store: it takes writes\nnot ready\n",
            ),
            (Err("nobody"), "/livez", 200, "ok\n"),
            (Err("nobody"), "/livez?verbose", 200, "[+] process: it answers\nok\n"),
            (Err("nobody"), "/healthz", 200, "ok\n"),
        ] {
            let router = router(Arc::new(move || checks(leader)));
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = router.oneshot(request).await.unwrap();
            assert_eq!(response.status(), status, "{path} {leader:?}");
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(String::from_utf8_lossy(&bytes), body, "{path} {leader:?}");
        }
    }
}
