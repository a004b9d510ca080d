//! Starts logs and traces of a process: structured logs on stderr, OpenTelemetry export only where configured.
//!
//! Spans always have ids, so that a trace context passes through a process that exports nothing.

use crate::otlp::{self, Collector};
use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider};
use std::io::IsTerminal;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::{DynFilterFn, FilterExt, LevelFilter, Targets};
use tracing_subscriber::layer::Context;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// The longest time that a process waits at its end for its last spans to be exported.
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
const QUEUED_SPANS: usize = 8192;
/// The exporter's own complaints are logged no more often than this.
const EXPORTER_SILENCE: Duration = Duration::from_secs(60);
/// The library's own complaint of an export that failed; ours says where and what to do.
const FAILED_EXPORT: &str = "BatchSpanProcessor.ExportError";

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One line of text for each event, for people.
    #[default]
    Text,
    /// One JSON object on a line for each event.
    Json,
}

impl FromStr for LogFormat {
    type Err = TelemetryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(TelemetryError::BadFormat { text: text.chars().take(32).collect() }),
        }
    }
}

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("log level `{text}`: {detail}")]
    BadLevel {
        /// The level or filter that was given.
        text: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The name of the log format is not known.
    #[error("log format `{text}`: expected text or json")]
    BadFormat {
        /// The format that was given.
        text: String,
    },
    /// The endpoint cannot be used.
    #[error("OTLP endpoint `{endpoint}`: {detail}")]
    BadEndpoint {
        /// The endpoint that was given.
        endpoint: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A protocol that is not spoken here.
    #[error("OTLP protocol `{text}`: expected grpc or http/protobuf")]
    BadProtocol {
        /// The protocol that was given.
        text: String,
    },
    /// Somebody has already started logs in this process.
    #[error("logs are already set up in this process")]
    AlreadyStarted,
    /// No thread could be started for the exporter.
    #[error("cannot start the exporter: {0}")]
    Runtime(std::io::Error),
}

/// What a process wants of its telemetry.
#[derive(Debug, Clone)]
pub struct TelemetryOptions {
    /// The process's name: `rail-controller`.
    pub service: &'static str,
    /// The release of the process, as traces and metrics show it.
    pub version: &'static str,
    /// A level (`info`) or a filter (`info,controller_store=debug`).
    pub level: String,
    /// How logs are written.
    pub format: LogFormat,
    /// Where traces go; none exports nothing.
    pub collector: Option<Collector>,
}

/// Keeps telemetry running; dropping it exports what is left, for at most [`FLUSH_TIMEOUT`].
#[must_use = "dropping it ends the export of traces"]
#[derive(Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
    runtime: Option<Runtime>,
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        // At its end a process has nobody left to tell that the collector is away.
        let _ = self.provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts logs and traces for the whole process; once.
///
/// # Errors
/// [`TelemetryError`] if the level cannot be read, the collector cannot be used, or logs were already started in this process.
pub fn init(options: &TelemetryOptions) -> Result<Telemetry, TelemetryError> {
    let filter = EnvFilter::try_new(&options.level).map_err(|error| TelemetryError::BadLevel {
        text: options.level.clone(),
        detail: error.to_string(),
    })?;
    let telemetry = start(options)?;
    let tracer = tracer(&telemetry.provider, options.service);
    let after_the_fact = tracer.clone();
    let logs = match options.format {
        LogFormat::Json => {
            tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed()
        }
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr)
            .boxed(),
    };
    let logs = logs.with_filter(filter.and(exporter_speaks_seldom()));
    let subscriber = Registry::default().with(logs).with(span_layer(tracer));
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::AlreadyStarted)?;
    // Only the one that came first above gets here.
    let _ = STARTED.set(after_the_fact);
    Ok(telemetry)
}

static STARTED: OnceLock<SdkTracer> = OnceLock::new();

/// The tracer of this process, for spans that are recorded after the fact; none before [`init`].
pub(crate) fn started() -> Option<&'static SdkTracer> {
    STARTED.get()
}

/// An absent collector would be logged with every batch; once in a while is enough.
fn exporter_speaks_seldom<S: Subscriber>() -> DynFilterFn<S, impl Fn(&Metadata<'_>, &Context<'_, S>) -> bool>
{
    let last: Mutex<Option<Instant>> = Mutex::new(None);
    DynFilterFn::new(move |metadata: &Metadata<'_>, _: &Context<'_, S>| {
        if !metadata.target().starts_with("opentelemetry") {
            return true;
        }
        if metadata.name() == FAILED_EXPORT {
            return false;
        }
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let speak = last.is_none_or(|last| last.elapsed() >= EXPORTER_SILENCE);
        if speak {
            *last = Some(Instant::now());
        }
        speak
    })
}

/// The layer that gives spans their ids and hands them to `tracer`. Public for tests of processes.
pub fn span_layer<S>(tracer: SdkTracer) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    // The exporter's own transport must not be traced: every export would make more to export.
    let targets = Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target("h2", LevelFilter::OFF)
        .with_target("hyper", LevelFilter::OFF)
        .with_target("tonic", LevelFilter::OFF)
        .with_target("tower", LevelFilter::OFF)
        .with_target("opentelemetry", LevelFilter::OFF);
    tracing_opentelemetry::layer().with_tracer(tracer).with_filter(targets)
}

