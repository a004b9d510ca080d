//! Where traces go: an OpenTelemetry collector, by gRPC or by HTTP, as the environment says. An export that fails is logged, once in a
//! while.

use crate::telemetry::TelemetryError;
use axum::http::{Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol as Encoding, SpanExporter as Sender, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// What may be said in the environment, for the help of commands.
pub const HELP: &str = "Traces (of the environment):
  RAIL_OTLP_ENDPOINT
          An OpenTelemetry collector, http://host:port; without it nothing is exported.
          Unencrypted: it should be on loopback. Where it is not set, what counts is
          OTEL_EXPORTER_OTLP_TRACES_ENDPOINT (by HTTP taken as it is), then
          OTEL_EXPORTER_OTLP_ENDPOINT
  OTEL_EXPORTER_OTLP_PROTOCOL
          How it is spoken to: grpc or http/protobuf (which posts to /v1/traces);
          OTEL_EXPORTER_OTLP_TRACES_PROTOCOL goes before it. Default: http/protobuf for
          port 4318 and for paths that end with /v1/traces, else grpc
  OTEL_EXPORTER_OTLP_HEADERS
          Headers of every export, as name=value, with commas between them";

/// The variables that name the collector; the first that is set counts.
const ENDPOINTS: [&str; 3] = ["RAIL_OTLP_ENDPOINT", SIGNAL_ENDPOINT, "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// The one whose address is that of traces alone.
const SIGNAL_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
/// Where OTLP/HTTP takes traces, and the port on which it is spoken by custom.
const PATH: &str = "/v1/traces";
const HTTP_PORT: u16 = 4318;
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer of a collector.
const ANSWER: usize = 64 * 1024;
/// Failing exports are logged no more often than this.
const SILENCE: Duration = Duration::from_secs(60);

/// How a collector is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP over gRPC, to a port such as 4317.
    Grpc,
    /// OTLP over HTTP, with protobuf bodies.
    Http,
}

/// The OpenTelemetry collector that traces are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// `http://host:4317`; by HTTP with its path. Unencrypted: it should be on loopback.
    pub endpoint: String,
    /// The protocol that the collector is spoken to with.
    pub protocol: Protocol,
}

/// The collector that the environment names, if it names one.
///
/// # Errors
/// A protocol that is not spoken here.
pub fn from_env() -> Result<Option<Collector>, TelemetryError> {
    named(|name| std::env::var(name).ok())
}

fn named(read: impl Fn(&str) -> Option<String>) -> Result<Option<Collector>, TelemetryError> {
    let set = |name: &&'static str| Some((*name, read(name).filter(|value| !value.is_empty())?));
    let Some((variable, endpoint)) = ENDPOINTS.iter().find_map(set) else { return Ok(None) };
    let protocol = match PROTOCOLS.iter().find_map(set) {
        None if speaks_http(&endpoint) => Protocol::Http,
        None => Protocol::Grpc,
        Some((_, text)) => match text.as_str() {
            "grpc" => Protocol::Grpc,
            "http/protobuf" => Protocol::Http,
            _ => return Err(TelemetryError::BadProtocol { text: text.chars().take(32).collect() }),
        },
    };
    let endpoint = match protocol {
        Protocol::Http if variable != SIGNAL_ENDPOINT => with_path(&endpoint),
        _ => endpoint,
    };
    Ok(Some(Collector { endpoint, protocol }))
}

/// Whether an address by itself says HTTP.
fn speaks_http(endpoint: &str) -> bool {
    let port = endpoint.parse::<axum::http::Uri>().ok().and_then(|uri| uri.port_u16());
    port == Some(HTTP_PORT) || endpoint.ends_with(PATH)
}

fn with_path(endpoint: &str) -> String {
    let base = endpoint.trim_end_matches('/');
    if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") }
}

