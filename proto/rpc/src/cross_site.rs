//! Calls that a page of another site makes somebody's browser send: a browser that has a client certificate shows it to whoever is asked,
//! also by a form that nobody meant to send. What only reads cannot be read by such a page, since no answer lets it; what changes something
//! is refused. Browsers say where a call comes from (Fetch Metadata, W3C; `Origin`, RFC 6454); other programs say nothing, and are served.

use axum::extract::Request;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::refusal::{is_grpc, refuse};
use crate::status::{ErrorClass, RpcError};

/// Middleware: refuses them.
pub async fn bar(request: Request, next: Next) -> Response {
    if !is_cross_site(request.method(), request.uri(), request.headers()) {
        return next.run(request).await;
    }
    let message =
        "a page of another site may change nothing here: its browser says where the call comes from";
    refuse(is_grpc(request.headers()), &RpcError::new(ErrorClass::Denied, "CROSS_SITE", message))
}

/// Whether a browser says that a call which may change something comes from elsewhere.
fn is_cross_site(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    if [Method::GET, Method::HEAD, Method::OPTIONS].contains(method) {
        return false;
    }
    if let Some(site) = headers.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let here = uri.authority().map(|here| here.as_str().as_bytes());
    let here = here.or_else(|| headers.get(header::HOST).map(|host| host.as_bytes()));
    let from = origin.as_bytes().strip_prefix(b"https://");
    // What cannot be compared is from elsewhere, `null` with it.
    here.zip(from).is_none_or(|(here, from)| !here.eq_ignore_ascii_case(from))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::http::StatusCode;
    use axum::middleware::from_fn;
    use axum::routing::any;
    use tower::ServiceExt;

    use super::*;

    async fn status(method: Method, uri: &str, headers: &[(&str, &str)]) -> StatusCode {
        let router = Router::new().route("/v1/jobs", any(|| async {})).layer(from_fn(bar));
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    }

    #[tokio::test]
    async fn changes_that_another_site_asks_for_are_refused() {
        let host = ("host", "rail.example:7443");
        for (headers, served) in [
            (&[host][..], true),
            (&[host, ("sec-fetch-site", "same-origin")][..], true),
            (&[host, ("sec-fetch-site", "none")][..], true),
            (&[host, ("sec-fetch-site", "same-site")][..], false),
            (&[host, ("sec-fetch-site", "cross-site")][..], false),
            (&[host, ("sec-fetch-site", "cross-site"), ("origin", "https://rail.example:7443")][..], false),
            (&[host, ("origin", "https://rail.example:7443")][..], true),
            (&[host, ("origin", "https://RAIL.example:7443")][..], true),
            (&[host, ("origin", "https://rail.example")][..], false),
            (&[host, ("origin", "http://rail.example:7443")][..], false),
            (&[host, ("origin", "null")][..], false),
            (&[("origin", "https://rail.example:7443")][..], false),
        ] {
            let found = status(Method::POST, "/v1/jobs", headers).await;
            let wanted = if served { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(found, wanted, "{headers:?}");
        }
    }

    #[tokio::test]
    async fn what_only_reads_is_served_and_http_2_names_itself_in_the_address() {
        let cross = [("sec-fetch-site", "cross-site"), ("origin", "https://other.example")];
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            assert_eq!(status(method, "/v1/jobs", &cross).await, StatusCode::OK);
        }
        for (origin, wanted) in
            [("https://rail.example:7443", StatusCode::OK), ("https://other.example", StatusCode::FORBIDDEN)]
        {
            let uri = "https://rail.example:7443/v1/jobs";
            assert_eq!(status(Method::DELETE, uri, &[("origin", origin)]).await, wanted);
        }
    }

    #[tokio::test]
    async fn grpc_is_answered_in_its_own_language() {
        let headers = [("sec-fetch-site", "cross-site"), ("content-type", "application/grpc")];
        assert_eq!(status(Method::POST, "/v1/jobs", &headers).await, StatusCode::OK);
        let router = Router::new().route("/v1/jobs", any(|| async {})).layer(from_fn(bar));
        let request = Request::builder().method(Method::POST).uri("/v1/jobs");
        let request =
            request.header("sec-fetch-site", "cross-site").header("content-type", "application/grpc");
        let answer = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "7");
    }
}
