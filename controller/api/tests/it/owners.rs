//! Within a tenant: whose a job is, who changes it, and who reads what its environment holds.

use proto_rpc::{ErrorClass, Identity, Role};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, job_spec::Work, job_status::Phase,
    schedule_service_client::ScheduleServiceClient,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, error, job, until},
    world::World,
};

fn secret() -> v1::Job {
    let mut job = job("hers", 1);
    let env = [("TOKEN".to_owned(), "s3cret".to_owned())].into();
    let argv = vec!["true".to_owned()];
    job.spec.as_mut().unwrap().work = Some(Work::Command(v1::Command { argv, env, ..Default::default() }));
    job
}

/// What an environment holds, and whether that is all of it.
fn env(spec: Option<&v1::JobSpec>) -> (String, bool) {
    let Some(Work::Command(command)) = spec.and_then(|spec| spec.work.as_ref()) else { panic!() };
    (command.env["TOKEN"].clone(), command.env_hidden)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_somebodys_is_changed_and_read_in_full_by_them_and_by_administrators() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let person = |name: &str, role| world.client(&Identity::user("default", name, [role]).unwrap());
    let (ann, bob) = (person("ann", Role::User), person("bob", Role::User));
    let (boss, eve) = (person("boss", Role::TenantAdmin), person("eve", Role::Viewer));
    let mut own = JobServiceClient::new(ann.clone());
    let made = own.create_job(create(secret())).await.unwrap().into_inner();
    assert_eq!(made.status.as_ref().unwrap().submitter.as_ref().unwrap().user, "ann");
    let (whole, hidden) = (("s3cret".to_owned(), false), (String::new(), true));
    assert_eq!(env(made.spec.as_ref()), whole);
    let get = v1::GetJobRequest { name: "hers".into(), ..Default::default() };
    for (client, seen) in [(&ann, &whole), (&boss, &whole), (&bob, &hidden), (&eve, &hidden)] {
        let mut client = JobServiceClient::new(client.clone());
        let got = client.get_job(get.clone()).await.unwrap().into_inner();
        assert_eq!(env(got.spec.as_ref()), *seen);
        let list = client.list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner();
        assert_eq!(env(list.jobs[0].spec.as_ref()), *seen);
        let mut events = client.watch_jobs(v1::WatchJobsRequest::default()).await.unwrap().into_inner();
        let event = events.message().await.unwrap().unwrap();
        assert_eq!(env(event.job.unwrap().spec.as_ref()), *seen);
    }
    let mut other = JobServiceClient::new(bob.clone());
    let cancel = v1::CancelJobRequest { name: "hers".into(), ..Default::default() };
    let denied = error(other.cancel_job(cancel.clone()).await);
    assert_eq!((denied.class, denied.reason.as_str()), (ErrorClass::Denied, "NOT_OWNER"));
    // What was read without its values is not submitted as if that were all.
    let mut copy = other.get_job(get).await.unwrap().into_inner();
    copy.metadata = Some(v1::Metadata { name: "copy".into(), ..Default::default() });
    copy.status = None;
    let refused = error(other.create_job(create(copy)).await);
    assert_eq!(refused.violations[0].field, "spec.command.envHidden");
    JobServiceClient::new(boss.clone()).cancel_job(cancel).await.unwrap();
    until(&ann, "hers", Phase::Cancelled).await;
    let delete = v1::DeleteJobRequest { name: "hers".into(), ..Default::default() };
    assert_eq!(error(other.delete_job(delete.clone()).await).reason, "NOT_OWNER");
    own.delete_job(delete).await.unwrap();
    drop((agent, own, other, ann, bob, boss, eve));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_its_owners_too() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let person = |name: &str| world.client(&Identity::user("default", name, [Role::User]).unwrap());
    let (ann, bob) = (person("ann"), person("bob"));
    let template = v1::JobTemplate { spec: secret().spec, ..Default::default() };
    let spec = v1::ScheduleSpec { cron: "@daily".into(), job_template: Some(template), ..Default::default() };
    let metadata = Some(v1::Metadata { name: "tick".into(), ..Default::default() });
    let schedule = v1::Schedule { metadata, spec: Some(spec), ..Default::default() };
    let apply = v1::ApplyScheduleRequest { schedule: Some(schedule), ..Default::default() };
    let (mut own, mut other) = (ScheduleServiceClient::new(ann), ScheduleServiceClient::new(bob));
    own.apply_schedule(apply.clone()).await.unwrap();
    assert_eq!(error(other.apply_schedule(apply).await).reason, "NOT_OWNER");
    let delete = v1::DeleteScheduleRequest { name: "tick".into(), ..Default::default() };
    assert_eq!(error(other.delete_schedule(delete).await).reason, "NOT_OWNER");
    let get = v1::GetScheduleRequest { name: "tick".into(), ..Default::default() };
    for (client, seen) in [(&mut own, ("s3cret".to_owned(), false)), (&mut other, (String::new(), true))] {
        let got = client.get_schedule(get.clone()).await.unwrap().into_inner();
        let template = got.spec.unwrap().job_template.unwrap();
        assert_eq!(env(template.spec.as_ref()), seen);
    }
    drop((agent, own, other));
    world.stop().await;
}