/// An exporter to a collector; to be made inside the runtime that its connections shall live in.
///
/// # Errors
/// The address cannot be used.
pub(crate) fn exporter(collector: &Collector) -> Result<impl SpanExporter + 'static, TelemetryError> {
    let Collector { endpoint, protocol } = collector;
    let bad = |detail: &str| TelemetryError::BadEndpoint {
        endpoint: endpoint.chars().take(256).collect(),
        detail: detail.to_owned(),
    };
    if !endpoint.starts_with("http://") {
        return Err(bad("expected http://host:port of a collector nearby"));
    }
    let built = match protocol {
        Protocol::Grpc => {
            Sender::builder().with_tonic().with_endpoint(endpoint).with_timeout(EXPORT_TIMEOUT).build()
        }
        Protocol::Http => Sender::builder()
            .with_http()
            .with_http_client(Poster::here())
            .with_protocol(Encoding::HttpBinary)
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_TIMEOUT)
            .build(),
    };
    let sender = built.map_err(|error| bad(&error.to_string()))?;
    Ok(Telling { sender, collector: collector.clone(), failing: Mutex::default() })
}

/// Posts by HTTP from a runtime's own threads: whoever exports has none.
#[derive(Debug)]
struct Poster {
    client: Client<HttpConnector, Full<Bytes>>,
    runtime: Handle,
}

impl Poster {
    fn here() -> Self {
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        Self { client, runtime: Handle::current() }
    }
}

#[async_trait::async_trait]
impl HttpClient for Poster {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let call = async move {
            let (parts, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, ANSWER).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(parts, body))
        };
        // Only inside the runtime is there a clock to wait by.
        let sent = self.runtime.spawn(async move { tokio::time::timeout(EXPORT_TIMEOUT, call).await });
        sent.await??
    }
}

/// An exporter that tells when it does not reach its collector, and when it does again.
#[derive(Debug)]
struct Telling {
    sender: Sender,
    collector: Collector,
    /// When it was last logged that exports fail, while they do.
    failing: Mutex<Option<Instant>>,
}

impl Telling {
    fn report(&self, result: &OTelSdkResult) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let Collector { endpoint, protocol } = &self.collector;
        match result {
            Err(error) if failing.is_none_or(|reported| reported.elapsed() >= SILENCE) => {
                *failing = Some(Instant::now());
                tracing::warn!(endpoint, ?protocol, %error, "traces cannot be exported and are dropped; see the variables in --help");
            }
            Err(_) => {}
            Ok(()) if failing.take().is_some() => tracing::info!(endpoint, "traces are exported again"),
            Ok(()) => {}
        }
    }
}

impl SpanExporter for Telling {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.sender.export(batch).await;
        self.report(&result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.sender.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.sender.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.sender.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn of(set: &[(&str, &str)]) -> Result<Option<Collector>, TelemetryError> {
        let set: BTreeMap<&str, &str> = set.iter().copied().collect();
        named(|name| set.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn the_environment_names_the_collector_and_how_it_is_spoken_to() {
        const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
        use Protocol::{Grpc, Http};
        for (set, endpoint, protocol) in [
            (&[("RAIL_OTLP_ENDPOINT", "http://a:1"), (BASE, "http://b:2")][..], "http://a:1", Grpc),
            (&[(BASE, "http://b:4317"), ("RAIL_OTLP_ENDPOINT", "")][..], "http://b:4317", Grpc),
            (&[(BASE, "http://b:4318")][..], "http://b:4318/v1/traces", Http),
            (&[(BASE, "http://b:4318"), (PROTOCOL, "grpc")][..], "http://b:4318", Grpc),
            (
                &[(BASE, "http://b:2/otlp/"), (PROTOCOL, "http/protobuf")][..],
                "http://b:2/otlp/v1/traces",
                Http,
            ),
            (&[(BASE, "http://b:2/v1/traces")][..], "http://b:2/v1/traces", Http),
            (&[(SIGNAL_ENDPOINT, "http://b:4318/in")][..], "http://b:4318/in", Http),
            (
                &[(BASE, "http://b:4317"), ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"), (PROTOCOL, "no")]
                    [..],
                "http://b:4317",
                Grpc,
            ),
        ] {
            let collector = Collector { endpoint: endpoint.to_owned(), protocol };
            assert_eq!(of(set).unwrap(), Some(collector), "{set:?}");
        }
        assert_eq!(of(&[(PROTOCOL, "http/json")]).unwrap(), None, "nothing is exported");
        let error = of(&[(BASE, "http://b:4318"), (PROTOCOL, "http/json")]).unwrap_err();
        assert!(error.to_string().contains("expected grpc or http/protobuf"), "{error}");
    }

    #[test]
    fn the_help_names_every_variable() {
        for name in ENDPOINTS.iter().chain(&PROTOCOLS) {
            assert!(HELP.contains(name), "{name}");
        }
    }
}
