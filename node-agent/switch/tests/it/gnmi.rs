//! The program beside a switch that it does not run on.

use std::{fs, time::Duration};

use node_agent_gnmi_server::{Fault, Switch};
use proto_wire::{
    convert::duration_to_wire,
    v1::{DesiredSwitch, SwitchFile, desired_switch::Phase, switch_progress::State},
};
use serde_json::{Value, json};

use crate::{
    agent::{LONG, is},
    controller::Controller,
    machine::Machine,
};

async fn switch() -> Switch {
    let switch = Switch::start(before(), "127.0.0.1").await;
    switch.answer("OTHERS/osversion/build", json!({"build_version": "SONiC.202505.1"}));
    for map in ["PORT", "QUEUE"] {
        switch.answer(
            &format!("COUNTERS_DB/localhost/COUNTERS_{map}_NAME_MAP"),
            json!({"Ethernet0": "oid:0x1"}),
        );
    }
    switch.answer("APPL_DB/PORT_TABLE", json!({"Ethernet0": {"oper_status": "up", "speed": "400000"}}));
    switch.answer("APPL_DB/LLDP_ENTRY_TABLE", json!({"Ethernet0": {"lldp_rem_sys_name": "n0"}}));
    switch
        .answer("COUNTERS_DB/COUNTERS/Ethernet*", json!({"Ethernet0": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "5"}}));
    switch.answer("COUNTERS_DB/COUNTERS/Ethernet*/Queues", json!({}));
    switch
}

fn before() -> Value {
    json!({"DEVICE_METADATA": {"localhost": {"platform": "x86"}}, "QUEUE": {"Ethernet0|3": {"scheduler": "a"}}})
}

fn after() -> Value {
    json!({"DEVICE_METADATA": {"localhost": {"platform": "x86", "hostname": "r0-leaf1"}}, "SCHEDULER": {"b": {"type": "DWRR"}}})
}

fn desired(number: u64, phase: Phase, database: &str) -> DesiredSwitch {
    let file = SwitchFile { name: "config_db.json".into(), content: database.into() };
    DesiredSwitch {
        generation: 1,
        phase: phase.into(),
        files: if phase == Phase::Hold { Vec::new() } else { vec![file] },
        confirm_within: Some(duration_to_wire(LONG)),
        number,
        owned_tables: vec!["QUEUE".into(), "SCHEDULER".into()],
    }
}

const WANTED: &str =
    r#"{"DEVICE_METADATA": {"localhost": {"hostname": "r0-leaf1"}}, "SCHEDULER": {"b": {"type": "DWRR"}}}"#;

