//! W3C trace context across processes: in HTTP headers, in gRPC metadata, and as a text in stored records, so
//! that one trace shows submit, decide, push and start.

use crate::router::is_grpc;
use crate::server::PeerInfo;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::{Instrument, Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The header of a trace context.
pub const TRACEPARENT: &str = "traceparent";

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct HeadersMut<'a>(&'a mut HeaderMap);

impl Injector for HeadersMut<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (key.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
            self.0.insert(name, value);
        }
    }
}

/// Writes the current span's context into headers; nothing where no span is recorded.
pub fn inject(headers: &mut HeaderMap) {
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut HeadersMut(headers));
}

/// The context that a caller sent; empty where it sent none or a malformed one.
#[must_use]
pub fn extract(headers: &HeaderMap) -> Context {
    TraceContextPropagator::new().extract(&Headers(headers))
}

/// The current span as a `traceparent` text: for records and messages whose effects come later or elsewhere.
#[must_use]
pub fn current_traceparent() -> Option<String> {
    let mut headers = HeaderMap::new();
    inject(&mut headers);
    headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Makes `span` a child of the span that a `traceparent` text names; a malformed text changes nothing.
pub fn follow(span: &Span, traceparent: &str) {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(traceparent) {
        headers.insert(TRACEPARENT, value);
    }
    adopt(span, extract(&headers));
}

/// The current trace's id, 32 hex digits: for audit records and error texts.
#[must_use]
pub fn current_trace_id() -> Option<String> {
    let context = Span::current().context();
    let span = context.span().span_context().clone();
    span.is_valid().then(|| span.trace_id().to_string())
}

/// Middleware: a span per call, child of the caller's, with method, peer and outcome.
pub async fn serve(request: Request, next: Next) -> Response {
    let name = call_name(&request);
    let peer = request.extensions().get::<PeerInfo>().map(|peer| peer.identity.to_string());
    let span = tracing::info_span!(
        "call",
        otel.name = %name,
        otel.kind = "server",
        peer = peer.unwrap_or_default(),
        http.response.status_code = field::Empty,
        rpc.grpc.status_code = field::Empty,
    );
    adopt(&span, extract(request.headers()));
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    if let Some(code) = response.headers().get("grpc-status").and_then(|value| value.to_str().ok()) {
        span.record("rpc.grpc.status_code", code);
    }
    response
}

/// What was called, from a bounded set: the gRPC method, or the route of REST.
#[must_use]
pub fn call_name(request: &Request) -> String {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    match route {
        Some(_) if is_grpc(request.headers()) => request.uri().path().chars().take(128).collect(),
        Some(route) => format!("{} {route}", request.method()),
        None => "unknown".to_owned(),
    }
}

fn adopt(span: &Span, parent: Context) {
    if parent.span().span_context().is_valid() {
        // Fails only where no OpenTelemetry layer is installed (tests, tools): there is then nothing to follow.
        let _ = span.set_parent(parent);
    }
}
