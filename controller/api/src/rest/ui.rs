//! The web pages, on the same port. Their files say nothing of the cluster, so that nobody is asked who they are; what pages show they ask for
//! by the API, as whoever looks at them.

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    response::Response,
    routing::any,
};
use controller_ui::{Asked, answer};
use proto_rpc::negotiate::takes_gzip;

use super::allowed::not_allowed;

/// The routes of `/ui` and all below it.
pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/ui", any(page)).route("/ui/", any(page)).route("/ui/{*path}", any(page))
}

async fn page(request: Request) -> Response {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return not_allowed(&[Method::GET, Method::HEAD]);
    }
    let known = request.headers().get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let query = request.uri().query().unwrap_or_default();
    let gzip = takes_gzip(request.headers());
    let asked = Asked { path: request.uri().path(), query, known: known.unwrap_or_default(), gzip };
    let found = answer(asked);
    // The body of an answer to HEAD is left out by the server, which counts it for Content-Length.
    let mut response = Response::new(Body::from(found.body));
    *response.status_mut() = StatusCode::from_u16(found.status).unwrap_or(StatusCode::NOT_FOUND);
    for (name, value) in found.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::ServiceExt;

    async fn ask(method: Method, path: &str) -> Response {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        router::<()>().oneshot(request).await.unwrap()
    }

    #[tokio::test]
    async fn files_go_out_packed_to_those_who_take_that() {
        let ask = |encoding: &'static str| {
            let request = Request::get("/ui/app.js").header(header::ACCEPT_ENCODING, encoding);
            router::<()>().oneshot(request.body(Body::empty()).unwrap())
        };
        let (plain, packed) = (ask("identity").await.unwrap(), ask("gzip, br").await.unwrap());
        assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(packed.headers()[header::ETAG], plain.headers()[header::ETAG]);
        let packed = axum::body::to_bytes(packed.into_body(), 1 << 20).await.unwrap();
        let again = axum::body::to_bytes(ask("gzip").await.unwrap().into_body(), 1 << 20).await.unwrap();
        let whole = axum::body::to_bytes(plain.into_body(), 1 << 20).await.unwrap();
        assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() < whole.len() && packed == again);
    }

    #[tokio::test]
    async fn pages_are_there_for_everybody_and_only_to_be_read() {
        for path in ["/ui/", "/ui/jobs/nlp/train", "/ui/app.js"] {
            for method in [Method::GET, Method::HEAD] {
                let response = ask(method, path).await;
                assert_eq!(response.status(), StatusCode::OK, "{path}");
                assert_eq!(response.headers()["content-security-policy"], controller_ui::POLICY);
            }
        }
        assert_eq!(ask(Method::GET, "/ui").await.headers()[header::LOCATION], "/ui/");
        let refused = ask(Method::POST, "/ui/").await;
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers()[header::ALLOW], "GET, HEAD");
        assert_eq!(ask(Method::GET, "/ui/jobs/../../v1/jobs").await.status(), StatusCode::NOT_FOUND);
    }
}
