//! A node that speaks of others, over a real stream: refused, quarantined with the evidence, and nobody else pays.

use std::time::Duration;

use proto_rpc::Client;
use proto_wire::v1::{
    self, agent_message::Body, job_service_client::JobServiceClient, node_service_client::NodeServiceClient,
    observation::State,
};

use crate::{
    agent::{Behaviour, FakeAgent, inventory},
    jobs::{create, job, until_it},
    world::World,
};

async fn node(admin: &Client, name: &str) -> v1::NodeStatus {
    let request = v1::GetNodeRequest { name: name.to_owned() };
    let node = NodeServiceClient::new(admin.clone()).get_node(request).await.unwrap().into_inner();
    node.status.unwrap()
}

async fn evidence(admin: &Client, name: &str) -> Vec<v1::Reason> {
    for _ in 0..200 {
        let status = node(admin, name).await;
        if !status.quarantine.is_empty() {
            assert!(status.quarantined.is_some_and(|reason| reason.code == "Quarantined"));
            return status.quarantine;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} is not quarantined");
}

async fn is_clean(admin: &Client, name: &str) {
    let status = node(admin, name).await;
    assert!(
        status.quarantine.is_empty() && status.quarantined.is_none() && status.strikes.is_empty(),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_speaks_of_another_is_quarantined_and_the_other_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut agents = Vec::new();
    for name in ["n0", "n1"] {
        agents.push(FakeAgent::connect(world.node(name).await, name, Behaviour::Linger).await);
    }
    let admin = world.admin();
    JobServiceClient::new(admin.clone()).create_job(create(job("a", 2))).await.unwrap();
    let found = until_it(&admin, "a", |job| job.status.as_ref().unwrap().start_time.is_some()).await;
    let status = found.status.unwrap();
    let cause = v1::Reason {
        code: "NodeLost".into(),
        message: "n0 is dead".into(),
        scope: "node/n0".into(),
        ..v1::Reason::default()
    };
    let lie = v1::Observation {
        job_uid: found.metadata.unwrap().uid,
        attempt: status.attempt,
        state: State::Running.into(),
        cause: Some(cause),
        ..v1::Observation::default()
    };
    agents[1].say(Body::Observation(lie)).await;
    let reported = evidence(&admin, "n1").await;
    assert!(
        reported[0].code == "ControllerCauseClaimed" && reported[0].message.contains("node/n0"),
        "{reported:?}"
    );
    is_clean(&admin, "n0").await;
    assert!(world.metric("rail_node_claims_refused_total{verdict=\"quarantined\"") >= 1.0);
    // Until an administrator takes it back.
    let request = v1::ReturnNodeRequest { name: "n1".into() };
    let node = NodeServiceClient::new(admin.clone()).return_node(request).await.unwrap().into_inner();
    let status = node.status.unwrap();
    assert!(status.quarantine.is_empty() && status.quarantined.is_none());
    drop(agents);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_that_never_was_and_hardware_of_another_are_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut agents = Vec::new();
    for name in ["n0", "n1", "n2"] {
        agents.push(FakeAgent::connect(world.node(name).await, name, Behaviour::Linger).await);
    }
    let admin = world.admin();
    // The leader asks its store, leads on, and holds the word against who said it.
    let newer = v1::StaleEpoch { refused: 1, current: u64::MAX };
    agents[1].say(Body::StaleEpoch(newer)).await;
    let reported = evidence(&admin, "n1").await;
    assert_eq!(reported[0].code, "EpochClaimed");
    let at = |host: u32| {
        let mut inventory = inventory(4, 4);
        for nic in &mut inventory.nics {
            nic.address = format!("10.{}.0.{host}", nic.rail);
        }
        inventory
    };
    agents[0].say(Body::Inventory(at(5))).await;
    while node(&admin, "n0").await.inventory.unwrap().nics[0].address != "10.0.0.5" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    agents[2].say(Body::Inventory(at(5))).await;
    let reported = evidence(&admin, "n2").await;
    assert!(reported[0].code == "HardwareClaimed" && reported[0].message.contains("'n0'"), "{reported:?}");
    is_clean(&admin, "n0").await;
    drop(agents);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn absurd_hardware_ends_the_stream_with_the_field() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut absurd = inventory(4, 4);
    absurd.nics[0].speed_mbps = u64::MAX;
    let register = v1::Register { node: "n0".into(), inventory: Some(absurd), ..v1::Register::default() };
    let first = v1::AgentMessage { body: Some(Body::Register(register)) };
    let client = world.node("n0").await;
    let mut agents = v1::agent_service_client::AgentServiceClient::new(client.without_timeout());
    let refused = agents.connect(tokio_stream::iter([first])).await.unwrap_err();
    assert!(refused.message().contains("speedMbps"), "{refused}");
    world.stop().await;
}
