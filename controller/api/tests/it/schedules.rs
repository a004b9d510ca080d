//! Schedules over gRPC and REST: whose they are, what of a document is the controller's to say, and a controller that comes back
//! after a run was due.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use controller_store::{EmbeddedOptions, EmbeddedStore, Op, Store, Txn};
use prost::Message;
use proto_model::TenantName;
use proto_rpc::{ErrorClass, Identity, Role};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, schedule_service_client::ScheduleServiceClient,
};
use serde_json::json;

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{error, job},
    rest::Rest,
    world::World,
};

/// A schedule that is not due while a test runs, unless the year ends.
pub fn yearly(tenant: &str, name: &str) -> v1::ApplyScheduleRequest {
    let metadata = v1::Metadata { name: name.to_owned(), tenant: tenant.to_owned(), ..Default::default() };
    let template = v1::JobTemplate { spec: job("any", 1).spec, ..Default::default() };
    let spec = v1::ScheduleSpec {
        cron: "@yearly".to_owned(),
        job_template: Some(template),
        concurrency: v1::schedule_spec::Concurrency::Forbid.into(),
        ..Default::default()
    };
    let schedule = v1::Schedule { metadata: Some(metadata), spec: Some(spec), ..Default::default() };
    v1::ApplyScheduleRequest { schedule: Some(schedule), dry_run: false }
}

