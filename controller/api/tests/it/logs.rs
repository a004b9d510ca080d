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
async fn an_upload_that_nobody_asked_for_is_refused() {
    use proto_wire::v1::agent_service_client::AgentServiceClient;
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut agents = AgentServiceClient::new(world.node("n0").await);
    let upload = v1::UploadLogsRequest { stream_id: "1-0".into(), chunk: None };
    assert_eq!(error(agents.upload_logs(tokio_stream::iter([upload])).await).reason, "NO_SUCH_STREAM");
}
