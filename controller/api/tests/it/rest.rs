//! REST says the same as gRPC, and is strict about what it takes.

use std::time::Duration;

use axum::body::Bytes;
use http_body_util::{BodyExt, Full};
use proto_rpc::Client;
use proto_wire::v1::{self, job_service_client::JobServiceClient, job_status::Phase};
use serde_json::{Value, json};
use tonic::body::Body;
use tower::Service;

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{until, until_it},
    world::World,
};

/// A caller of REST over the connection of a gRPC client.
pub struct Rest {
    client: Client,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub json: Value,
    pub text: String,
    pub headers: axum::http::HeaderMap,
}

impl Rest {
    pub fn new(client: Client) -> Self {
        Self { client: client.with_timeout(Duration::from_secs(20)) }
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
        accept: &str,
    ) -> axum::http::Response<Body> {
        let mut request = axum::http::Request::builder().method(method).uri(path).header("accept", accept);
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Body::new(Full::from(Bytes::copy_from_slice(body.as_bytes())))).unwrap();
        std::future::poll_fn(|context| self.client.poll_ready(context)).await.unwrap();
        self.client.call(request).await.unwrap()
    }

    pub async fn call(&mut self, method: &str, path: &str, body: &str) -> Answer {
        self.read(method, path, body, "application/json", None).await
    }

    /// Only as much of the answer as comes at once: streams do not end.
    pub async fn head(&mut self, method: &str, path: &str) -> Answer {
        self.read(method, path, "", "application/json", Some(Duration::from_millis(200))).await
    }

    pub async fn read(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
        accept: &str,
        patience: Option<Duration>,
    ) -> Answer {
        let response = self.send(method, path, body, accept).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        let stream = headers.get("content-type").is_some_and(|kind| kind == "application/x-ndjson");
        loop {
            let next = match patience.filter(|_| stream) {
                Some(patience) => tokio::time::timeout(patience, body.frame()).await.unwrap_or(None),
                None => body.frame().await,
            };
            let Some(frame) = next else { break };
            if let Ok(data) = frame.unwrap().into_data() {
                bytes.extend_from_slice(&data);
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status, json, text, headers }
    }
}