fn get(tenant: &str, name: &str) -> v1::GetScheduleRequest {
    v1::GetScheduleRequest { name: name.to_owned(), tenant: tenant.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_its_tenants_alone_and_its_progress_is_the_controllers() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let blue = crate::tenants::two(&world).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let mut admin = ScheduleServiceClient::new(world.admin());
    let made = admin.apply_schedule(yearly("red", "turn")).await.unwrap().into_inner();
    let status = made.status.clone().unwrap();
    assert!(status.next_run.is_some() && status.last_run.is_none(), "{status:?}");
    assert_eq!(status.owner.unwrap().role(), v1::Role::Admin);
    let mut schedules = ScheduleServiceClient::new(blue.clone());
    assert_eq!(error(schedules.get_schedule(get("red", "turn")).await).class, ErrorClass::Denied);
    assert_eq!(error(schedules.get_schedule(get("", "turn")).await).class, ErrorClass::NotFound);
    assert_eq!(error(schedules.apply_schedule(yearly("red", "turn")).await).class, ErrorClass::Denied);
    let delete = |tenant: &str| v1::DeleteScheduleRequest { name: "turn".into(), tenant: tenant.into() };
    assert_eq!(error(schedules.delete_schedule(delete("red")).await).class, ErrorClass::Denied);
    assert_eq!(error(schedules.delete_schedule(delete("")).await).class, ErrorClass::NotFound);
    let list = v1::ListSchedulesRequest::default;
    assert!(schedules.list_schedules(list()).await.unwrap().into_inner().schedules.is_empty());
    // What a document says of owner and progress is not believed.
    let mut forged = yearly("", "turn");
    let status = v1::ScheduleStatus {
        owner: Some(v1::Submitter { role: v1::Role::Admin.into(), user: "root".into() }),
        checked_until: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }),
        submitted: 99,
        ..Default::default()
    };
    forged.schedule.as_mut().unwrap().status = Some(status);
    let mut user =
        ScheduleServiceClient::new(world.client(&Identity::user("blue", "ann", [Role::User]).unwrap()));
    let made = user.apply_schedule(forged).await.unwrap().into_inner().status.unwrap();
    let owner = made.owner.unwrap();
    assert_eq!((owner.role(), owner.user.as_str(), made.submitted), (v1::Role::User, "ann", 0));
    assert!(made.checked_until.unwrap().seconds > 1_000_000);
    // Viewers read, and no more; what is wrong in a template has its path in the document.
    let mut viewer =
        ScheduleServiceClient::new(world.client(&Identity::user("blue", "eve", [Role::Viewer]).unwrap()));
    assert_eq!(viewer.list_schedules(list()).await.unwrap().into_inner().schedules.len(), 1);
    assert_eq!(error(viewer.apply_schedule(yearly("", "x")).await).class, ErrorClass::Denied);
    let mut urgent = yearly("", "urgent");
    let spec = urgent.schedule.as_mut().unwrap().spec.as_mut().unwrap();
    spec.job_template.as_mut().unwrap().spec.as_mut().unwrap().priority = 9;
    let refused = error(user.apply_schedule(urgent).await);
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Denied, "PRIORITY_TOO_HIGH"));
    assert_eq!(refused.violations[0].field, "spec.jobTemplate.spec.priority");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rest_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let mut rest = Rest::new(world.admin());
    let document = json!({
        "apiVersion": "rail/v1", "kind": "Schedule", "metadata": {"name": "turn"},
        "spec": {
            "cron": "30 2 * * mon-fri", "timeZone": "Europe/Berlin", "concurrency": "REPLACE", "startingDeadline": "60s",
            "jobTemplate": {"spec": {"gang": {"nodes": 1}, "command": {"argv": ["true"]}}},
        },
    });
    let made = rest.call("POST", "/v1/schedules", &document.to_string()).await;
    assert_eq!(made.status, 200, "{}", made.text);
    assert_eq!(made.json["spec"]["timeZone"], "Europe/Berlin");
    let all = rest.call("GET", "/v1/schedules", "").await.json;
    assert!(all["schedules"][0]["status"]["nextRun"].is_string(), "{all:#}");
    assert_eq!(rest.call("GET", "/v1/schedules/turn", "").await.json["spec"]["concurrency"], "REPLACE");
    let mut wrong = document.clone();
    wrong["spec"]["cron"] = json!("61 * * * *");
    let refused = rest.call("POST", "/v1/schedules", &wrong.to_string()).await;
    assert!(
        refused.status == 400 && refused.text.contains("spec.cron: minute: '61' is not from 0 to 59"),
        "{}",
        refused.text
    );
    assert_eq!(rest.call("DELETE", "/v1/schedules/turn", "").await.status, 200);
    assert_eq!(rest.call("GET", "/v1/schedules/turn", "").await.status, 404);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_comes_back_submits_the_last_run_that_was_missed() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let mut hourly = yearly("", "turn");
    hourly.schedule.as_mut().unwrap().spec.as_mut().unwrap().cron = "@hourly".to_owned();
    ScheduleServiceClient::new(world.admin()).apply_schedule(hourly).await.unwrap();
    drop(agent);
    world.stop().await;
    // It was looked at three hours ago for the last time.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    {
        let store = EmbeddedStore::open(EmbeddedOptions::new(dir.path().join("store"))).unwrap();
        let tenant = TenantName::new("default").unwrap();
        let key = controller_leader::keys::schedule(&tenant, &"turn".parse().unwrap());
        let kv = store.get(key.clone()).await.unwrap().unwrap();
        let mut row = v1::Schedule::decode(kv.value).unwrap();
        let then = i64::try_from((now - Duration::from_secs(3 * 3600)).as_secs()).unwrap();
        row.status.as_mut().unwrap().checked_until = Some(prost_types::Timestamp { seconds: then, nanos: 0 });
        let mut txn = Txn::new();
        txn.success = vec![Op::put(key, row.encode_to_vec())];
        store.txn(txn).await.unwrap();
    }
    let world = World::start(dir.path()).await;
    let mut schedules = ScheduleServiceClient::new(world.admin());
    let mut jobs = JobServiceClient::new(world.admin());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    let found = loop {
        let list = jobs.list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner().jobs;
        if !list.is_empty() || tokio::time::Instant::now() > deadline {
            break list;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(found.len(), 1, "one of three");
    let status = schedules.get_schedule(get("", "turn")).await.unwrap().into_inner().status.unwrap();
    let job = found.into_iter().next().unwrap();
    let (name, run) = (job.metadata.unwrap().name, job.status.unwrap().schedule.unwrap());
    assert_eq!((status.submitted, &status.last_job, status.last_run), (1, &name, run.time));
    assert_eq!(run.time.unwrap().seconds % 3600, 0);
    assert!(now.as_secs().abs_diff(run.time.unwrap().seconds.unsigned_abs()) <= 3700, "the last one");
    assert_eq!(status.active, [name]);
    world.stop().await;
}
