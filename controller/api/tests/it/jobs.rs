//! Jobs from submit to their end; restarts; repeated submits.

use std::time::Duration;

use proto_rpc::{Client, ErrorClass, RpcError};
use proto_wire::v1::{
    self, job_event::Type, job_service_client::JobServiceClient, job_status::Phase,
    node_service_client::NodeServiceClient, tenant_service_client::TenantServiceClient,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    world::World,
};

/// Long enough for a slow machine under load; nothing waits for it when all is well.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn job(name: &str, nodes: u32) -> v1::Job {
    v1::Job {
        metadata: Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() }),
        spec: Some(v1::JobSpec {
            gang: Some(v1::Gang { nodes, gpus_per_node: 4, ranks_per_node: 2, ..v1::Gang::default() }),
            work: Some(v1::job_spec::Work::Command(v1::Command {
                argv: vec!["true".to_owned()],
                env: [("B".to_owned(), "2".to_owned()), ("A".to_owned(), "1".to_owned())].into(),
                ..v1::Command::default()
            })),
            ..v1::JobSpec::default()
        }),
        ..v1::Job::default()
    }
}

pub fn create(job: v1::Job) -> v1::CreateJobRequest {
    v1::CreateJobRequest { job: Some(job), ..v1::CreateJobRequest::default() }
}

pub fn phase(job: &v1::Job) -> Phase {
    job.status.as_ref().unwrap().phase()
}

pub fn uid(job: &v1::Job) -> String {
    job.metadata.as_ref().unwrap().uid.clone()
}

/// Watches a job until it is in the phase.
pub async fn until(client: &Client, name: &str, wanted: Phase) -> v1::Job {
    until_it(client, name, |job| phase(job) == wanted).await
}