fn ask(controller: &Controller, number: u64, phase: Phase) {
    controller.answer(|answer| answer.desired = Some(desired(number, phase, WANTED)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_elsewhere_is_read_tried_and_kept() {
    let (controller, switch) = (Controller::start().await, switch().await);
    let mut machine = Machine::beside(&switch);
    machine.start(&controller);
    controller.answer(|answer| answer.send_files = true);
    let first = controller.report("its files", |report| report.files.len() == 1).await;
    assert_eq!(serde_json::from_str::<Value>(&first.files[0].content).unwrap(), before());
    assert_eq!((first.nos_version.as_str(), first.unreadable.as_str()), ("SONiC 202505.1", ""));
    assert!(first.sessions.is_none());
    let [port] = &first.ports[..] else { panic!("{:?}", first.ports) };
    assert_eq!((port.up, port.speed_mbps, port.neighbor.as_str()), (true, 400_000, "n0"));
    assert_eq!((port.priorities[0].priority, port.priorities[0].pause_rx), (3, 5));

    ask(&controller, 1, Phase::Trial);
    controller.report("a trial", is(State::Trial, 0)).await;
    assert_eq!(switch.config(), after());
    ask(&controller, 2, Phase::Hold);
    controller.report("held", is(State::Held, 2)).await;
    assert_eq!(switch.config(), before());
    ask(&controller, 3, Phase::Trial);
    controller.report("a trial again", is(State::Trial, 2)).await;
    ask(&controller, 4, Phase::Keep);
    controller.report("kept", is(State::Kept, 4)).await;
    assert_eq!(switch.config(), after());

    // What its server has no way to is refused before anything is changed.
    let changes = switch.changes();
    let mut routing = desired(5, Phase::Trial, WANTED);
    routing.files.push(SwitchFile { name: "frr.conf".into(), content: "router bgp 1\n".into() });
    controller.answer(|answer| answer.desired = Some(routing));
    let failed = controller.report("failed", is(State::Failed, 5)).await.progress.unwrap();
    assert!(failed.message.contains("`management`"), "{}", failed.message);
    let pool = r#"{"BUFFER_POOL": {"in": {"size": "2"}}}"#;
    controller.answer(|answer| answer.desired = Some(desired(6, Phase::Trial, pool)));
    let failed = controller.report("failed", is(State::Failed, 6)).await.progress.unwrap();
    assert!(failed.message.contains("config reload"), "{}", failed.message);
    assert_eq!((switch.config(), switch.changes()), (after(), changes));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_an_agent_left_behind_is_taken_back_by_its_successor() {
    let (controller, switch) = (Controller::start().await, switch().await);
    let mut machine = Machine::beside(&switch);
    machine.start(&controller);
    controller.report("a report", |report| !report.digest.is_empty()).await;
    switch.break_by(Fault::Slow(Duration::from_secs(3)));
    ask(&controller, 1, Phase::Trial);
    // The change is under way there when the agent is killed, and is made while its successor looks.
    machine.until("the trial is saved", || {
        fs::read_dir(machine.at("state")).unwrap().count().gt(&1).then_some(())
    });
    machine.until("the change is under way", || switch.state.changing.try_lock().is_err().then_some(()));
    machine.kill();
    switch.break_by(Fault::None);
    machine.start(&controller);
    let failed = controller.report("failed", is(State::Failed, 1)).await;
    assert_eq!((switch.config(), switch.changes() >= 2), (before(), true), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_switch_is_told_and_nothing_is_believed() {
    let (controller, switch) = (Controller::start().await, switch().await);
    let mut machine = Machine::beside(&switch);
    machine.start(&controller);
    controller.report("a report", |report| !report.digest.is_empty()).await;
    switch.break_by(Fault::ReadOnly);
    ask(&controller, 1, Phase::Trial);
    let failed = controller.report("failed", is(State::Failed, 1)).await.progress.unwrap();
    assert!(failed.message.contains("takes no changes by gNMI"), "{}", failed.message);
    switch.break_by(Fault::Invalid);
    ask(&controller, 2, Phase::Trial);
    let failed = controller.report("failed", is(State::Failed, 2)).await.progress.unwrap();
    assert!(failed.message.contains("9 is no priority"), "{}", failed.message);
    assert_eq!(switch.config(), before());
    // Half of it is made: what is there is taken back as soon as the switch makes changes again.
    switch.break_by(Fault::Half);
    ask(&controller, 3, Phase::Trial);
    machine.until("half of it", || (switch.config() != before()).then_some(()));
    switch.break_by(Fault::None);
    let failed = controller.report("failed", is(State::Failed, 3)).await.progress.unwrap();
    assert!(failed.message.contains("the updater has stopped"), "{}", failed.message);
    assert_eq!(switch.config(), before());
    // The change is made and its answer is lost: it is read back, and is a trial.
    switch.break_by(Fault::AnswerLostOnce);
    ask(&controller, 4, Phase::Trial);
    controller.report("a trial", is(State::Trial, 3)).await;
    assert_eq!(switch.config(), after());
    ask(&controller, 5, Phase::Keep);
    controller.report("kept", is(State::Kept, 5)).await;

    switch.break_by(Fault::HalfJson);
    let read = machine.read();
    let said: Value = serde_json::from_slice(&read.stdout).unwrap();
    assert!(read.status.success() && said["files"] == json!({}), "{said}");
    assert!(said["unreadable"].as_str().unwrap().contains("cannot be read"), "{said}");
    assert_eq!(said["ports"], json!([]));
    fs::remove_file(machine.at("gnmi/client.key")).unwrap();
    let read = machine.read();
    let said = String::from_utf8_lossy(&read.stderr).into_owned();
    assert!(read.status.code() == Some(2) && said.contains("the key"), "{said}");
}
