//! What attempts held, over gRPC and REST: after their jobs are gone, for those who may see it alone, page by page, and in sums.

use controller_core::Event;
use proto_rpc::{Client, ErrorClass, Identity, Role};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, job_status::Phase, sum_usage_request::By, usage_record::End,
    usage_service_client::UsageServiceClient,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, error, job, until},
    rest::Rest,
    tenancy::delete,
    world::World,
};

/// A user's job of one server that runs to its end.
async fn completed(client: &Client, name: &str) -> v1::Job {
    JobServiceClient::new(client.clone()).create_job(create(job(name, 1))).await.unwrap();
    until(client, name, Phase::Completed).await
}

async fn list(client: &Client, request: v1::ListUsageRecordsRequest) -> v1::ListUsageRecordsResponse {
    UsageServiceClient::new(client.clone()).list_usage_records(request).await.unwrap().into_inner()
}

async fn sum(client: &Client, request: v1::SumUsageRequest) -> v1::SumUsageResponse {
    UsageServiceClient::new(client.clone()).sum_usage(request).await.unwrap().into_inner()
}

fn names(answer: &v1::ListUsageRecordsResponse) -> Vec<&str> {
    answer.records.iter().map(|record| record.job.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_outlive_jobs_and_controllers() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Complete).await;
    let ann = world.user("default");
    let done = completed(&ann, "train").await;
    let whole = list(&ann, v1::ListUsageRecordsRequest::default()).await;
    let [record] = &whole.records[..] else { panic!("{whole:?}") };
    let status = done.status.unwrap();
    assert_eq!((record.tenant.as_str(), record.job.as_str(), record.attempt), ("default", "train", 1));
    assert_eq!((record.user.as_str(), record.end(), record.reason.as_str()), ("ann", End::Completed, ""));
    assert_eq!((record.submit_time, record.end_time), (status.submit_time, status.end_time));
    assert_eq!((record.nodes, record.gpus, record.nics, record.rails), (1, 4, 4, 4));
    let ms = |time: Option<prost_types::Timestamp>| {
        let time = time.unwrap();
        time.seconds * 1000 + i64::from(time.nanos) / 1_000_000
    };
    let held = u64::try_from(ms(record.end_time) - ms(record.place_time)).unwrap();
    let amount = record.amount.unwrap();
    assert_eq!((amount.held_ms, amount.gpu_ms, amount.nic_ms), (held, held * 4, held * 4));
    // The job goes, and the controller; what it held stays.
    let gone = v1::DeleteJobRequest { name: "train".into(), ..Default::default() };
    JobServiceClient::new(ann.clone()).delete_job(gone).await.unwrap();
    drop((agent, ann));
    world.stop().await;
    world = World::start(dir.path()).await;
    let ann = world.user("default");
    assert_eq!(list(&ann, v1::ListUsageRecordsRequest::default()).await.records, whole.records);
    drop(ann);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_see_their_own_alone_and_nothing_of_an_earlier_tenant_of_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Complete).await;
    world.tenant("red", 8).await;
    let (ann, eve) = (world.user("default"), world.user("red"));
    completed(&ann, "a").await;
    completed(&eve, "e").await;
    assert_eq!(names(&list(&ann, v1::ListUsageRecordsRequest::default()).await), ["a"]);
    assert_eq!(names(&list(&eve, v1::ListUsageRecordsRequest::default()).await), ["e"]);
    let viewer = world.client(&Identity::user("red", "vic", [Role::Viewer]).unwrap());
    assert_eq!(names(&list(&viewer, v1::ListUsageRecordsRequest::default()).await), ["e"]);
    let foreign = v1::SumUsageRequest { tenant: "default".into(), ..Default::default() };
    let refused = error(UsageServiceClient::new(eve.clone()).sum_usage(foreign.clone()).await);
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Denied, "FOREIGN_TENANT"));
    let admin = world.admin();
    assert_eq!(names(&list(&admin, v1::ListUsageRecordsRequest::default()).await), ["a", "e"]);
    // Records from when on are complete: of a tenant its own alone, of all where that is so of each.
    let oldest = |tenant: &str| v1::SumUsageRequest { tenant: tenant.into(), ..Default::default() };
    let ends = list(&admin, v1::ListUsageRecordsRequest::default()).await.records;
    let [a, e] = [&ends[0], &ends[1]].map(|record| record.end_time);
    let (red, all) = (sum(&admin, oldest("red")).await, sum(&admin, oldest("")).await);
    assert_eq!((red.oldest_end_time, all.oldest_end_time), (e, e));
    assert_eq!(sum(&ann, oldest("")).await.oldest_end_time, a);
    assert_eq!(sum(&admin, foreign).await.sums.len(), 1);
    drop((eve, viewer));
    // The tenant goes, and somebody else has its name.
    delete(&world, "red").await;
    let release = Event::ReleaseTenantName { name: "red".parse().unwrap() };
    world.handle.apply(&crate::world::who(), release).await.unwrap();
    world.tenant("red", 8).await;
    let later = world.user("red");
    assert!(list(&later, v1::ListUsageRecordsRequest::default()).await.records.is_empty());
    assert_eq!(sum(&later, v1::SumUsageRequest::default()).await.total.unwrap().attempts, 0);
    completed(&later, "l").await;
    let both = sum(&admin, v1::SumUsageRequest { tenant: "red".into(), ..Default::default() }).await;
    let uids: Vec<&str> = both.sums.iter().map(|sum| sum.tenant_uid.as_str()).collect();
    assert!(uids.len() == 2 && uids[0] != uids[1], "two tenants, one after the other: {both:?}");
    drop((agent, ann, admin, later));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_each_attempt_once_and_what_runs_counts_to_now() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agents = [
        FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await,
        FakeAgent::connect(world.node("n1").await, "n1", Behaviour::Linger).await,
    ];
    let ann = world.user("default");
    let mut jobs = JobServiceClient::new(ann.clone());
    for name in ["a", "b", "c"] {
        jobs.create_job(create(job(name, 1))).await.unwrap();
        until(&ann, name, Phase::Running).await;
        let cancel = v1::CancelJobRequest { name: name.into(), ..Default::default() };
        jobs.cancel_job(cancel).await.unwrap();
        until(&ann, name, Phase::Cancelled).await;
    }
    jobs.create_job(create(job("run", 2))).await.unwrap();
    until(&ann, "run", Phase::Running).await;
    let (mut request, mut seen) =
        (v1::ListUsageRecordsRequest { page_size: 1, ..Default::default() }, Vec::new());
    loop {
        let page = list(&ann, request.clone()).await;
        assert!(page.records.len() <= 1);
        seen.extend(page.records);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    let ends: Vec<(&str, End)> = seen.iter().map(|record| (record.job.as_str(), record.end())).collect();
    let cancelled = |name| (name, End::Cancelled);
    assert_eq!(ends, [cancelled("a"), cancelled("b"), cancelled("c"), ("run", End::Running)]);
    assert_eq!((seen[0].reason.as_str(), seen[3].end_time), ("CancelRequested", None));
    // Somebody else's token, and one of another list, is none.
    let first = list(&ann, v1::ListUsageRecordsRequest { page_size: 1, ..Default::default() }).await;
    let other = v1::ListUsageRecordsRequest {
        user: "bob".into(),
        page_token: first.next_page_token,
        ..Default::default()
    };
    let refused = error(UsageServiceClient::new(ann.clone()).list_usage_records(other).await);
    assert_eq!((refused.class, refused.violations[0].field.as_str()), (ErrorClass::Invalid, "pageToken"));

    let by_job = sum(&ann, v1::SumUsageRequest { by: By::Job.into(), limit: 2, ..Default::default() }).await;
    let total = by_job.total.clone().unwrap();
    assert_eq!((total.attempts, total.attempts_running, by_job.left_out), (4, 1, 2));
    assert!(by_job.sums[0].amount.unwrap().gpu_ms >= by_job.sums[1].amount.unwrap().gpu_ms);
    let by_user = sum(&ann, v1::SumUsageRequest { by: By::User.into(), ..Default::default() }).await;
    assert_eq!((by_user.sums.len(), by_user.sums[0].user.as_str()), (1, "ann"));
    // Nothing is held in an interval that has no length, or ends before it begins.
    for until in [by_user.as_of, Some(prost_types::Timestamp { seconds: 1000, nanos: 0 })] {
        let none = v1::SumUsageRequest { since: by_user.as_of, until, ..Default::default() };
        assert_eq!(
            sum(&ann, none).await.total.unwrap(),
            v1::UsageSum { amount: Some(Default::default()), ..Default::default() }
        );
    }
    let long = v1::SumUsageRequest { user: "a".repeat(257), ..Default::default() };
    let refused = error(UsageServiceClient::new(ann.clone()).sum_usage(long).await);
    assert_eq!(refused.violations[0].field, "user");
    // Of an interval before all of them there is nothing.
    let early = prost_types::Timestamp { seconds: 1000, nanos: 0 };
    let before = v1::SumUsageRequest { until: Some(early), ..Default::default() };
    assert_eq!(sum(&ann, before).await.total.unwrap().attempts, 0);

    let mut rest = Rest::new(ann.clone());
    let answer = rest.call("GET", "/v1/usage:sum?by=QUEUE&since=2020-01-01T00:00:00Z", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.json["total"]["attempts"], "4", "{}", answer.text);
    let answer = rest.call("GET", "/v1/usage?pageSize=2", "").await.json;
    assert_eq!(answer["records"][1]["job"], "b", "{answer}");
    assert_eq!(rest.call("GET", "/v1/usage:sum?limit=10001", "").await.status, 400);
    drop((agents, ann, jobs));
    world.stop().await;
}