/// Watches a job until it is as wanted.
pub async fn until_it(client: &Client, name: &str, wanted: impl Fn(&v1::Job) -> bool) -> v1::Job {
    let mut jobs = JobServiceClient::new(client.without_timeout());
    let request = v1::WatchJobsRequest { name: name.to_owned(), ..v1::WatchJobsRequest::default() };
    let mut events = jobs.watch_jobs(request).await.unwrap().into_inner();
    let reached = async {
        while let Some(event) = events.message().await.unwrap() {
            if let Some(job) = event.job.filter(|job| event.r#type == i32::from(Type::Put) && wanted(job)) {
                return job;
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(PATIENCE, reached)
        .await
        .unwrap_or_else(|_| panic!("{name} did not become what was waited for"))
}

pub fn error<T: std::fmt::Debug>(result: Result<T, tonic::Status>) -> RpcError {
    RpcError::from_status(&result.unwrap_err())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_runs_to_its_end_and_the_watch_sees_every_phase() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut agents = Vec::new();
    for node in ["n0", "n1", "n2"] {
        agents.push(FakeAgent::connect(world.node(node).await, node, Behaviour::Complete).await);
    }
    let client = world.user("default");
    let mut jobs = JobServiceClient::new(client.clone());
    let mut events = jobs.watch_jobs(v1::WatchJobsRequest::default()).await.unwrap().into_inner();
    assert_eq!(events.message().await.unwrap().unwrap().r#type(), Type::Synced);
    let made = jobs.create_job(create(job("train", 2))).await.unwrap().into_inner();
    assert_eq!(made.metadata.as_ref().unwrap().tenant, "default");
    assert!(made.metadata.as_ref().unwrap().resource_version > 0);
    let done = until(&client, "train", Phase::Completed).await;
    let status = done.status.clone().unwrap();
    assert_eq!((status.exits.len(), status.attempt), (4, 1));
    assert_eq!(status.placement.unwrap().rails, [0, 1, 2, 3]);
    let (mut phases, mut revision) = (Vec::new(), 0);
    while phases.last() != Some(&Phase::Completed) {
        let event = tokio::time::timeout(PATIENCE, events.message()).await.unwrap().unwrap().unwrap();
        assert!(event.revision >= revision, "revisions grow");
        revision = event.revision;
        let seen = phase(event.job.as_ref().unwrap());
        if phases.last() != Some(&seen) {
            phases.push(seen);
        }
    }
    assert!(phases.is_sorted(), "{phases:?}");
    assert!(phases.contains(&Phase::Running), "{phases:?}");
    let read = jobs.get_job(v1::GetJobRequest { name: "train".into(), tenant: String::new() }).await.unwrap();
    assert_eq!(read.into_inner(), done);
    let delete = v1::DeleteJobRequest { name: "train".into(), ..v1::DeleteJobRequest::default() };
    jobs.delete_job(delete.clone()).await.unwrap();
    assert_eq!(error(jobs.delete_job(delete).await).class, ErrorClass::NotFound);
    let event = tokio::time::timeout(PATIENCE, async {
        loop {
            let event = events.message().await.unwrap().unwrap();
            if event.r#type() == Type::Delete {
                return event;
            }
        }
    });
    assert_eq!(uid(&event.await.unwrap().job.unwrap()), uid(&made));
    drop((jobs, events, client, agents));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_cancelled_and_a_waiting_one_says_why_it_waits() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let client = world.user("default");
    let mut jobs = JobServiceClient::new(client.clone());
    jobs.create_job(create(job("first", 1))).await.unwrap();
    until(&client, "first", Phase::Running).await;
    jobs.create_job(create(job("second", 1))).await.unwrap();
    let explain = v1::ExplainJobRequest { name: "second".into(), ..Default::default() };
    // The last decision that was recorded by the end of time is the present one.
    let at = Some(prost_types::Timestamp { seconds: 4_000_000_000, nanos: 0 });
    let past = jobs.explain_job(v1::ExplainJobRequest { at, ..explain.clone() }).await.unwrap().into_inner();
    assert!(past.phase() == Phase::Pending && !past.decisions.is_empty(), "{past:?}");
    let explained = jobs.explain_job(explain).await.unwrap().into_inner();
    assert_eq!(explained.holders[0].job, "first", "{explained:?}");
    assert_eq!(explained.phase(), Phase::Pending);
    assert!(!explained.reasons.is_empty() && !explained.infeasible, "{explained:?}");
    let plan = v1::PlanJobRequest { job: Some(job("third", 9)), ..v1::PlanJobRequest::default() };
    let planned = jobs.plan_job(plan).await.unwrap().into_inner();
    assert!(planned.infeasible && planned.placement.is_none() && !planned.reasons.is_empty(), "{planned:?}");
    let refused = error(jobs.create_job(create(job("third", 9))).await);
    assert_eq!(refused.class, ErrorClass::Infeasible, "{refused:?}");
    let mut nodes = NodeServiceClient::new(client.clone());
    let node = nodes.get_node(v1::GetNodeRequest { name: "n0".into() }).await.unwrap().into_inner();
    assert_eq!(node.status.unwrap().holds[0].job, "first");
    let cancel = v1::CancelJobRequest { name: "first".into(), ..v1::CancelJobRequest::default() };
    jobs.cancel_job(cancel).await.unwrap();
    until(&client, "first", Phase::Cancelled).await;
    until(&client, "second", Phase::Running).await;
    drop((jobs, nodes, client, agent));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_nothing_and_does_not_disturb_what_runs() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let first_epoch = *agent.epoch.lock().unwrap();
    let client = world.user("default");
    let mut jobs = JobServiceClient::new(client.clone());
    let mut request = create(job("runs", 1));
    request.request_id = "request-1".to_owned();
    let runs = jobs.create_job(request.clone()).await.unwrap().into_inner();
    let running = until(&client, "runs", Phase::Running).await;
    for n in 0..20 {
        jobs.create_job(create(job(&format!("waits-{n}"), 1))).await.unwrap();
    }
    drop((jobs, client, agent));
    world.stop().await;

    let world = World::start(dir.path()).await;
    let seen = v1::Observation {
        job_uid: uid(&running),
        attempt: 1,
        state: v1::observation::State::Running.into(),
        ..v1::Observation::default()
    };
    let agent = FakeAgent::connect_with(world.node("n0").await, "n0", Behaviour::Linger, vec![seen]).await;
    assert!(*agent.epoch.lock().unwrap() > first_epoch, "a new life has a higher epoch");
    let client = world.user("default");
    let mut jobs = JobServiceClient::new(client.clone());
    let list = jobs.list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner();
    assert_eq!(list.jobs.len(), 21);
    let again = jobs.create_job(request.clone()).await.unwrap().into_inner();
    assert_eq!((uid(&again), phase(&again)), (uid(&runs), Phase::Running), "the same submit is the same job");
    request.job.as_mut().unwrap().spec.as_mut().unwrap().priority = 7;
    let reused = error(jobs.create_job(request).await);
    assert_eq!((reused.class, reused.reason.as_str()), (ErrorClass::AlreadyExists, "REQUEST_ID_REUSED"));
    let stopped = i32::from(v1::assignment::DesiredState::Stopped);
    assert!(
        agent
            .desired
            .lock()
            .unwrap()
            .iter()
            .all(|(job, _, desired)| *job != uid(&running) || *desired != stopped)
    );
    drop((jobs, client, agent));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged_and_tenants_see_their_own_only() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let admin = world.admin();
    let mut tenants = TenantServiceClient::new(admin.clone());
    let tenant = |name: &str, gpus, jobs| v1::ApplyTenantRequest {
        tenant: Some(v1::Tenant {
            metadata: Some(v1::Metadata { name: name.into(), ..v1::Metadata::default() }),
            spec: Some(v1::TenantSpec {
                quota: Some(v1::Quota { gpus, jobs, ..v1::Quota::default() }),
                ..v1::TenantSpec::default()
            }),
            ..v1::Tenant::default()
        }),
        dry_run: false,
        reuse_name: false,
    };
    tenants.apply_tenant(tenant("nlp", 100, 3)).await.unwrap();
    tenants.apply_tenant(tenant("poor", 0, 0)).await.unwrap();
    let mut nlp = JobServiceClient::new(world.user("nlp"));
    let mut other = JobServiceClient::new(world.user("default"));
    for n in 0..3 {
        nlp.create_job(create(job(&format!("j{n}"), 1))).await.unwrap();
    }
    let over = error(nlp.create_job(create(job("j3", 1))).await);
    assert_eq!((over.class, over.reason.as_str()), (ErrorClass::Quota, "QUOTA_EXCEEDED"));
    assert!(other.list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner().jobs.is_empty());
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let request =
            v1::ListJobsRequest { page_size: 2, page_token: token, ..v1::ListJobsRequest::default() };
        let page = nlp.list_jobs(request).await.unwrap().into_inner();
        names.extend(page.jobs.into_iter().map(|job| job.metadata.unwrap().name));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names, ["j0", "j1", "j2"]);
    let foreign = v1::GetJobRequest { name: "j0".into(), tenant: "nlp".into() };
    assert_eq!(error(other.get_job(foreign.clone()).await).class, ErrorClass::Denied);
    let mut all = JobServiceClient::new(admin.clone());
    assert_eq!(uid(&all.get_job(foreign).await.unwrap().into_inner()).len(), 36);
    assert_eq!(all.list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner().jobs.len(), 3);
    let mut sneaky = create(job("sneaky", 1));
    sneaky.job.as_mut().unwrap().metadata.as_mut().unwrap().tenant = "nlp".into();
    assert_eq!(error(other.create_job(sneaky.clone()).await).reason, "FOREIGN_TENANT");
    assert_eq!(error(all.create_job(sneaky).await).reason, "FOREIGN_TENANT");
    let behalf = v1::CreateJobRequest { on_behalf_of: "poor".into(), ..create(job("never", 1)) };
    let never = error(all.create_job(behalf).await);
    assert_eq!(never.class, ErrorClass::Infeasible);
    assert!(
        never.violations.iter().any(|cause| cause.message.contains("quota of tenant 'poor'")),
        "{never:?}"
    );
    let usage = tenants.get_tenant(v1::GetTenantRequest { name: "nlp".into() }).await.unwrap().into_inner();
    let status = usage.status.unwrap();
    assert_eq!((status.gpus_used, status.jobs_active), (4, 3));
    assert!((3 * 1024..3 * 4096).contains(&status.stored_bytes), "{status:?}");
    let unknown = v1::CreateJobRequest { on_behalf_of: "nlpp".into(), ..create(job("x", 1)) };
    let unknown = error(all.create_job(unknown).await);
    assert_eq!((unknown.class, unknown.message.contains("nlp")), (ErrorClass::NotFound, true), "{unknown:?}");
}
