//! Switches join, report and are rolled out to, over gRPC: what they are told, what the status says, and whom nobody lets in.

use std::time::Duration;

use controller_switch::change::OWNED;
use proto_rpc::{Client, ErrorClass, Identity};
use proto_wire::v1::{
    self, control_switch_rollout_request::Action, desired_switch::Phase,
    switch_agent_service_client::SwitchAgentServiceClient, switch_progress::State,
    switch_rollout::State as Rollout, switch_service_client::SwitchServiceClient,
    switch_status::Configuration,
};

use crate::{
    jobs::error,
    switches::{apply, sonic, with_fabric},
    world::World,
};

/// The digest of files as the schema has it, by another way than the product's.
fn digest(files: &[v1::SwitchFile]) -> String {
    let mut parts: Vec<(&str, &str)> = files.iter().map(|file| (&*file.name, &*file.content)).collect();
    parts.sort_unstable();
    let text: String = parts.iter().map(|(name, content)| format!("{name}\0{content}\0")).collect();
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A switch with its agent.
struct Agent {
    client: SwitchAgentServiceClient<Client>,
    files: Vec<v1::SwitchFile>,
    progress: v1::SwitchProgress,
    desired: Option<v1::DesiredSwitch>,
    sessions: Vec<v1::SwitchSession>,
}

impl Agent {
    fn new(world: &World, name: &str, files: Vec<v1::SwitchFile>) -> Self {
        let client = SwitchAgentServiceClient::new(world.client(&Identity::switch(name).unwrap()));
        let (progress, sessions) = (v1::SwitchProgress::default(), Vec::new());
        Self { client, files, progress, desired: None, sessions }
    }

    async fn report(&mut self, with_files: bool) -> v1::ReportSwitchResponse {
        let request = v1::ReportSwitchRequest {
            agent_version: "0.3.0".into(),
            nos_version: "202505".into(),
            digest: digest(&self.files),
            files: if with_files { self.files.clone() } else { Vec::new() },
            progress: Some(self.progress.clone()),
            ports: vec![v1::SwitchPortStatus {
                name: "Ethernet0".into(),
                up: true,
                neighbor: "elsewhere".into(),
                ..Default::default()
            }],
            sessions: Some(v1::SwitchSessions { sessions: self.sessions.clone() }),
            ..Default::default()
        };
        self.client.report_switch(request).await.unwrap().into_inner()
    }

    /// Says how it is, and does what it reads.
    async fn turn(&mut self) {
        let mut answer = self.report(false).await;
        if answer.send_files {
            answer = self.report(true).await;
        }
        let Some(desired) = answer.desired else { return };
        let state = match desired.phase() {
            Phase::Trial => {
                assert_eq!(desired.owned_tables, OWNED);
                self.files.clone_from(&desired.files);
                State::Trial
            }
            Phase::Keep => State::Kept,
            _ => State::Held,
        };
        self.progress = v1::SwitchProgress {
            state: state.into(),
            generation: desired.generation,
            message: String::new(),
            observed_number: desired.number,
        };
        self.desired = Some(desired);
    }
}

async fn switch(admins: &mut SwitchServiceClient<Client>, name: &str) -> v1::SwitchStatus {
    let request = v1::GetSwitchRequest { name: name.into() };
    admins.get_switch(request).await.unwrap().into_inner().status.unwrap()
}

fn order() -> v1::RollOutSwitchesRequest {
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    v1::RollOutSwitchesRequest {
        canary: "leaf0".into(),
        confirm_within: seconds(10),
        soak: Some(prost_types::Duration { seconds: 0, nanos: 1_000_000 }),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_joins_once_and_a_deleted_one_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut admins = SwitchServiceClient::new(world.admin());
    let token = |name: &str| v1::CreateSwitchTokenRequest { name: name.into(), lifetime: None };
    let unknown = error(admins.create_switch_token(token("leaf0")).await);
    assert_eq!((unknown.class, unknown.reason.as_str()), (ErrorClass::NotFound, "SWITCH_UNKNOWN"));
    admins.apply_switch(apply("leaf0", sonic())).await.unwrap();
    let made = admins.create_switch_token(token("leaf0")).await.unwrap().into_inner();
    let mut nobody = SwitchAgentServiceClient::new(world.client(&Identity::Anonymous));
    let join = |name: &str, csr: &str| v1::JoinSwitchRequest {
        token: made.token.clone(),
        name: name.into(),
        csr_pem: csr.into(),
    };
    let csr = proto_rpc::ca::KeyRequest::generate().unwrap().csr_pem;
    assert_eq!(error(nobody.join_switch(join("leaf1", &csr)).await).reason, "TOKEN_FOR_OTHER_NODE");
    let joined = nobody.join_switch(join("leaf0", &csr)).await.unwrap().into_inner();
    assert!(joined.certificate_pem.contains("BEGIN CERTIFICATE") && joined.expires.is_some());
    let other = proto_rpc::ca::KeyRequest::generate().unwrap().csr_pem;
    assert_eq!(error(nobody.join_switch(join("leaf0", &other)).await).reason, "TOKEN_USED");
    // A server is no switch, and a switch no server.
    let mut server = SwitchAgentServiceClient::new(world.node("n0").await);
    let report = v1::ReportSwitchRequest::default();
    assert_eq!(error(server.report_switch(report.clone()).await).class, ErrorClass::Denied);
    let mut agent = SwitchAgentServiceClient::new(world.client(&Identity::switch("leaf0").unwrap()));
    let answer = agent.report_switch(report.clone()).await.unwrap().into_inner();
    assert!(answer.desired.is_none() && answer.interval.unwrap().seconds == 1);
    let renew = v1::RenewSwitchCertificateRequest { csr_pem: csr };
    agent.renew_switch_certificate(renew.clone()).await.unwrap();
    admins.delete_switch(v1::DeleteSwitchRequest { name: "leaf0".into() }).await.unwrap();
    assert_eq!(error(agent.report_switch(report).await).reason, "SWITCH_UNKNOWN");
    assert_eq!(error(agent.renew_switch_certificate(renew).await).reason, "SWITCH_UNKNOWN");
    drop((admins, nobody, server, agent));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rolled_out_is_tried_read_back_and_kept_and_drift_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    drop(with_fabric(&world).await);
    let mut admins = SwitchServiceClient::new(world.admin());
    let anywhere = v1::RollOutSwitchesRequest { canary: String::new(), ..order() };
    let nothing = error(admins.roll_out_switches(anywhere).await);
    assert_eq!(nothing.reason, "NO_SWITCHES");
    for leaf in ["leaf0", "leaf1"] {
        admins.apply_switch(apply(leaf, sonic())).await.unwrap();
    }
    // Each has what a switch has of its own, and nothing of ours.
    let own = r#"{"MGMT_INTERFACE": {"eth0|192.0.2.7/24": {"gwaddr": "192.0.2.1"}}}"#;
    let file = |name: &str, content: &str| v1::SwitchFile { name: name.into(), content: content.into() };
    let bare = vec![file("config_db.json", own), file("frr.conf", "frr defaults datacenter\n")];
    let mut leaves = [Agent::new(&world, "leaf0", bare.clone()), Agent::new(&world, "leaf1", bare)];
    for leaf in &mut leaves {
        leaf.turn().await;
    }
    let status = switch(&mut admins, "leaf0").await;
    assert!(status.connected && status.nos_version == "202505" && status.ports.len() == 1);
    assert_eq!(status.configuration(), Configuration::Pending);
    let reasons: Vec<(&str, &str)> =
        status.reasons.iter().map(|one| (one.code.as_str(), one.scope.as_str())).collect();
    assert_eq!(reasons, [("SwitchMiscabled", "switch/leaf0/Ethernet0")]);
    assert!(status.differences_total > 50 && status.differences.len() == 32);
    // The plan says what would change, and nothing begins.
    let plan = admins.plan_switches(order()).await.unwrap().into_inner();
    assert_eq!((plan.switches_total, plan.canary.as_str(), plan.unchanged), (2, "leaf0", false));
    assert!(plan.switches.iter().all(|step| step.changes_total > 50 && !step.changes.is_empty()));
    let idle = admins.get_switch_rollout(v1::GetSwitchRolloutRequest {}).await.unwrap().into_inner();
    assert_eq!(idle.generation, 0);
    let begun = admins.roll_out_switches(order()).await.unwrap().into_inner();
    assert_eq!((begun.generation, begun.state()), (1, Rollout::UnderWay));
    let mut seen = begun;
    for _ in 0..200 {
        for leaf in &mut leaves {
            leaf.turn().await;
        }
        seen = admins.get_switch_rollout(v1::GetSwitchRolloutRequest {}).await.unwrap().into_inner();
        if seen.state() != Rollout::UnderWay {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(seen.state(), Rollout::Done, "{seen:?}");
    assert!(leaves.iter().all(|leaf| leaf.desired.as_ref().unwrap().phase() == Phase::Keep));
    assert_eq!(switch(&mut admins, "leaf1").await.configuration(), Configuration::InSync);
    assert!(admins.plan_switches(order()).await.unwrap().into_inner().unchanged);
    // By hand: one setting.
    let config = &mut leaves[1].files.iter_mut().find(|file| file.name == "config_db.json").unwrap().content;
    *config = config.replace("\"pfc_enable\": \"3\"", "\"pfc_enable\": \"3,4\"");
    leaves[1].turn().await;
    let drifted = switch(&mut admins, "leaf1").await;
    assert_eq!(drifted.configuration(), Configuration::Drifted);
    assert!(drifted.differences.iter().all(|one| one.path.ends_with("pfc_enable") && one.found == "3,4"));
    let control = v1::ControlSwitchRolloutRequest { action: Action::Cancel.into(), reason: String::new() };
    assert_eq!(error(admins.control_switch_rollout(control).await).reason, "SWITCH_ROLLOUT_DONE");
    drop((admins, leaves));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_has_a_switch_load_its_whole_database_is_given_the_time_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    drop(with_fabric(&world).await);
    let mut admins = SwitchServiceClient::new(world.admin());
    admins.apply_switch(apply("leaf0", sonic())).await.unwrap();
    let file = |name: &str, content: &str| v1::SwitchFile { name: name.into(), content: content.into() };
    let bare = vec![file("config_db.json", "{}"), file("frr.conf", "frr defaults datacenter\n")];
    let mut leaf = Agent::new(&world, "leaf0", bare);
    leaf.turn().await;
    let unsaid = || v1::RollOutSwitchesRequest { confirm_within: None, ..order() };
    let worst = |plan: &v1::SwitchPlan| plan.switches[0].impact();
    // Pools of buffer are nothing that SONiC's updater changes.
    let plan = admins.plan_switches(unsaid()).await.unwrap().into_inner();
    assert_eq!(worst(&plan), v1::switch_plan_step::Impact::Reboot, "{plan:?}");
    let begun = admins.roll_out_switches(unsaid()).await.unwrap().into_inner();
    assert_eq!(begun.confirm_within.unwrap().seconds, 300);
    // Where the pools are there already, a minute is enough.
    while leaf.desired.as_ref().is_none_or(|desired| desired.phase() != Phase::Trial) {
        leaf.turn().await;
    }
    let config = &mut leaf.files.iter_mut().find(|file| file.name == "config_db.json").unwrap().content;
    *config = config.replace("\"pfc_enable\": \"3\"", "\"pfc_enable\": \"3,4\"");
    leaf.turn().await;
    let plan = admins.plan_switches(unsaid()).await.unwrap().into_inner();
    assert_eq!(worst(&plan), v1::switch_plan_step::Impact::LinkFlap, "{plan:?}");
    let cancel = v1::ControlSwitchRolloutRequest { action: Action::Cancel.into(), reason: String::new() };
    admins.control_switch_rollout(cancel).await.unwrap();
    let begun = admins.roll_out_switches(unsaid()).await.unwrap().into_inner();
    assert_eq!((begun.generation, begun.confirm_within.unwrap().seconds), (2, 60));
    drop((admins, leaf));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_a_switch_that_it_reaches_by_gnmi_has_nothing_to_do_with_routing() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    drop(with_fabric(&world).await);
    let mut admins = SwitchServiceClient::new(world.admin());
    let management =
        Some(v1::SwitchManagement { endpoint: "leaf0.mgmt:8080".into(), credential: "leaves".into() });
    admins.apply_switch(apply("leaf0", v1::SwitchSpec { management, ..sonic() })).await.unwrap();
    // What is rendered has routing all the same: somebody is to put it in place.
    let rendered =
        admins.render_switch(v1::RenderSwitchRequest { name: "leaf0".into() }).await.unwrap().into_inner();
    let names: Vec<&str> = rendered.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["config_db.json", "frr.conf"]);
    let bare = vec![v1::SwitchFile { name: "config_db.json".into(), content: "{}".into() }];
    let mut leaf = Agent::new(&world, "leaf0", bare);
    leaf.turn().await;
    let status = switch(&mut admins, "leaf0").await;
    assert!(status.differences.iter().all(|one| one.file == "config_db.json"), "{status:?}");
    admins.roll_out_switches(order()).await.unwrap();
    for _ in 0..200 {
        leaf.turn().await;
        if leaf.desired.as_ref().is_some_and(|desired| desired.phase() == Phase::Keep) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let desired = leaf.desired.clone().unwrap();
    assert_eq!((desired.phase(), leaf.files.len()), (Phase::Keep, 1));
    assert_eq!(leaf.files[0].name, "config_db.json");
    leaf.turn().await;
    assert_eq!(switch(&mut admins, "leaf0").await.configuration(), Configuration::InSync);
    drop((admins, leaf));
    world.stop().await;
}