const JOB: &str = r#"{"metadata": {"name": "rest"}, "spec": {"gang": {"nodes": 1, "gpusPerNode": 4},
    "command": {"argv": ["true"], "env": {"A": "1"}}, "timeLimit": "90s"}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_job_by_rest_is_the_same_as_by_grpc() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let client = world.user("default");
    let mut rest = Rest::new(client.clone());
    let mut jobs = JobServiceClient::new(client.clone());
    let planned = rest.call("POST", "/v1/jobs:plan", JOB).await;
    assert_eq!((planned.status, &planned.json["placement"]["nodes"][0]["node"]), (200, &json!("n0")));
    let made = rest.call("POST", "/v1/jobs?requestId=r1", JOB).await;
    assert_eq!(made.status, 200, "{made:?}");
    assert_eq!(made.json["spec"]["timeLimit"], "90s");
    // Nothing more is written of it once its ranks have been started.
    until_it(&client, "rest", |job| job.status.as_ref().unwrap().start_time.is_some()).await;
    // The same submit by gRPC is the same job.
    let by_rest: v1::Job = jobs
        .get_job(v1::GetJobRequest { name: "rest".into(), ..Default::default() })
        .await
        .unwrap()
        .into_inner();
    let mut job = crate::jobs::job("rest", 1);
    let spec = job.spec.as_mut().unwrap();
    spec.gang = Some(v1::Gang { nodes: 1, gpus_per_node: 4, ranks_per_node: 0, ..v1::Gang::default() });
    spec.time_limit = Some(prost_types::Duration { seconds: 90, nanos: 0 });
    spec.work = Some(v1::job_spec::Work::Command(v1::Command {
        argv: vec!["true".into()],
        env: [("A".to_owned(), "1".to_owned())].into(),
        ..Default::default()
    }));
    let request = v1::CreateJobRequest { request_id: "r1".into(), ..crate::jobs::create(job) };
    let again = jobs.create_job(request).await.unwrap().into_inner();
    assert_eq!(crate::jobs::uid(&again), crate::jobs::uid(&by_rest));
    let got = rest.call("GET", "/v1/jobs/rest", "").await;
    assert_eq!(got.json["metadata"]["uid"], json!(crate::jobs::uid(&by_rest)));
    assert_eq!(
        got.json["metadata"]["resourceVersion"],
        json!(by_rest.metadata.unwrap().resource_version.to_string())
    );
    let list = rest.call("GET", "/v1/jobs?phases=RUNNING&pageSize=5", "").await;
    assert_eq!(list.json["jobs"].as_array().unwrap().len(), 1);
    assert!(rest.call("GET", "/v1/jobs?phases=FAILED", "").await.json.get("jobs").is_none());
    let explained = rest.call("GET", "/v1/jobs/rest:explain", "").await;
    assert_eq!(explained.json["phase"], "RUNNING");
    let watched = rest.head("GET", "/v1/jobs:watch").await;
    let lines: Vec<Value> = watched.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["type"], &lines[1]["type"]), (&json!("PUT"), &json!("SYNCED")));
    let logs = rest.read("GET", "/v1/jobs/rest/logs?ranks=2", "", "text/plain", None).await;
    assert_eq!((logs.status, logs.text.as_str()), (200, "hello from n0\n"), "{logs:?}");
    let suspended =
        rest.call("POST", "/v1/jobs/rest:suspend", r#"{"reason": "demo", "requestId": "s1"}"#).await;
    assert_eq!((suspended.status, &suspended.json["status"]["holds"][0]["suspended"]), (200, &json!(true)));
    until(&client, "rest", Phase::Pending).await;
    let listed = rest.call("GET", "/v1/jobs?phases=PENDING", "").await;
    assert!(listed.text.contains("\"Suspended\"") && listed.text.contains("(demo)"), "{listed:?}");
    let resumed = rest.call("POST", "/v1/jobs/rest:resume", "{}").await;
    assert_eq!((resumed.status, resumed.json["status"].get("holds")), (200, None));
    until(&client, "rest", Phase::Running).await;
    let again = rest.call("POST", "/v1/jobs/rest:requeue", r#"{"requestId": "q1"}"#).await;
    assert_eq!((again.status, &again.json["status"]["phase"]), (200, &json!("RECOVERING")));
    let cancelled = rest.call("POST", "/v1/jobs/rest:cancel", r#"{"gracePeriod": "1s"}"#).await;
    assert_eq!((cancelled.status, &cancelled.json["status"]["cancelRequested"]), (200, &json!(true)));
    until(&client, "rest", Phase::Cancelled).await;
    assert_eq!(rest.call("DELETE", "/v1/jobs/rest", "").await.json, json!({}));
    assert_eq!(rest.call("GET", "/v1/jobs/rest", "").await.json["error"]["reason"], "JOB_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_place_field_and_the_nearest_right_thing() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut rest = Rest::new(world.user("default"));
    let before = world.handle.store().status().await.unwrap().revision;
    let bad = rest.call("POST", "/v1/jobs", "{\n  \"metdata\": {}\n}").await;
    let text = bad.json["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(
        (bad.status, text.contains("body:2:3"), text.contains("metadata")),
        (400, true, true),
        "{text}"
    );
    assert_eq!(bad.json["error"]["status"], "INVALID_ARGUMENT");
    let many = r#"{"metadata": {"name": "x"}, "spec": {"gang": {"nodes": 0}, "priority": 5000}}"#;
    let bad = rest.call("POST", "/v1/jobs", many).await;
    let fields: Vec<&str> = bad.json["error"]["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["spec.gang.nodes", "spec.priority", "spec.command"]);
    let bad = rest.call("GET", "/v1/jobs?pagesize=3", "").await;
    assert!(bad.json["error"]["message"].as_str().unwrap().contains("pageSize"), "{bad:?}");
    assert_eq!(rest.call("GET", "/v1/jobs/a%2", "").await.status, 400);
    assert_eq!(rest.call("GET", "/v1/jobs/UPPER", "").await.status, 400);
    assert_eq!(rest.call("GET", "/v1/nowhere", "").await.status, 404);
    let wrong = rest.call("PATCH", "/v1/jobs", "").await;
    assert_eq!((wrong.status, wrong.headers["allow"].to_str().unwrap()), (405, "POST, GET, HEAD"));
    let large = format!("{{\"metadata\": {{\"name\": \"{}\"}}}}", "x".repeat(2 << 20));
    assert_eq!(rest.call("POST", "/v1/jobs", &large).await.status, 413);
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(rest.call("POST", "/v1/jobs", &deep).await.status, 400);
    assert_eq!(rest.call("GET", "/v1/jobs", "{}").await.status, 400);
    assert_eq!(world.handle.store().status().await.unwrap().revision, before, "nothing was stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_served_and_names_every_route() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut rest = Rest::new(world.user("default"));
    let document = rest.call("GET", "/v1/openapi.json", "").await;
    assert_eq!((document.status, &document.json["openapi"]), (200, &json!("3.1.0")));
    assert_eq!(document.json, controller_api::rest::document("0.0.0"));
    let health = rest.call("GET", "/v1/health", "").await;
    assert_eq!((&health.json["storeWritable"], &health.json["version"]), (&json!(true), &json!("0.0.0")));
}
