//! Whatever comes over the wire is refused or taken, never believed, and never stored by mistake.

use http_body_util::BodyExt;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use proto_rpc::{Client, ErrorClass, RpcError};
use proto_wire::v1::{self, job_service_client::JobServiceClient};
use tonic::{Code, Status, body::Body};
use tower::Service;

use crate::{
    jobs::{create, error, job},
    rest::Rest,
    world::World,
};

async fn raw(client: &mut Client, path: &str, body: Vec<u8>) -> Code {
    let request = axum::http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(http_body_util::Full::from(body)))
        .unwrap();
    std::future::poll_fn(|context| client.poll_ready(context)).await.unwrap();
    let response = match client.call(request).await {
        Ok(response) => response,
        Err(status) => return status.code(),
    };
    if let Some(status) = Status::from_header_map(response.headers()) {
        return status.code();
    }
    let end = response.into_body().collect().await;
    let status = end.ok().and_then(|end| end.trailers().and_then(Status::from_header_map));
    status.map_or(Code::Unknown, |status| status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_and_too_much_are_refused_and_nothing_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut client = world.user("default");
    let before = world.handle.store().status().await.unwrap().revision;
    let mut jobs = JobServiceClient::new(client.clone());
    let mut huge = job("huge", 1);
    if let Some(v1::job_spec::Work::Command(command)) = huge.spec.as_mut().unwrap().work.as_mut() {
        command.argv = vec!["x".repeat(2 << 20)];
    }
    assert_eq!(error(jobs.create_job(create(huge)).await).class, ErrorClass::TooLarge);
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let bytes = (proptest::collection::vec(any::<u8>(), 0..200), any::<bool>());
    let inputs: Vec<_> = (0..200)
        .map(|_| proptest::strategy::Strategy::new_tree(&bytes, &mut runner).unwrap().current())
        .collect();
    for (bytes, framed) in inputs {
        let mut body = Vec::new();
        if framed {
            body.push(0);
            body.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
        }
        body.extend_from_slice(&bytes);
        let code = raw(&mut client, "/rail.v1.JobService/CreateJob", body).await;
        assert_ne!(code, Code::Ok, "{bytes:?}");
        assert_ne!(code, Code::Internal, "it is the caller's defect: {bytes:?}");
    }
    // A field of wire type 7, a message cut off, a flag that says nothing, one packed by what was not said.
    for body in [&b"\0\0\0\0\x01\x0f"[..], b"\0\0\0\0\x09\x0a", b"\x07\0\0\0\0", b"\x01\0\0\0\0", b""] {
        for path in ["/rail.v1.JobService/CreateJob", "/rail.v1.JobService/WatchJobs"] {
            let code = raw(&mut client, path, body.to_vec()).await;
            assert_eq!(code, Code::InvalidArgument, "{path} {body:?}");
        }
    }
    let mut rest = Rest::new(client.clone());
    for text in
        ["\0", "{", "[]", "nul", "{\"spec\": 1}", "{\"spec\": {\"gang\": {\"nodes\": -1}}}", "\u{feff}{}"]
    {
        let answer = rest.call("POST", "/v1/jobs", text).await;
        assert_eq!(answer.status, 400, "{text:?}: {answer:?}");
    }
    assert_eq!(world.handle.store().status().await.unwrap().revision, before);
    jobs.list_jobs(v1::ListJobsRequest::default()).await.unwrap();
}

/// Also of what cannot be read at all, and of what is asked of the future.
#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_names_what_it_is_about() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut jobs = JobServiceClient::new(world.admin());
    let later = v1::WatchJobsRequest { after_revision: u64::MAX / 2, ..Default::default() };
    let refused = match jobs.watch_jobs(later).await {
        Err(status) => RpcError::from_status(&status),
        Ok(watch) => RpcError::from_status(&watch.into_inner().message().await.unwrap_err()),
    };
    assert_eq!(
        (refused.reason.as_str(), refused.violations[0].field.as_str()),
        ("REVISION_IN_FUTURE", "afterRevision")
    );
    let mut rest = Rest::new(world.admin());
    let text =
        "{\"metadata\": {\"name\": \"a\"}, \"spec\": {\"command\": {\"argv\": [\"sh\", \"a\u{1}b\"]}}}";
    for (method, path, body, field) in [
        ("POST", "/v1/jobs", text, "spec.command.argv[1]"),
        ("POST", "/v1/jobs", "{", "body"),
        ("GET", "/v1/jobs", "{}", "body"),
        ("GET", "/v1/jobs?tenant=%zz", "", "query"),
        ("GET", "/v1/jobs/%zz", "", "name"),
        ("POST", "/v1/qos:steer?reason=x", "{}", "query"),
    ] {
        let answer = rest.call(method, path, body).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text);
        assert_eq!(answer.json["error"]["violations"][0]["field"], field, "{path}: {}", answer.text);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn field_by_field_the_wrong_ones_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut jobs = JobServiceClient::new(world.user("default"));
    type Spoil = fn(&mut v1::CreateJobRequest);
    let cases: [(Spoil, &str); 7] = [
        (|r| r.job = None, "job"),
        (|r| r.job.as_mut().unwrap().spec = None, "spec"),
        (|r| r.job.as_mut().unwrap().metadata = None, "metadata.name"),
        (|r| r.job.as_mut().unwrap().kind = "Node".into(), "kind"),
        (|r| r.job.as_mut().unwrap().metadata.as_mut().unwrap().name = "A B".into(), "metadata.name"),
        (|r| r.request_id = "a b".into(), "requestId"),
        (
            |r| {
                let labels = &mut r.job.as_mut().unwrap().metadata.as_mut().unwrap().labels;
                labels.insert("k".into(), "\0".into());
            },
            "metadata.labels",
        ),
    ];
    for (spoil, field) in cases {
        let mut request = create(job("fine", 1));
        spoil(&mut request);
        let refused = error(jobs.create_job(request).await);
        assert_eq!(refused.class, ErrorClass::Invalid, "{field}: {refused:?}");
        assert_eq!(refused.violations[0].field, field);
    }
}