/// A tracer for [`span_layer`].
#[must_use]
pub fn tracer(provider: &SdkTracerProvider, service: &'static str) -> SdkTracer {
    provider.tracer_with_scope(InstrumentationScope::builder(service).build())
}

fn start(options: &TelemetryOptions) -> Result<Telemetry, TelemetryError> {
    let resource = Resource::builder_empty()
        .with_service_name(options.service)
        .with_attribute(KeyValue::new("service.version", options.version))
        .build();
    let builder = SdkTracerProvider::builder().with_resource(resource);
    let Some(collector) = &options.collector else {
        return Ok(Telemetry { provider: builder.build(), runtime: None });
    };
    // A runtime of its own: export and the last flush go on whatever the process's main runtime does.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("rail-otlp")
        .enable_all()
        .build()
        .map_err(TelemetryError::Runtime)?;
    let exporter = {
        let _inside = runtime.enter();
        otlp::exporter(collector)?
    };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUED_SPANS)
        .with_scheduled_delay(Duration::from_secs(1))
        .build();
    let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
    Ok(Telemetry { provider: builder.with_span_processor(processor).build(), runtime: Some(runtime) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::Protocol;
    use opentelemetry::trace::Tracer;

    fn options(endpoint: Option<String>) -> TelemetryOptions {
        options_by(Protocol::Grpc, endpoint)
    }

    fn options_by(protocol: Protocol, endpoint: Option<String>) -> TelemetryOptions {
        TelemetryOptions {
            service: "test",
            version: "0",
            level: "info".to_owned(),
            format: LogFormat::Text,
            collector: endpoint.map(|endpoint| Collector { endpoint, protocol }),
        }
    }

    fn ends_soon(endpoint: &str) {
        for protocol in [Protocol::Grpc, Protocol::Http] {
            ends_soon_by(protocol, endpoint.to_owned());
        }
    }

    fn ends_soon_by(protocol: Protocol, endpoint: String) {
        let telemetry = start(&options_by(protocol, Some(endpoint))).unwrap();
        let tracer = tracer(&telemetry.provider, "test");
        for _ in 0..100 {
            tracer.in_span("work", |_| {});
        }
        let begin = Instant::now();
        drop(telemetry);
        assert!(begin.elapsed() < FLUSH_TIMEOUT + Duration::from_secs(3), "{:?}", begin.elapsed());
    }

    #[test]
    fn an_absent_collector_does_not_hold_the_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        ends_soon(&format!("http://{address}"));
    }

    #[test]
    fn a_silent_collector_does_not_hold_the_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        ends_soon(&format!("http://{}", listener.local_addr().unwrap()));
    }

    /// Answers every export, and tells of each the bytes that came.
    async fn collector(received: tokio::sync::mpsc::Sender<Vec<u8>>) -> String {
        use axum::http::{HeaderMap, HeaderValue, Response};
        use http_body_util::{BodyExt, Full};
        let export = move |body: axum::body::Bytes| async move {
            let _ = received.send(body.to_vec()).await;
            let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from(0))]);
            // An empty message: one byte "not compressed" and a length of 0.
            let body = Full::new(axum::body::Bytes::from_static(&[0; 5]));
            let body = axum::body::Body::new(body.with_trailers(async { Some(Ok(trailers)) }));
            Response::builder().header("content-type", "application/grpc").body(body).unwrap()
        };
        let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().route(path, axum::routing::post(export));
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}")
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_left_is_exported_at_the_end() {
        let (send, mut received) = tokio::sync::mpsc::channel(8);
        let telemetry = start(&options(Some(collector(send).await))).unwrap();
        tracer(&telemetry.provider, "test").in_span("submit-a-job", |_| {});
        tokio::task::spawn_blocking(move || drop(telemetry)).await.unwrap();
        let bytes = received.recv().await.unwrap();
        assert!(bytes.windows(12).any(|window| window == b"submit-a-job"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_collector_that_speaks_http_gets_the_same() {
        let (send, mut received) = tokio::sync::mpsc::channel(8);
        let export = move |headers: axum::http::HeaderMap, body: axum::body::Bytes| async move {
            assert_eq!(headers["content-type"], "application/x-protobuf");
            let _ = send.send(body.to_vec()).await;
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let router = axum::Router::new().route("/v1/traces", axum::routing::post(export));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let telemetry = start(&options_by(Protocol::Http, Some(endpoint))).unwrap();
        tracer(&telemetry.provider, "test").in_span("submit-a-job", |_| {});
        tokio::task::spawn_blocking(move || drop(telemetry)).await.unwrap();
        let bytes = received.recv().await.unwrap();
        assert!(bytes.windows(12).any(|window| window == b"submit-a-job"));
    }

    #[tokio::test]
    async fn telemetry_can_be_dropped_inside_a_runtime() {
        drop(start(&options(Some("http://127.0.0.1:9".to_owned()))).unwrap());
        drop(start(&options(None)).unwrap());
    }

    #[test]
    fn bad_settings_are_named() {
        assert!(start(&options(Some("https://far".to_owned()))).is_err());
        assert!("yaml".parse::<LogFormat>().is_err());
        let mut bad = options(None);
        bad.level = "info,=,=".to_owned();
        assert!(matches!(init(&bad), Err(TelemetryError::BadLevel { .. })));
    }
}
