//! One trace from submit to the first all-reduce, as an OTLP collector receives it from the real processes.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use integration_harness::{Cluster, Shape, eventually};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

const SOON: Duration = Duration::from_secs(60);
const NODES: usize = 3;

/// A span with the process that sent it.
#[derive(Debug, Clone)]
struct Seen {
    service: String,
    name: String,
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    start: u64,
    end: u64,
    fields: BTreeMap<String, String>,
}

impl Seen {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

#[derive(Debug, Clone, Default)]
struct Spans(Arc<Mutex<Vec<Seen>>>);

fn fields(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let about = fields(&resource.resource.unwrap_or_default().attributes);
            let service = about.get("service.name").cloned().unwrap_or_default();
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                self.0.lock().unwrap().push(Seen {
                    service: service.clone(),
                    fields: fields(&span.attributes),
                    name: span.name,
                    trace: span.trace_id,
                    id: span.span_id,
                    parent: span.parent_span_id,
                    start: span.start_time_unix_nano,
                    end: span.end_time_unix_nano,
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A collector on a free port of loopback; it serves as long as the runtime lives.
fn collect(runtime: &Runtime) -> (Spans, SocketAddr) {
    let spans = Spans::default();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().add_service(TraceServiceServer::new(spans.clone()));
    runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (spans, address)
}

/// The job's trace, once every part of it has been exported.
fn trace_of(spans: &Spans, job: &str) -> Option<Vec<Seen>> {
    let all = spans.0.lock().unwrap().clone();
    let submit = all.iter().find(|span| span.name == "submit" && span.field("job") == job)?;
    let one: Vec<Seen> = all.iter().filter(|span| span.trace == submit.trace).cloned().collect();
    let count = |name: &str| one.iter().filter(|span| span.name == name).count();
    let whole = [("decide", 1), ("prepare", NODES), ("start", NODES), ("first all-reduce", NODES)];
    let pushed = |desired: &str| one.iter().filter(|span| span.field("desired") == desired).count() >= NODES;
    let complete = whole.iter().all(|(name, least)| count(name) >= *least);
    (complete && pushed("prepared") && pushed("running")).then_some(one)
}

fn cluster(address: SocketAddr, variable: &str) -> Cluster {
    let nodes = u32::try_from(NODES).unwrap();
    let env = vec![(variable.to_owned(), format!("http://{address}"))];
    Cluster::up(&Shape { nodes, rails: 2, gpus: 1, env, ..Shape::default() }).unwrap()
}

#[test]
fn one_trace_shows_submit_decide_push_start_and_the_first_all_reduce() {
    let runtime = Runtime::new().unwrap();
    let (spans, address) = collect(&runtime);
    let cluster = cluster(address, "RAIL_OTLP_ENDPOINT");
    let spec = "gang: {nodes: 3, gpusPerNode: 1}\ncollective: {op: ALL_REDUCE, bytes: 1048576, iterations: 3, verify: true}";
    cluster.submit("traced", spec).unwrap();
    let job = cluster.wait_for("traced", &["COMPLETED", "FAILED"], SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", cluster.logs());
    let trace = eventually("the whole trace", SOON, || trace_of(&spans, "traced")).unwrap_or_else(|error| {
        let seen = spans.0.lock().unwrap();
        let lines: Vec<String> =
            seen.iter().map(|s| format!("{} {} {:?}", s.service, s.name, s.fields)).collect();
        panic!("{error}; seen:\n{}\n{}", lines.join("\n"), cluster.logs())
    });
    let named = |name: &'static str| trace.iter().filter(move |span| span.name == name);
    let [submit] = named("submit").collect::<Vec<_>>()[..] else { panic!("one submit: {trace:#?}") };
    let [decide] = named("decide").collect::<Vec<_>>()[..] else { panic!("one decision: {trace:#?}") };
    assert_eq!((submit.service.as_str(), decide.service.as_str()), ("rail-controller", "rail-controller"));
    let call = trace.iter().find(|span| span.id == submit.parent).unwrap();
    assert!(call.name.ends_with("JobService/CreateJob"), "{call:?}");
    for name in ["decide", "transition", "push", "prepare", "start", "first all-reduce"] {
        assert!(named(name).all(|span| span.parent == submit.id), "{name} is no child of submit: {trace:#?}");
        assert!(named(name).all(|span| span.start <= span.end), "{name} ends before it begins: {trace:#?}");
    }
    let on = |name: &'static str, node: &str| named(name).find(|span| span.field("node") == node).unwrap();
    for node in ["n0", "n1", "n2"] {
        let first = on("first all-reduce", node);
        assert_eq!(first.service, "rail-node-agent");
        assert_eq!((first.field("tenant"), first.field("job")), (submit.field("tenant"), "traced"));
        let (prepare, start) = (on("prepare", node), on("start", node));
        // All clocks are this machine's, so the order of things shows.
        let begins = [submit.start, decide.start, prepare.start, start.start, first.start];
        assert!(begins.is_sorted(), "{node}: {begins:?}");
        // The agent hears that the engine listens before any server may start.
        assert!(prepare.end <= start.start, "{node}: `prepare` is of preparing alone");
    }
    let ids: std::collections::BTreeSet<_> = trace.iter().map(|span| &span.id).collect();
    assert_eq!(ids.len(), trace.len(), "no span is exported twice");
    assert_eq!(named("first all-reduce").count(), NODES, "one for each server");
}

#[test]
fn the_usual_variable_names_the_collector_too() {
    let runtime = Runtime::new().unwrap();
    let (spans, address) = collect(&runtime);
    let cluster = cluster(address, "OTEL_EXPORTER_OTLP_ENDPOINT");
    cluster.submit("short", "gang: {nodes: 1}\ncommand: {argv: ['true']}").unwrap();
    cluster.wait_for("short", &["COMPLETED"], SOON).unwrap();
    let seen = || {
        let all = spans.0.lock().unwrap();
        let services: Vec<&str> = all
            .iter()
            .filter(|span| span.field("job") == "short")
            .map(|span| span.service.as_str())
            .collect();
        ["rail-controller", "rail-node-agent"].iter().all(|service| services.contains(service)).then_some(())
    };
    eventually("spans of the controller and an agent", SOON, seen).unwrap();
}
