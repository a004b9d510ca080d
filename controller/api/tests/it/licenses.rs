//! Licenses over gRPC and REST: what there is and what is used, what is refused of a job, and why one waits.

use proto_rpc::{ErrorClass, Identity, Role};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, job_status::Phase,
    license_service_client::LicenseServiceClient,
};
use serde_json::json;

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, error, job, until},
    rest::Rest,
    world::World,
};

fn license(name: &str, total: Option<u32>) -> v1::ApplyLicenseRequest {
    let metadata = Some(v1::Metadata { name: name.to_owned(), ..Default::default() });
    let spec = Some(v1::LicenseSpec { total, ..Default::default() });
    let license = Some(v1::License { metadata, spec, ..Default::default() });
    v1::ApplyLicenseRequest { license, dry_run: false }
}

/// A job of one server that asks for some.
fn asking(name: &str, licenses: &[(&str, u32)]) -> v1::CreateJobRequest {
    let mut job = job(name, 1);
    let spec = job.spec.as_mut().unwrap();
    spec.licenses = licenses.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    create(job)
}

fn get(name: &str) -> v1::GetLicenseRequest {
    v1::GetLicenseRequest { name: name.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_license_is_seen_with_what_is_used_and_who_waits_is_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.tenant("red", 8).await;
    let agents = [
        FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await,
        FakeAgent::connect(world.node("n1").await, "n1", Behaviour::Linger).await,
    ];
    let mut admins = LicenseServiceClient::new(world.admin());
    let made = admins.apply_license(license("matlab", Some(4))).await.unwrap().into_inner();
    assert!(made.metadata.as_ref().unwrap().resource_version > 0 && !made.metadata.unwrap().uid.is_empty());
    let ann = world.user("default");
    let mut own = JobServiceClient::new(ann.clone());
    own.create_job(asking("a", &[("matlab", 3)])).await.unwrap();
    until(&ann, "a", Phase::Running).await;
    own.create_job(asking("b", &[("matlab", 2)])).await.unwrap();
    let explain = v1::ExplainJobRequest { name: "b".into(), ..Default::default() };
    let why = own.explain_job(explain).await.unwrap().into_inner();
    let reason = why.reasons.iter().find(|reason| reason.code == "License").unwrap();
    assert_eq!(reason.message, "license matlab: 3 of 4 in use, the job asks for 2");
    // People of all tenants see how many there are and are used.
    let red = world.client(&Identity::user("red", "eve", [Role::Viewer]).unwrap());
    let mut theirs = LicenseServiceClient::new(red);
    let list = theirs.list_licenses(v1::ListLicensesRequest::default()).await.unwrap().into_inner();
    let status = list.licenses[0].status.unwrap();
    assert_eq!((list.licenses.len(), status.in_use), (1, 3));
    assert_eq!((status.jobs_running, status.jobs_waiting), (1, 1));
    assert_eq!(error(theirs.apply_license(license("x", Some(1))).await).class, ErrorClass::Denied);
    let busy = v1::DeleteLicenseRequest { name: "matlab".into() };
    assert_eq!(error(admins.delete_license(busy).await).reason, "LICENSE_BUSY");
    // More of them let it start.
    admins.apply_license(license("matlab", Some(5))).await.unwrap();
    until(&ann, "b", Phase::Running).await;
    let used = theirs.get_license(get("matlab")).await.unwrap().into_inner().status.unwrap();
    assert_eq!((used.in_use, used.jobs_running, used.jobs_waiting), (5, 2, 0));
    drop((agents, own, theirs, admins, ann));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_value_is_named_by_its_field() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let mut admins = LicenseServiceClient::new(world.admin());
    for (wrong, field) in [
        (license("Mat_lab", Some(1)), "metadata.name"),
        (license("matlab", None), "spec.total"),
        (license("matlab", Some(u32::MAX)), "spec.total"),
    ] {
        let refused = error(admins.apply_license(wrong).await);
        assert_eq!((refused.class, refused.violations[0].field.as_str()), (ErrorClass::Invalid, field));
    }
    assert_eq!(error(admins.get_license(get("matlab")).await).reason, "LICENSE_NOT_FOUND");
    admins.apply_license(license("matlab", Some(4))).await.unwrap();
    let ann = world.user("default");
    let mut own = JobServiceClient::new(ann.clone());
    let unknown = error(own.create_job(asking("a", &[("matlba", 1)])).await);
    assert_eq!((unknown.class, unknown.reason.as_str()), (ErrorClass::NotFound, "LICENSE_NOT_FOUND"));
    assert!(unknown.message.ends_with("did you mean 'matlab'?"), "{}", unknown.message);
    for (licenses, class, field) in [
        (&[("matlab", 5)][..], ErrorClass::Infeasible, "spec.licenses.matlab"),
        (&[("matlab", 0)], ErrorClass::Invalid, "spec.licenses.matlab"),
        (&[("a b", 1)], ErrorClass::Invalid, "spec.licenses.a b"),
    ] {
        let refused = error(own.create_job(asking("a", licenses)).await);
        assert_eq!((refused.class, refused.violations[0].field.as_str()), (class, field), "{refused:?}");
    }
    // REST says the same.
    let mut rest = Rest::new(world.admin());
    let document = json!({"kind": "License", "metadata": {"name": "scratch"}, "spec": {"total": 40}});
    let made = rest.call("POST", "/v1/licenses", &document.to_string()).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let all = rest.call("GET", "/v1/licenses", "").await.json;
    assert_eq!(
        (&all["licenses"][0]["spec"]["total"], &all["licenses"][1]["spec"]["total"]),
        (&json!(4), &json!(40))
    );
    assert_eq!(rest.call("DELETE", "/v1/licenses/scratch", "").await.status, 200);
    assert_eq!(rest.call("GET", "/v1/licenses/scratch", "").await.status, 404);
    drop((agent, own, admins, ann));
    world.stop().await;
}
