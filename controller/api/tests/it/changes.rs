//! Jobs that are held, released and changed; service classes; what lists tell of jobs that wait.

use proto_rpc::{Client, ErrorClass, Identity, Role};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, job_status::Phase, queue_service_client::QueueServiceClient,
    service_class_service_client::ServiceClassServiceClient,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, error, job, phase, until, until_it},
    world::World,
};

fn named(name: &str) -> String {
    name.to_owned()
}

fn codes(job: &v1::Job) -> Vec<&str> {
    job.status.as_ref().unwrap().reasons.iter().map(|reason| reason.code.as_str()).collect()
}

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

async fn get(client: &Client, name: &str) -> v1::Job {
    let request = v1::GetJobRequest { name: named(name), ..Default::default() };
    JobServiceClient::new(client.clone()).get_job(request).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_job_waits_until_everybody_lets_go() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let (ann, root) = (world.user("default"), world.admin());
    let (mut own, mut admins) = (JobServiceClient::new(ann.clone()), JobServiceClient::new(root.clone()));
    own.create_job(create(job("first", 1))).await.unwrap();
    until(&ann, "first", Phase::Running).await;
    own.create_job(create(job("next", 1))).await.unwrap();
    let hold = |reason: &str| v1::HoldJobRequest {
        name: named("next"),
        reason: named(reason),
        request_id: named("hold-1"),
        ..Default::default()
    };
    let held = own.hold_job(hold("not yet")).await.unwrap().into_inner();
    let reported = held.status.as_ref().unwrap().holds.clone();
    assert_eq!(
        (reported.len(), reported[0].role(), reported[0].reason.as_str()),
        (1, v1::Role::User, "not yet")
    );
    assert_eq!(codes(&held), ["HeldByUser"]);
    // The same id with another body is another request.
    let reused = error(own.hold_job(hold("otherwise")).await);
    assert_eq!((reused.class, reused.reason.as_str()), (ErrorClass::AlreadyExists, "REQUEST_ID_REUSED"));
    let by_admin = v1::HoldJobRequest { name: named("next"), ..Default::default() };
    admins.hold_job(by_admin.clone()).await.unwrap();
    let release = || v1::ReleaseJobRequest { name: named("next"), ..Default::default() };
    let left = own.release_job(release()).await.unwrap().into_inner();
    assert_eq!(codes(&left), ["HeldByAdministrator"]);
    let denied = error(own.release_job(release()).await);
    assert_eq!((denied.class, denied.reason.as_str()), (ErrorClass::Denied, "HELD_ABOVE"));
    let first = v1::HoldJobRequest { name: named("first"), ..Default::default() };
    let running = own.hold_job(first.clone()).await.unwrap().into_inner();
    assert_eq!(phase(&running), Phase::Running, "it goes on");
    own.cancel_job(v1::CancelJobRequest { name: named("first"), ..Default::default() }).await.unwrap();
    until(&ann, "first", Phase::Cancelled).await;
    let ended = error(own.hold_job(first).await);
    assert_eq!((ended.class, ended.reason.as_str()), (ErrorClass::Conflict, "JOB_ENDED"));
    assert_eq!(phase(&get(&ann, "next").await), Phase::Pending);
    admins.release_job(release()).await.unwrap();
    until(&ann, "next", Phase::Running).await;
    drop((agent, own, admins, ann, root));
    world.stop().await;
}

