//! The agent of a switch on real FRR: what it reads, a trial that its successor takes back, and one that is kept.

use std::{
    path::PathBuf,
    process::{Child, Stdio},
    time::Duration,
};

use integration_harness::{
    binaries,
    frr::{End, Frr, Spec, programs},
    wait::eventually,
};
use proto_wire::v1::{ReportSwitchRequest, desired_switch::Phase, switch_progress::State};

#[path = "../../../node-agent/switch/tests/it/controller.rs"]
mod controller;

use controller::{Controller, LIMIT, SWITCH, TOKEN};

/// Longer than a reload of FRR takes on a busy machine.
const CONFIRM: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(600);

const CONFIG: &str = "frr defaults datacenter
hostname leaf
!
ip prefix-list gone seq 5 permit 10.9.0.0/16
!
router bgp 65001
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 neighbor swp1 interface remote-as external
 !
 address-family ipv4 unicast
  network 10.0.0.1/32
 exit-address-family
exit
!
";
const NEIGHBOR: &str = " neighbor 10.1.0.9 remote-as 65009";

/// The first without the prefix list, and with one neighbour more.
fn changed() -> String {
    let without = CONFIG.replace("ip prefix-list gone seq 5 permit 10.9.0.0/16\n!\n", "");
    without.replace(" neighbor swp1", &format!("{NEIGHBOR}\n neighbor swp1"))
}

/// The agent as a process of the first switch.
struct Agent<'a> {
    fabric: &'a Frr,
    room: tempfile::TempDir,
    process: Option<Child>,
}

impl Agent<'_> {
    fn at(&self, name: &str) -> PathBuf {
        self.room.path().join(name)
    }

    fn start(&mut self, controller: &Controller) {
        std::fs::write(self.at("token"), TOKEN).unwrap();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.at("log")).unwrap();
        let mut command = self.fabric.command(0, "sh");
        // The pid is the one that the switch's own processes see.
        command.args(["-c", "echo $$ > \"$0\"; exec \"$@\""]).arg(self.at("pid"));
        command.arg(binaries::directory().unwrap().join("rail-switch-agent"));
        command.args(["run", "--nos", "linux", "--switch", SWITCH]);
        command.args(["--controller", &controller.endpoint(), "--ca-pin", &controller.pin]);
        command.arg("--state").arg(self.at("state")).arg("--frr").arg(programs().unwrap());
        command.arg("--join-token-file").arg(self.at("token"));
        self.process = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    fn end(&mut self, signal: &str) {
        let Some(mut process) = self.process.take() else { return };
        let pid = std::fs::read_to_string(self.at("pid")).unwrap_or_default();
        let kill = self.fabric.command(0, "kill").args([signal, pid.trim()]).status();
        assert!(kill.is_ok_and(|status| status.success()), "no agent of pid {pid:?}");
        let ended = eventually("the agent ends", LIMIT, || process.try_wait().ok().flatten());
        println!("the agent ended: {ended:?}");
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.at("log")).unwrap_or_default());
        } else {
            self.end("-KILL");
        }
    }
}

fn is(state: State, number: u64) -> impl Fn(&ReportSwitchRequest) -> bool {
    move |report| {
        let progress = report.progress.clone().unwrap_or_default();
        progress.state() == state && progress.observed_number == number
    }
}

fn fabric() -> Option<Frr> {
    let reload = programs()?.join("usr/lib/frr/frr-reload.py");
    if !reload.exists() {
        return None;
    }
    let switch = |name: &str| Spec { name: name.to_owned(), config: Some(CONFIG.replace("leaf", name)) };
    let end = |of: usize| End { of, port: "swp1".to_owned() };
    Some(Frr::up(&[switch("leaf"), switch("spine")], &[(end(0), end(1))]).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_on_frr_is_taken_back_by_whoever_comes_after_a_killed_agent_and_kept_when_confirmed() {
    let Some(fabric) = fabric() else {
        println!(
            "skipped: FRR in network namespaces needs root, ip, and FRR's packages frr and frr-pythontools"
        );
        return;
    };
    let mut controller = Controller::start().await;
    let mut agent = Agent { fabric: &fabric, room: tempfile::tempdir().unwrap(), process: None };
    agent.start(&controller);
    controller.answer(|answer| answer.send_files = true);
    let first = controller.report("files", |report| !report.files.is_empty()).await;
    let (before, read) = (first.digest.clone(), first.files[0].content.clone());
    assert!(read.contains("router bgp 65001") && read.contains("prefix-list gone"), "{read}");
    assert!(first.nos_version.contains("FRR "), "{}", first.nos_version);
    let port = first.ports.iter().find(|port| port.name == "swp1").unwrap();
    assert!(port.up && port.mtu == 9216, "{port:?}");
    let startup = || fabric.inside(0, &["cat", "/etc/frr/frr.conf"]).unwrap();
    let running = || fabric.vtysh(0, &["show running-config"]).unwrap();

    controller.desire(1, Phase::Trial, &changed(), CONFIRM);
    controller.report("a trial", is(State::Trial, 0)).await;
    let tried = controller.report("what is tried", |report| report.digest != before).await;
    println!("on trial:\n{}", tried.files[0].content);
    let now = running();
    assert!(now.contains(NEIGHBOR) && !now.contains("prefix-list gone"), "{now}");
    assert_eq!(startup(), CONFIG);
    agent.end("-KILL");
    controller.die().await;
    std::thread::sleep(CONFIRM);
    assert!(running().contains(NEIGHBOR), "nobody is there who could have taken it back");
    agent.start(&controller);
    let back = || running().contains("prefix-list gone").then_some(());
    eventually("it is taken back, though nobody can be asked", LIMIT, back).unwrap();
    controller.serve().await;
    let failed = controller.report("taken back", is(State::Failed, 1)).await;
    assert_eq!(failed.digest, before, "{}", failed.files[0].content);

    controller.desire(2, Phase::Trial, &changed(), LONG);
    controller.report("another trial", is(State::Trial, 1)).await;
    controller.desire(3, Phase::Keep, &changed(), LONG);
    let kept = controller.report("kept", is(State::Kept, 3)).await;
    assert_eq!(kept.digest, tried.digest, "{}", kept.files[0].content);
    assert!(startup().contains(NEIGHBOR) && !startup().contains("prefix-list gone"), "{}", startup());
    // What FRR refuses is taken back at once.
    controller.desire(4, Phase::Trial, &changed().replace("remote-as 65009", "remote-as nobody"), LONG);
    let refused = controller.report("refused", is(State::Failed, 4)).await;
    println!("refused: {}", refused.progress.clone().unwrap().message);
    assert_eq!(refused.digest, tried.digest, "{}", refused.files[0].content);
    assert_eq!(controller.renewals(), 0, "its certificate is good for a day");
    agent.end("-TERM");
}
