//! Rails drained and brought back, by gRPC and by REST, with agents that obey.

use proto_rpc::ErrorClass;
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, rail_report::State, rail_service_client::RailServiceClient,
};
use serde_json::json;

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, error, job, until_it},
    rest::Rest,
    world::World,
};

fn drain(target: &str, force: bool) -> v1::DrainRailRequest {
    v1::DrainRailRequest { target: target.into(), reason: "upgrade".into(), force }
}

fn undrain(target: &str) -> v1::UndrainRailRequest {
    v1::UndrainRailRequest { target: target.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_moved_off_a_rail_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut agents = Vec::new();
    for node in ["n0", "n1"] {
        agents.push(FakeAgent::connect(world.node(node).await, node, Behaviour::Linger).await);
    }
    let admin = world.admin();
    let mut jobs = JobServiceClient::new(admin.clone());
    jobs.create_job(create(job("a", 2))).await.unwrap();
    until_it(&admin, "a", |job| job.status.as_ref().unwrap().start_time.is_some()).await;
    let mut rails = RailServiceClient::new(admin.clone());
    let done = rails.drain_rail(drain("1", false)).await.unwrap().into_inner();
    let kept = done.drain.unwrap();
    assert!(done.changed && kept.target == "rail/1" && kept.reason == "upgrade" && kept.by.contains("root"));
    // As `drain --wait` does.
    let list = |target: &str| v1::ListRailsRequest { target: target.into() };
    loop {
        let seen = rails.list_rails(list("1")).await.unwrap().into_inner();
        if seen.pending_total == 0 {
            let rail = &seen.rails[0];
            assert_eq!((seen.rails.len(), rail.nodes_drained, rail.jobs[0].job.as_str()), (1, 2, "a"));
            assert_eq!(rail.engines, [v1::RailStateCount { state: State::Drained.into(), engines: 2 }]);
            break;
        }
        assert!(seen.pending.iter().all(|one| one.job == "a" && !one.note.is_empty()));
    }
    assert!(agents.iter().all(|agent| *agent.drained.lock().unwrap() == [1]));
    assert!(!rails.drain_rail(drain("rail/1", false)).await.unwrap().into_inner().changed);
    // An agent that comes again is told in its Welcome.
    drop(agents.pop());
    agents.push(FakeAgent::connect(world.node("n2").await, "n2", Behaviour::Linger).await);
    assert_eq!(*agents[1].drained.lock().unwrap(), [1]);
    let request = v1::ExplainJobRequest { name: "a".into(), ..Default::default() };
    let reported = jobs.explain_job(request).await.unwrap().into_inner();
    assert!(reported.rails.iter().any(|node| node.node == "n0" && node.rails.len() == 4), "{reported:?}");
    assert!(reported.reasons.iter().any(|reason| reason.code == "RailDrained"), "{reported:?}");
    let back = rails.undrain_rail(undrain("1")).await.unwrap().into_inner();
    assert!(back.changed && back.remaining.is_empty());
    assert!(!rails.undrain_rail(undrain("1")).await.unwrap().into_inner().changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_drained_outlives_the_controller() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    RailServiceClient::new(world.admin()).drain_rail(drain("n0:2", false)).await.unwrap();
    drop(agent);
    world.stop().await;
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    assert_eq!(*agent.drained.lock().unwrap(), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_targets_and_last_rails_are_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agents = [
        FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await,
        FakeAgent::connect(world.node("n1").await, "n1", Behaviour::Linger).await,
    ];
    let mut rails = RailServiceClient::new(world.admin());
    for (target, class, words) in [
        ("", ErrorClass::Invalid, "target"),
        ("a\nb", ErrorClass::Invalid, "printable"),
        (&"x".repeat(600), ErrorClass::Invalid, "printable"),
        ("9", ErrorClass::NotFound, "rails are 0 to 3"),
        ("n2:1", ErrorClass::NotFound, "did you mean 'n0:1'?"),
    ] {
        let refused = error(rails.drain_rail(drain(target, true)).await);
        assert!(refused.class == class && refused.message.contains(words), "{target}: {refused:?}");
        let refused = error(rails.undrain_rail(undrain(target)).await);
        assert!(refused.class == class && refused.message.contains(words), "{target}: {refused:?}");
    }
    let mut narrow = job("narrow", 2);
    narrow.spec.as_mut().unwrap().rails = Some(v1::RailRequest { required: 1, ..v1::RailRequest::default() });
    let admin = world.admin();
    JobServiceClient::new(admin.clone()).create_job(create(narrow)).await.unwrap();
    until_it(&admin, "narrow", |job| job.status.as_ref().unwrap().start_time.is_some()).await;
    let refused = error(rails.drain_rail(drain("0", false)).await);
    assert!(refused.class == ErrorClass::Conflict && refused.reason == "LAST_RAIL", "{refused:?}");
    assert!(refused.message.contains("default/narrow"), "{refused:?}");
    assert!(rails.drain_rail(drain("0", true)).await.unwrap().into_inner().changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn rest_says_the_same_and_hides_other_tenants_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agents = [
        FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await,
        FakeAgent::connect(world.node("n1").await, "n1", Behaviour::Linger).await,
    ];
    let admin = world.admin();
    JobServiceClient::new(admin.clone()).create_job(create(job("a", 2))).await.unwrap();
    until_it(&admin, "a", |job| job.status.as_ref().unwrap().start_time.is_some()).await;
    let mut rest = Rest::new(admin);
    let body = json!({"target": "n1:3", "reason": "cable"}).to_string();
    let done = rest.call("POST", "/v1/rails:drain", &body).await;
    assert_eq!((done.status, &done.json["drain"]["target"]), (200, &json!("node/n1:3")), "{done:?}");
    let listed = rest.call("GET", "/v1/rails?target=n1:3", "").await;
    assert_eq!(listed.json["rails"][0]["jobs"][0]["job"], "a", "{listed:?}");
    world.tenant("other", 8).await;
    let mut stranger = Rest::new(world.user("other"));
    let seen = stranger.call("GET", "/v1/rails", "").await;
    let rail = &seen.json["rails"][3];
    assert_eq!((seen.status, &rail["jobsTotal"]), (200, &json!(1)), "{seen:?}");
    assert!(rail["jobs"].as_array().is_none_or(Vec::is_empty) && !seen.text.contains("\"a\""), "{seen:?}");
    let back = rest.call("POST", "/v1/rails:undrain", r#"{"target": "node/n1:3"}"#).await;
    assert_eq!((back.status, &back.json["changed"]), (200, &json!(true)));
}