/// Suspended and resumed by gRPC; a watch, lists and explanations tell of it, and so does a controller that starts anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_job_waits_until_it_is_resumed_and_starts_as_a_new_try() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let (ann, root) = (world.user("default"), world.admin());
    let (mut own, mut admins) = (JobServiceClient::new(ann.clone()), JobServiceClient::new(root.clone()));
    own.create_job(create(job("first", 1))).await.unwrap();
    until(&ann, "first", Phase::Running).await;
    let suspend = |reason: &str| v1::SuspendJobRequest {
        name: named("first"),
        reason: named(reason),
        request_id: named("suspend-1"),
        ..Default::default()
    };
    let asked = own.suspend_job(suspend("for the demo")).await.unwrap().into_inner();
    let reported = asked.status.as_ref().unwrap().holds.clone();
    assert!(
        reported.len() == 1 && reported[0].suspended && reported[0].reason == "for the demo",
        "{reported:?}"
    );
    let waits = until(&ann, "first", Phase::Pending).await;
    assert_eq!(codes(&waits), ["SuspendRequested", "Requeued", "Suspended"]);
    let status = waits.status.clone().unwrap();
    assert_eq!((status.attempt, status.restarts, status.preempted), (2, 0, 0));
    let explain = v1::ExplainJobRequest { name: named("first"), ..Default::default() };
    let explained = own.explain_job(explain).await.unwrap().into_inner();
    assert!(explained.reasons.iter().any(|reason| reason.code == "Suspended"), "{explained:?}");
    // What was acknowledged is acknowledged again, another request with its id is not.
    own.suspend_job(suspend("for the demo")).await.unwrap();
    let reused = error(own.suspend_job(suspend("otherwise")).await);
    assert_eq!(reused.reason, "REQUEST_ID_REUSED");
    let long = v1::SuspendJobRequest { request_id: String::new(), ..suspend(&"x".repeat(1025)) };
    let long = error(own.suspend_job(long).await);
    assert_eq!((long.class, long.violations[0].field.as_str()), (ErrorClass::Invalid, "reason"));
    drop((agent, own, admins, ann, root));
    world.stop().await;
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let ann = world.user("default");
    (own, admins) = (JobServiceClient::new(ann.clone()), JobServiceClient::new(world.admin()));
    assert_eq!(get(&ann, "first").await.status.unwrap().holds, reported);
    let by_admin = v1::SuspendJobRequest { name: named("first"), ..Default::default() };
    admins.suspend_job(by_admin).await.unwrap();
    let resume = || v1::ResumeJobRequest { name: named("first"), ..Default::default() };
    let left = own.resume_job(resume()).await.unwrap().into_inner();
    assert_eq!(left.status.unwrap().holds.len(), 1);
    let denied = error(own.resume_job(resume()).await);
    assert_eq!((denied.class, denied.reason.as_str()), (ErrorClass::Denied, "HELD_ABOVE"));
    admins.resume_job(resume()).await.unwrap();
    let runs = until(&ann, "first", Phase::Running).await;
    assert!(runs.status.as_ref().unwrap().attempt == 2 && !codes(&runs).contains(&"Suspended"), "{runs:?}");
    let again =
        v1::RequeueJobRequest { name: named("first"), request_id: named("again-1"), ..Default::default() };
    own.requeue_job(again.clone()).await.unwrap();
    let third = |job: &v1::Job| phase(job) == Phase::Running && job.status.as_ref().unwrap().attempt == 3;
    until_it(&ann, "first", third).await;
    own.requeue_job(again.clone()).await.unwrap();
    assert!(third(&get(&ann, "first").await), "the copy came late");
    own.cancel_job(v1::CancelJobRequest { name: named("first"), ..Default::default() }).await.unwrap();
    until(&ann, "first", Phase::Cancelled).await;
    let again = v1::RequeueJobRequest { request_id: String::new(), ..again };
    let suspend = v1::SuspendJobRequest { name: named("first"), ..Default::default() };
    for ended in [error(own.suspend_job(suspend).await), error(own.requeue_job(again).await)] {
        assert_eq!((ended.class, ended.reason.as_str()), (ErrorClass::Conflict, "JOB_ENDED"));
    }
    drop((agent, own, admins, ann));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_changed_by_who_may_and_as_it_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let (ann, root) = (world.user("default"), world.admin());
    let (mut own, mut admins) = (JobServiceClient::new(ann.clone()), JobServiceClient::new(root.clone()));
    own.create_job(create(job("first", 1))).await.unwrap();
    until(&ann, "first", Phase::Running).await;
    let high = error(own.create_job(create(with(job("next", 1), |spec| spec.priority = 1000))).await);
    assert_eq!((high.class, high.reason.as_str()), (ErrorClass::Denied, "PRIORITY_TOO_HIGH"));
    assert_eq!(high.violations[0].field, "spec.priority");
    let made = own.create_job(create(job("next", 1))).await.unwrap().into_inner();
    let by = made.status.as_ref().unwrap().submitter.clone().unwrap();
    assert_eq!(by.role(), v1::Role::User);
    let update = |name: &str| v1::UpdateJobRequest { name: named(name), ..Default::default() };
    let version = get(&ann, "next").await.metadata.unwrap().resource_version;
    let lower = v1::UpdateJobRequest { priority: Some(-7), if_version: version, ..update("next") };
    let changed = own.update_job(lower.clone()).await.unwrap().into_inner();
    assert_eq!((changed.spec.as_ref().unwrap().priority, changed.metadata.unwrap().generation), (-7, 2));
    let stale = error(own.update_job(lower).await);
    assert_eq!((stale.class, stale.reason.as_str()), (ErrorClass::Conflict, "CONFLICT"));
    for (wrong, field) in [
        (v1::UpdateJobRequest { nodes: Some(0), ..update("next") }, "nodes"),
        (v1::UpdateJobRequest { queue: Some(named("NO")), ..update("next") }, "queue"),
        (
            v1::UpdateJobRequest { no_time_limit: true, time_limit: seconds(5), ..update("next") },
            "noTimeLimit",
        ),
        (v1::UpdateJobRequest { time_limit: seconds(-5), ..update("next") }, "timeLimit"),
        (update("next"), "priority"),
    ] {
        let wrong = error(own.update_job(wrong).await);
        assert_eq!((wrong.class, wrong.violations[0].field.as_str()), (ErrorClass::Invalid, field));
    }
    let longer = v1::UpdateJobRequest { time_limit: seconds(7200), ..update("first") };
    let shorter = v1::UpdateJobRequest { time_limit: seconds(3600), ..update("first") };
    own.update_job(shorter).await.unwrap();
    let denied = error(own.update_job(longer.clone()).await);
    assert_eq!((denied.class, denied.reason.as_str()), (ErrorClass::Denied, "TIME_LIMIT_EXTENDED"));
    let longer = admins.update_job(longer).await.unwrap().into_inner();
    assert_eq!(longer.spec.unwrap().time_limit, seconds(7200));
    // What is stored of it all is found again.
    drop((agent, own, admins, ann, root));
    world.stop().await;
    let world = World::start(dir.path()).await;
    let next = get(&world.user("default"), "next").await;
    assert_eq!((next.spec.unwrap().priority, next.status.unwrap().submitter), (-7, Some(by)));
    world.stop().await;
}

