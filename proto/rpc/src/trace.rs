//! W3C trace context across processes: in HTTP headers, in gRPC metadata, and as a text in stored records, so
//! that one trace shows submit, decide, push and start.

use std::borrow::Cow;
use std::time::SystemTime;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{Span as _, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracer;
use tracing::{Instrument, Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::refusal::is_grpc;
use crate::server::PeerInfo;
use crate::telemetry;

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
    adopt(span, parse(traceparent));
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

/// Records a span that is already over: something that another process did and reported, as a child of the span that
/// `parent`, a `traceparent` text, names. Nothing where this process has no telemetry or the text is malformed: a span
/// without its trace would show nothing.
pub fn record(
    name: impl Into<Cow<'static, str>>,
    parent: &str,
    start: SystemTime,
    end: SystemTime,
    fields: &[(&'static str, String)],
) {
    if let Some(tracer) = telemetry::started() {
        record_with(tracer, name.into(), parent, (start, end), fields);
    }
}

fn record_with(
    tracer: &SdkTracer,
    name: Cow<'static, str>,
    parent: &str,
    (start, end): (SystemTime, SystemTime),
    fields: &[(&'static str, String)],
) {
    let parent = parse(parent);
    if !parent.span().span_context().is_valid() {
        return;
    }
    let attributes: Vec<KeyValue> =
        fields.iter().map(|(key, value)| KeyValue::new(*key, value.clone())).collect();
    let builder = tracer.span_builder(name).with_start_time(start).with_attributes(attributes);
    builder.start_with_context(tracer, &parent).end_with_timestamp(end);
}

fn parse(traceparent: &str) -> Context {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(traceparent) {
        headers.insert(TRACEPARENT, value);
    }
    extract(&headers)
}

fn adopt(span: &Span, parent: Context) {
    if parent.span().span_context().is_valid() {
        // Fails only where no OpenTelemetry layer is installed (tests, tools): there is then nothing to follow.
        let _ = span.set_parent(parent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanProcessor};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// Keeps what has ended.
    #[derive(Debug, Clone, Default)]
    struct CollectedSpans(Arc<Mutex<Vec<SpanData>>>);

    impl SpanProcessor for CollectedSpans {
        fn on_start(&self, _: &mut opentelemetry_sdk::trace::Span, _: &Context) {}

        fn on_end(&self, span: SpanData) {
            self.0.lock().unwrap().push(span);
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
            Ok(())
        }
    }

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_span_that_is_over_has_its_times_its_parent_and_its_fields() {
        let kept = CollectedSpans::default();
        let provider = SdkTracerProvider::builder().with_span_processor(kept.clone()).build();
        let tracer = telemetry::tracer(&provider, "test");
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let record = |parent: &str| {
            let fields = [("node", "n1".to_owned())];
            record_with(&tracer, "first all-reduce".into(), parent, (at(5), at(7)), &fields);
        };
        for malformed in ["", "00-0-0-01", "é", "00-00000000000000000000000000000000-b7ad6b7169203331-01"] {
            record(malformed);
        }
        assert!(kept.0.lock().unwrap().is_empty(), "no trace to show it in");
        record(PARENT);
        let spans = kept.0.lock().unwrap().clone();
        let [span] = spans.as_slice() else { panic!("{spans:?}") };
        assert_eq!(span.name, "first all-reduce");
        assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
        assert_eq!((span.start_time, span.end_time), (at(5), at(7)));
        assert_eq!(span.attributes, [KeyValue::new("node", "n1")]);
    }
}
