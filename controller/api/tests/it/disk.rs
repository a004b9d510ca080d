//! A full disk: submits are refused with the cause, running jobs go on, and it recovers by itself.

use std::{sync::atomic::Ordering, time::Duration};

use proto_rpc::ErrorClass;
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, job_service_client::JobServiceClient, job_status::Phase,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{PATIENCE, create, error, job, until},
    world::World,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_submits_and_lets_jobs_run() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let client = world.user("default");
    let mut jobs = JobServiceClient::new(client.clone());
    jobs.create_job(create(job("runs", 1))).await.unwrap();
    until(&client, "runs", Phase::Running).await;

    world.store.full.store(true, Ordering::Relaxed);
    for n in 0..3 {
        let refused = error(jobs.create_job(create(job(&format!("refused-{n}"), 1))).await);
        assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Unavailable, "STORE_UNWRITABLE"));
        assert!(refused.message.contains("No space left"), "{refused}");
        assert!(refused.retry_after.is_some());
    }
    let mut health = HealthServiceClient::new(client.clone());
    let seen = health.get_health(v1::GetHealthRequest {}).await.unwrap().into_inner();
    assert!(
        !seen.store_writable && seen.reasons.iter().any(|reason| reason.code == "StoreUnwritable"),
        "{seen:?}"
    );
    let get = v1::GetJobRequest { name: "runs".into(), tenant: String::new() };
    let running = jobs.get_job(get).await.unwrap().into_inner();
    assert_eq!(running.status.unwrap().phase(), Phase::Running);
    assert_eq!(world.metric("rail_store_writable"), 0.0);

    world.store.full.store(false, Ordering::Relaxed);
    let recovered = async {
        loop {
            if health.get_health(v1::GetHealthRequest {}).await.unwrap().into_inner().store_writable {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, recovered).await.unwrap();
    let list = jobs.list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner();
    assert_eq!(list.jobs.len(), 1, "nothing of the refused submits was stored");
    jobs.create_job(create(job("refused-0", 1))).await.unwrap();
    let cancel = v1::CancelJobRequest { name: "runs".into(), ..v1::CancelJobRequest::default() };
    jobs.cancel_job(cancel).await.unwrap();
    until(&client, "refused-0", Phase::Running).await;
    drop((jobs, health, client, agent));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agents_say_while_the_disk_is_full_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let client = world.user("default");
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let mut jobs = JobServiceClient::new(client.clone());
    let made = jobs.create_job(create(job("ends", 1))).await.unwrap().into_inner();
    until(&client, "ends", Phase::Running).await;
    world.store.full.store(true, Ordering::Relaxed);
    let exit = |rank| v1::RankExit {
        rank,
        time: Some(prost_types::Timestamp::default()),
        ..v1::RankExit::default()
    };
    let ended = v1::Observation {
        job_uid: crate::jobs::uid(&made),
        attempt: 1,
        state: v1::observation::State::Ended.into(),
        exits: vec![exit(0), exit(1)],
        ..v1::Observation::default()
    };
    agent.say(v1::agent_message::Body::Observation(ended)).await;
    let refused = error(jobs.create_job(create(job("probe", 1))).await);
    assert_eq!(refused.reason, "STORE_UNWRITABLE");
    world.store.full.store(false, Ordering::Relaxed);
    until(&client, "ends", Phase::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_cannot_be_read_is_named_and_nothing_is_overwritten() {
    use controller_leader::{LoopMetrics, Options, keys};
    use controller_store::{MemoryStore, Store};
    use std::sync::Arc;
    for (key, value, named) in [
        ("/rail/v1/jobs/t/a", &b"\xff\xff"[..], "/rail/v1/jobs/t/a"),
        ("/rail/v1/nodes/n0", b"", "/rail/v1/nodes/n0"),
        ("/rail/v1/strange", b"x", "/rail/v1/strange"),
    ] {
        let store = Arc::new(MemoryStore::default());
        let revision = store.put(key.into(), value.to_vec().into()).await.unwrap();
        let metrics = proto_rpc::Metrics::new("test", "0", std::time::SystemTime::UNIX_EPOCH);
        let options = Options::new("test", tokio_util::sync::CancellationToken::new());
        let started = controller_leader::start(store.clone(), options, LoopMetrics::new(&metrics)).await;
        let text = started.err().unwrap().to_string();
        assert!(text.contains(named), "{text}");
        assert_eq!(store.status().await.unwrap().revision, revision, "not even the leader key was written");
        assert!(store.get(keys::LEADER.into()).await.unwrap().is_none());
    }
}
