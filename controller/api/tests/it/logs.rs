//! Logs of a gang: merged, filtered by rank, and bounded by what the reader takes.

use proto_rpc::ErrorClass;
use proto_wire::v1::{self, job_service_client::JobServiceClient, job_status::Phase};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, error, job, until},
    world::World,
};

async fn lines(
    jobs: &mut JobServiceClient<proto_rpc::Client>,
    request: v1::StreamLogsRequest,
) -> Vec<(u32, String)> {
    let mut stream = jobs.stream_logs(request).await.unwrap().into_inner();
    let mut lines = Vec::new();
    while let Some(chunk) = stream.message().await.unwrap() {
        lines.push((chunk.rank, String::from_utf8(chunk.data).unwrap()));
    }
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_s_logs_come_from_all_its_nodes_or_from_the_rank_s_own() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _a = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let b = FakeAgent::connect(world.node("n1").await, "n1", Behaviour::Linger).await;
    let client = world.user("default");
    let mut jobs = JobServiceClient::new(client.clone());
    jobs.create_job(create(job("talks", 2))).await.unwrap();
    until(&client, "talks", Phase::Running).await;
    let all = v1::StreamLogsRequest { name: "talks".into(), ..v1::StreamLogsRequest::default() };
    let found = lines(&mut jobs, all.clone()).await;
    assert_eq!(found, [(0, "hello from n0\n".to_owned()), (0, "hello from n1\n".to_owned())]);
    let third = v1::StreamLogsRequest { ranks: vec![2], ..all.clone() };
    assert_eq!(lines(&mut jobs, third).await, [(2, "hello from n1\n".to_owned())]);
    let ninth = v1::StreamLogsRequest { ranks: vec![9], ..all.clone() };
    assert_eq!(error(jobs.stream_logs(ninth).await).class, ErrorClass::Invalid);
    drop(b);
    let gone = tokio::time::timeout(crate::jobs::PATIENCE, async {
        while world.handle.sessions().is_connected(&"n1".parse().unwrap()) {
            tokio::task::yield_now().await;
        }
    });
    gone.await.unwrap();
    let found = lines(&mut jobs, all).await;
    assert!(found.iter().any(|(_, line)| line.contains("n1 is not connected")), "{found:?}");
    jobs.create_job(create(job("waits", 2))).await.unwrap();
    let early = v1::StreamLogsRequest { name: "waits".into(), ..v1::StreamLogsRequest::default() };
    assert_eq!(error(jobs.stream_logs(early).await).reason, "NOT_STARTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_gets_the_output_of_a_node_that_connects_later() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _a = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let b = FakeAgent::connect(world.node("n1").await, "n1", Behaviour::Linger).await;
    let client = world.user("default");
    let mut jobs = JobServiceClient::new(client.clone());
    jobs.create_job(create(job("talks", 2))).await.unwrap();
    let running = until(&client, "talks", Phase::Running).await;
    drop(b);
    // As after a restart of the controller: the job runs, and one agent is not back yet.
    let away = async {
        while world.handle.sessions().is_connected(&"n1".parse().unwrap()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::jobs::PATIENCE, away).await.unwrap();
    let follow =
        v1::StreamLogsRequest { name: "talks".into(), follow: true, ..v1::StreamLogsRequest::default() };
    let mut following = JobServiceClient::new(client.without_timeout());
    let mut stream = following.stream_logs(follow).await.unwrap().into_inner();
    let mut next = async || {
        let chunk = tokio::time::timeout(crate::jobs::PATIENCE, stream.message()).await.unwrap();
        chunk.unwrap().map(|chunk| String::from_utf8(chunk.data).unwrap())
    };
    assert_eq!(next().await.unwrap(), "hello from n0\n");
    let still = v1::Observation {
        job_uid: crate::jobs::uid(&running),
        attempt: 1,
        state: v1::observation::State::Running.into(),
        ..v1::Observation::default()
    };
    let client_b = world.node("n1").await;
    let _b = FakeAgent::connect_with(client_b, "n1", Behaviour::Linger, vec![still]).await;
    assert_eq!(next().await.unwrap(), "hello from n1\n");
    jobs.cancel_job(v1::CancelJobRequest { name: "talks".into(), ..v1::CancelJobRequest::default() })
        .await
        .unwrap();
    assert_eq!(next().await, None, "it ends with the job");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_nobody_asked_for_is_refused() {
    use proto_wire::v1::agent_service_client::AgentServiceClient;
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut agents = AgentServiceClient::new(world.node("n0").await);
    let upload = v1::UploadLogsRequest { stream_id: "1-0".into(), chunk: None };
    assert_eq!(error(agents.upload_logs(tokio_stream::iter([upload])).await).reason, "NO_SUCH_STREAM");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_lives_longer_than_a_call_s_deadline() {
    use proto_wire::v1::agent_service_client::AgentServiceClient;
    use std::time::Duration;
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let node = world.node("n0").await;
    let sessions = world.handle.sessions();
    let name: proto_model::NodeName = "n0".parse().unwrap();
    let register = controller_core::Register {
        node: name.clone(),
        session: 0,
        agent_version: String::new(),
        inventory: std::sync::Arc::default(),
        observations: Vec::new(),
        epoch: 0,
    };
    let mut session = world.handle.connect(register).await.unwrap();
    let mut orders = session.messages().unwrap();
    let (chunks, mut read) = tokio::sync::mpsc::channel(1);
    let opening = world.handle.logs().open(sessions, &name, 1, v1::OpenLogs::default(), chunks).unwrap();
    let ask = loop {
        if let Some(v1::controller_message::Body::OpenLogs(ask)) = orders.recv().await.unwrap().body {
            break ask;
        }
    };
    let (upload, uploads) = tokio::sync::mpsc::channel(1);
    let chunk = || Some(v1::LogChunk::default());
    upload.send(v1::UploadLogsRequest { stream_id: ask.stream_id, chunk: chunk() }).await.unwrap();
    // The server bounds every call by what the caller asks for; an upload's end is beyond it.
    let mut agents = AgentServiceClient::new(node.with_timeout(Duration::from_secs(3)));
    let uploading = tokio::spawn(async move {
        agents.upload_logs(tokio_stream::wrappers::ReceiverStream::new(uploads)).await
    });
    assert!(read.recv().await.is_some() && opening.is_answered());
    tokio::time::sleep(Duration::from_secs(4)).await;
    upload.send(v1::UploadLogsRequest { stream_id: String::new(), chunk: chunk() }).await.unwrap();
    assert!(read.recv().await.is_some());
    drop(upload);
    uploading.await.unwrap().unwrap();
}