fn with(mut job: v1::Job, change: impl FnOnce(&mut v1::JobSpec)) -> v1::Job {
    change(job.spec.as_mut().unwrap());
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_say_when_jobs_will_start_and_why_they_wait() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let ann = world.user("default");
    let mut own = JobServiceClient::new(ann.clone());
    own.create_job(create(with(job("first", 1), |spec| spec.time_limit = seconds(600)))).await.unwrap();
    until(&ann, "first", Phase::Running).await;
    for n in 0..40 {
        own.create_job(create(job(&format!("w{n}"), 1))).await.unwrap();
    }
    own.create_job(create(with(job("sweep", 1), |spec| spec.array = named("0-3%1")))).await.unwrap();
    let after = vec![v1::Dependency { job: named("first"), ..Default::default() }];
    own.create_job(create(with(job("after", 1), |spec| spec.after = after))).await.unwrap();
    own.create_job(create(job("held", 1))).await.unwrap();
    own.hold_job(v1::HoldJobRequest { name: named("held"), ..Default::default() }).await.unwrap();
    let list = own.list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner();
    assert_eq!(list.jobs.len(), 47);
    for job in list.jobs.iter().filter(|job| phase(job) == Phase::Pending) {
        let (name, status) = (&job.metadata.as_ref().unwrap().name, job.status.as_ref().unwrap());
        assert!(!status.reasons.is_empty(), "{name} says nothing");
        assert_eq!(status.eta.is_some(), name != "held", "{name}: {:?}", status.eta);
    }
    let mut queues = QueueServiceClient::new(ann.clone());
    let order = queues.get_queue_order(v1::GetQueueOrderRequest::default()).await.unwrap().into_inner();
    assert_eq!((order.waiting, order.standings.len()), (46, 46));
    assert_eq!((order.standings[0].job.as_str(), order.standings[0].position), ("w0", 1));
    assert!(order.standings.iter().any(|one| one.job == "held" && one.held));
    // A watch of an array tells of its elements alone.
    let of_array = v1::WatchJobsRequest { array: named("sweep"), ..Default::default() };
    let mut events = own.watch_jobs(of_array.clone()).await.unwrap().into_inner();
    let mut seen = Vec::new();
    while let Some(job) = events.message().await.unwrap().and_then(|event| event.job) {
        seen.push(job.metadata.unwrap_or_default().name);
    }
    assert_eq!(seen, ["sweep-0", "sweep-1", "sweep-2", "sweep-3"]);
    let both = v1::WatchJobsRequest { name: named("held"), ..of_array };
    assert_eq!(error(own.watch_jobs(both).await).class, ErrorClass::Invalid);
    let too_many = v1::GetQueueOrderRequest { limit: 1001, ..Default::default() };
    assert_eq!(error(queues.get_queue_order(too_many).await).class, ErrorClass::Invalid);
    let shares = queues.list_shares(v1::ListSharesRequest::default()).await.unwrap().into_inner();
    assert_eq!((shares.shares[0].tenant.as_str(), shares.shares[0].gpus_held), ("default", 4));
    let foreign = v1::ListSharesRequest { tenant: named("red") };
    assert_eq!(error(queues.list_shares(foreign).await).reason, "FOREIGN_TENANT");
    drop((agent, own, queues, ann));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_class_is_seen_by_those_that_it_is_for() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.tenant("red", 8).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let mut admins = ServiceClassServiceClient::new(world.admin());
    let members = v1::ServiceClassMembers {
        tenants: vec![named("red"), named("default")],
        ..v1::ServiceClassMembers::default()
    };
    let limits = v1::JobLimits { time_limit_max: seconds(60), ..v1::JobLimits::default() };
    let class = |name: &str, members: v1::ServiceClassMembers| v1::ServiceClass {
        metadata: Some(v1::Metadata { name: named(name), ..v1::Metadata::default() }),
        spec: Some(v1::ServiceClassSpec { members: Some(members), job: Some(limits), ..Default::default() }),
        ..v1::ServiceClass::default()
    };
    let apply =
        |class: v1::ServiceClass| v1::ApplyServiceClassRequest { service_class: Some(class), dry_run: false };
    let made = admins.apply_service_class(apply(class("short", members))).await.unwrap().into_inner();
    assert!(made.metadata.as_ref().unwrap().resource_version > 0 && !made.metadata.unwrap().uid.is_empty());
    let only_red = v1::ServiceClassMembers { tenants: vec![named("red")], ..Default::default() };
    admins.apply_service_class(apply(class("reds", only_red))).await.unwrap();
    let ann = world.user("default");
    let mut seen = ServiceClassServiceClient::new(ann.clone());
    let list =
        seen.list_service_classes(v1::ListServiceClassesRequest::default()).await.unwrap().into_inner();
    let names: Vec<String> =
        list.service_classes.iter().map(|class| class.metadata.clone().unwrap().name).collect();
    assert_eq!(names, ["short"]);
    let spec = list.service_classes[0].spec.clone().unwrap();
    assert_eq!(spec.members.unwrap().tenants, ["default"], "not who else");
    let get = |name: &str| v1::GetServiceClassRequest { name: named(name) };
    let hidden = error(seen.get_service_class(get("reds")).await);
    assert_eq!((hidden.class, hidden.reason.as_str()), (ErrorClass::NotFound, "SERVICE_CLASS_NOT_FOUND"));
    let mut own = JobServiceClient::new(ann.clone());
    let of = |spec: &mut v1::JobSpec| spec.service_class = named("short");
    let long = with(job("long", 1), |spec| {
        of(spec);
        spec.time_limit = seconds(61);
    });
    let long = error(own.create_job(create(long)).await);
    assert_eq!((long.class, long.reason.as_str()), (ErrorClass::Invalid, "SERVICE_CLASS_LIMIT"));
    assert_eq!(long.violations[0].field, "spec.timeLimit");
    let made = own.create_job(create(with(job("fits", 1), of))).await.unwrap().into_inner();
    assert_eq!(made.spec.unwrap().time_limit, seconds(60));
    until(&ann, "fits", Phase::Running).await;
    let used = seen.get_service_class(get("short")).await.unwrap().into_inner().status.unwrap();
    assert_eq!((used.jobs_running, used.gpus_used), (1, 4));
    let red = world.client(&Identity::user("red", "eve", [Role::User]).unwrap());
    let theirs = ServiceClassServiceClient::new(red).get_service_class(get("short")).await.unwrap();
    assert_eq!(theirs.into_inner().status.unwrap().gpus_used, 0, "what others use is not told");
    let busy = v1::DeleteServiceClassRequest { name: named("short") };
    assert_eq!(error(admins.delete_service_class(busy).await).reason, "SERVICE_CLASS_BUSY");
    drop((agent, own, seen, admins, ann));
    world.stop().await;
}
