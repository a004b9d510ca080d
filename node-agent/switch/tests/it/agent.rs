//! Joining, reporting, trials: kept, taken back, and taken back by the successor of an agent that was killed.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use proto_wire::{
    convert::duration_to_wire,
    v1::{
        DesiredSwitch, ReportSwitchRequest, SwitchFile, desired_switch::Phase, switch_progress::State,
        switch_session::State as Session,
    },
};

use crate::{
    controller::{Controller, SWITCH},
    machine::{DATABASE, Machine, NEW, OLD},
};

/// A trial that no test waits for the end of.
pub const LONG: Duration = Duration::from_secs(600);
/// One whose end a test waits for.
const SHORT: Duration = Duration::from_secs(2);
/// One within which an agent that has begun it is killed.
const OUTLIVING: Duration = Duration::from_secs(10);

pub fn is(state: State, number: u64) -> impl Fn(&ReportSwitchRequest) -> bool {
    move |report| {
        let progress = report.progress.clone().unwrap_or_default();
        progress.state() == state && progress.observed_number == number
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_joins_reports_and_keeps_what_was_tried() {
    let controller = Controller::start().await;
    let mut machine = Machine::new();
    machine.start(&controller);
    let first = controller.report("a report", |report| !report.digest.is_empty()).await;
    assert_eq!(first.nos_version, "Test, FRR 8.4.4");
    assert!(first.files.is_empty() && first.unreadable.is_empty(), "{first:?}");
    assert_eq!(
        (first.ports[0].name.as_str(), first.ports[0].up, first.ports[0].rx_bytes),
        ("swp1", true, 77)
    );
    let session = |report: &ReportSwitchRequest| {
        let one = &report.sessions.as_ref().unwrap().sessions[0];
        (one.neighbor.clone(), one.state(), one.before_trial)
    };
    assert_eq!(session(&first), ("swp1".to_owned(), Session::Established, false));
    controller.answer(|answer| answer.send_files = true);
    let with = controller.report("its files", |report| !report.files.is_empty()).await;
    assert_eq!(with.files, [SwitchFile { name: "frr.conf".into(), content: OLD.into() }]);
    assert_eq!((with.digest, with.epoch), (first.digest.clone(), 5));
    controller.answer(|answer| answer.send_files = false);

    controller.desire(1, Phase::Trial, NEW, LONG);
    let trial = controller.report("a trial", is(State::Trial, 0)).await;
    let new = controller.report("what is tried", |report| report.digest != first.digest).await.digest;
    assert_eq!((machine.text("running"), machine.text("startup")), (NEW.to_owned(), OLD.to_owned()));
    assert_eq!(session(&trial), ("swp1".to_owned(), Session::Established, true));
    fs::write(machine.at("sessions"), "{}").unwrap();
    let lost = |report: &ReportSwitchRequest| session(report).1 == Session::Unspecified;
    assert!(session(&controller.report("a session less", lost).await).2);
    fs::write(machine.at("sessions"), "none").unwrap();
    controller.report("no word of sessions", |report| report.sessions.is_none()).await;
    assert_eq!(trial.progress.unwrap().generation, 1);
    // Another controller, whose lead is over, is not obeyed.
    controller.desire(2, Phase::Hold, "", LONG);
    controller.answer(|answer| answer.epoch = 4);
    for _ in 0..3 {
        controller.report("still a trial", is(State::Trial, 0)).await;
    }
    controller.answer(|answer| answer.epoch = 6);
    controller.desire(3, Phase::Keep, NEW, LONG);
    let kept = controller.report("kept", is(State::Kept, 3)).await;
    assert_eq!((kept.digest, kept.epoch, machine.text("startup")), (new, 6, NEW.to_owned()));

    for name in ["switch.key", "switch.pem", "ca.pem"] {
        let path = machine.at("state/identity").join(name);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert!(machine.terminate().success());
    // The token was good once; the certificate is good for longer.
    machine.start(&controller);
    controller.report("kept still", is(State::Kept, 3)).await;
    assert_eq!(machine.text("running"), NEW);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_is_taken_back_while_the_controller_is_away() {
    let mut controller = Controller::start().await;
    let mut machine = Machine::new();
    machine.start(&controller);
    controller.desire(1, Phase::Trial, NEW, SHORT);
    // What is put in place may be gone again before it is looked at.
    machine.until("the trial begins", || machine.text("put").contains(NEW).then_some(()));
    controller.die().await;
    machine.until_running(OLD);
    controller.serve().await;
    let failed = controller.report("failed", is(State::Failed, 1)).await.progress.unwrap();
    assert!(failed.message.contains("not confirmed within 2 s"), "{}", failed.message);
    // What is held is left alone; so is what is asked to end.
    controller.desire(2, Phase::Trial, NEW, LONG);
    controller.report("another trial", is(State::Trial, 1)).await;
    controller.desire(3, Phase::Hold, "", LONG);
    controller.report("held", is(State::Held, 3)).await;
    machine.until_running(OLD);
    controller.desire(4, Phase::Trial, NEW, LONG);
    controller.report("a third trial", is(State::Trial, 3)).await;
    assert!(machine.terminate().success());
    assert_eq!((machine.text("running"), machine.text("startup")), (OLD.to_owned(), OLD.to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_killed_leaves_a_trial_to_its_successor() {
    let mut controller = Controller::start().await;
    let mut machine = Machine::new();
    machine.start(&controller);
    controller.desire(1, Phase::Trial, NEW, OUTLIVING);
    controller.report("a trial", is(State::Trial, 0)).await;
    machine.kill();
    controller.die().await;
    std::thread::sleep(OUTLIVING);
    assert_eq!(machine.text("running"), NEW);
    // It is taken back though nobody can be asked.
    machine.start(&controller);
    machine.until_running(OLD);
    controller.serve().await;
    controller.report("failed", is(State::Failed, 1)).await;

    // Killed while the files are being put in place: what was at it does not go on beside its being taken back.
    fs::write(machine.at("slow"), "").unwrap();
    controller.desire(2, Phase::Trial, NEW, LONG);
    machine.until_running("half\nend\n");
    machine.kill();
    let reload = "usr/lib/frr/frr-reload.py";
    let script = machine.text(reload);
    fs::write(machine.at(reload), script.replace("while (root", "while False and (root")).unwrap();
    machine.start(&controller);
    controller.report("failed again", is(State::Failed, 2)).await;
    fs::remove_file(machine.at("slow")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(machine.text("running"), OLD);
}

/// What is desired of a switch of SONiC.
fn sonic(number: u64, phase: Phase, config: &str) -> DesiredSwitch {
    let database = r#"{"DEVICE_METADATA": {"localhost": {"hostname": "r0-leaf1"}}, "SCHEDULER": {"b": {"type": "DWRR"}}}"#;
    let file = |name: &str, content: &str| SwitchFile { name: name.into(), content: content.into() };
    DesiredSwitch {
        generation: 1,
        phase: phase.into(),
        files: vec![file("config_db.json", database), file("frr.conf", config)],
        confirm_within: Some(duration_to_wire(LONG)),
        number,
        owned_tables: vec!["QUEUE".into(), "SCHEDULER".into()],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_of_sonic_has_two_files_which_are_tried_and_taken_back_together() {
    let controller = Controller::start().await;
    let mut machine = Machine::sonic();
    machine.start(&controller);
    controller.answer(|answer| answer.send_files = true);
    let first = controller.report("its files", |report| report.files.len() == 2).await;
    assert_eq!((first.files[0].content.as_str(), first.files[1].content.as_str()), (DATABASE, OLD));
    assert_eq!((first.nos_version.as_str(), first.unreadable.as_str()), ("SONiC x.1", ""));
    let [port] = &first.ports[..] else { panic!("{:?}", first.ports) };
    assert_eq!(
        (port.name.as_str(), port.neighbor.as_str(), port.neighbor_port.as_str()),
        ("Ethernet0", "n0", "ens1")
    );
    assert_eq!((port.priorities[0].priority, port.priorities[0].pause_rx), (3, 5));
    // The database is changed before FRR refuses its part.
    controller.answer(|answer| answer.desired = Some(sonic(1, Phase::Trial, "bad\nend\n")));
    let failed = controller.report("failed", is(State::Failed, 1)).await;
    assert_eq!(failed.digest, first.digest);
    assert!(failed.progress.unwrap().message.contains("line 1 is bad"));

    controller.answer(|answer| answer.desired = Some(sonic(2, Phase::Trial, NEW)));
    controller.report("a trial", is(State::Trial, 1)).await;
    let database = || serde_json::from_str::<serde_json::Value>(&machine.text("config_db")).unwrap();
    let merged = serde_json::json!({
        "BUFFER_POOL": {"in": {"size": "1"}},
        "DEVICE_METADATA": {"localhost": {"platform": "x86", "hostname": "r0-leaf1"}},
        "SCHEDULER": {"b": {"type": "DWRR"}},
    });
    assert_eq!((database(), machine.text("running").as_str()), (merged, NEW));
    assert_eq!((machine.text("config_db.start").as_str(), machine.text("startup").as_str()), (DATABASE, OLD));
    controller.answer(|answer| answer.desired = Some(sonic(3, Phase::Keep, NEW)));
    controller.report("kept", is(State::Kept, 3)).await;
    assert_eq!(machine.text("config_db.start"), machine.text("config_db"));
    assert_eq!(machine.text("startup"), NEW);
}

/// The same with another pool of buffer, which SONiC's updater does not change.
fn pool(number: u64, phase: Phase) -> DesiredSwitch {
    let mut desired = sonic(number, phase, NEW);
    let database = r#"{"BUFFER_POOL": {"in": {"size": "2"}}}"#;
    database.clone_into(&mut desired.files[0].content);
    desired
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sonics_updater_refuses_is_tried_and_taken_back_by_a_reload() {
    let controller = Controller::start().await;
    let mut machine = Machine::sonic();
    machine.start(&controller);
    controller.report("its files", |report| !report.digest.is_empty()).await;
    controller.answer(|answer| answer.desired = Some(pool(1, Phase::Trial)));
    let trial = controller.report("a trial", is(State::Trial, 0)).await;
    let database: serde_json::Value = serde_json::from_str(&machine.text("config_db")).unwrap();
    assert_eq!(database["BUFFER_POOL"]["in"]["size"], "2", "{trial:?}");
    assert_eq!((machine.text("running").as_str(), machine.text("config_db.start").as_str()), (NEW, DATABASE));
    // Routing began anew with what was kept of it; the controller takes all of it back.
    controller.answer(|answer| answer.desired = Some(sonic(2, Phase::Hold, NEW)));
    controller.report("held", is(State::Held, 2)).await;
    assert_eq!((machine.text("config_db").as_str(), machine.text("running").as_str()), (DATABASE, OLD));

    // Killed in the middle: the successor loads what was there, whatever state the services are in.
    fs::write(machine.at("slow"), "").unwrap();
    controller.answer(|answer| answer.desired = Some(pool(3, Phase::Trial)));
    machine.until("half of it", || (machine.text("config_db") == "half\n").then_some(()));
    machine.kill();
    fs::remove_file(machine.at("slow")).unwrap();
    machine.start(&controller);
    controller.report("failed", is(State::Failed, 3)).await;
    assert_eq!((machine.text("config_db").as_str(), machine.text("running").as_str()), (DATABASE, OLD));
    let asked: Vec<String> =
        machine.text("asked").lines().map(|line| line.replace("-f ", "forced ")).collect();
    let how =
        |line: &String| line.split(' ').filter(|word| !word.contains('/')).collect::<Vec<_>>().join(" ");
    let expected = ["reload -y", "reload -y forced", "reload -y", "reload -y forced"];
    assert_eq!(asked.iter().map(how).collect::<Vec<_>>(), expected);

    controller.answer(|answer| answer.desired = Some(pool(4, Phase::Trial)));
    controller.report("a trial again", is(State::Trial, 3)).await;
    controller.answer(|answer| answer.desired = Some(pool(5, Phase::Keep)));
    controller.report("kept", is(State::Kept, 5)).await;
    assert_eq!(machine.text("config_db.start"), machine.text("config_db"));
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_and_a_dead_address_is_passed_over() {
    let controller = Controller::with_due_certificates(2).await;
    let mut machine = Machine::new();
    machine.start_at(&format!("unix:/nowhere/controller.sock,{}", controller.endpoint()), &controller);
    controller.report("a report", |_| true).await;
    machine.until("a renewal", || (controller.renewals() >= 2).then_some(()));
    controller.report("a report after it", |_| true).await;
    machine.kill();
    machine.start(&controller);
    controller.report("a report by the new certificate", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_join_says_why() {
    let controller = Controller::start().await;
    let mut machine = Machine::new();
    fs::write(machine.at("token"), "another").unwrap();
    machine.start(&controller);
    assert_eq!(machine.ends().code(), Some(1));
    assert!(machine.text("log").contains("the token is not good"), "{}", machine.text("log"));
    fs::remove_file(machine.at("token")).unwrap();
    machine.start(&controller);
    assert_eq!(machine.ends().code(), Some(1));
    assert!(
        machine.text("log").contains(&format!("railctl switch token {SWITCH}")),
        "{}",
        machine.text("log")
    );
}

#[test]
fn what_would_be_reported_can_be_read_without_a_controller() {
    let output = Machine::new().read();
    assert!(output.status.success());
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["files"]["frr.conf"], OLD);
    assert_eq!((all["nosVersion"].as_str(), all["unreadable"].as_str()), (Some("Test, FRR 8.4.4"), Some("")));
    assert_eq!(all["ports"][0]["rxBytes"], 77);
    assert_eq!(all["digest"].as_str().unwrap().len(), 64);
}
