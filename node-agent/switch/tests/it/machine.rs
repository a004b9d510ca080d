//! A machine of a few scripts: what FRR is configured with is a file, and an agent runs on it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::controller::{Controller, LIMIT, SWITCH, TOKEN};

const AGENT: &str = env!("CARGO_BIN_EXE_rail-switch-agent");

/// `$0` is below `usr/bin`; `show running-config` is the file `running`, `write memory` copies it to `startup`.
const VTYSH: &str = r#"#!/bin/sh
root=$(dirname "$0")/../..
case "$2" in
*version) echo 'FRRouting 8.4.4 (leaf) on Linux' ;;
*json) cat "$root/sessions" ;;
write*) cp "$root/running" "$root/startup" ;;
*) printf 'Building configuration...\n\nCurrent configuration:\n'; cat "$root/running" ;;
esac
"#;
/// Puts its last argument in place, in two halves: with a pause between them where the file `slow` says so. What was
/// put in place so far is in the file `put`.
const RELOAD: &str = r#"
import os, pathlib, sys, time
root = pathlib.Path(__file__).resolve().parents[3]
text = pathlib.Path(sys.argv[-1]).read_text()
(root / "running").write_text("half\nend\n")
while (root / "slow").exists():
    time.sleep(0.02)
(root / "running").write_text(text)
with open(root / "put", "a") as put:
    put.write(text)
"#;

/// SONiC's commands, below `$ROOT/bin`; a configuration of FRR that holds `bad` is refused.
const SONIC: [(&str, &str); 5] = [
    ("sonic-cfggen", "cat $ROOT/config_db"),
    // Its updater refuses another pool of buffer; a reload begins routing anew.
    (
        "config",
        "echo \"$*\" >> $ROOT/asked; for last; do :; done
        pool() { tr -d ' \\n' < $1 | grep -o 'BUFFER_POOL[^}]*'; }
        case $1 in
        replace) test \"$(pool $2)\" = \"$(pool $ROOT/config_db)\" || { echo Modification of BUFFER_POOL table is illegal; exit 2; }; cp $2 $ROOT/config_db;;
        reload) echo half > $ROOT/config_db; while test -e $ROOT/slow; do sleep 0.02; done; cp $last $ROOT/config_db; cp $ROOT/startup $ROOT/running;;
        save) cp $ROOT/config_db $ROOT/config_db.start;;
        esac",
    ),
    (
        "docker",
        "shift; test $1 = -i && shift; test $1 = bgp || exit 9; shift
        case $1 in sh) cat > $ROOT/new; grep -q bad $ROOT/new && { echo line 1 is bad; exit 1; }; cp $ROOT/new $ROOT/running;; *) exec \"$ROOT/usr/bin/$@\";; esac",
    ),
    (
        "sonic-db-cli",
        r#"echo '{"Ethernet0": {"port": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "5"}, "queues": {}}}'"#,
    ),
    (
        "lldpctl",
        r#"echo '{"lldp": {"interface": {"Ethernet0": {"chassis": {"n0": {}}, "port": {"id": {"type": "ifname", "value": "ens1"}}}}}}'"#,
    ),
];

/// What a switch of SONiC has.
pub const DATABASE: &str = r#"{"BUFFER_POOL": {"in": {"size": "1"}}, "DEVICE_METADATA": {"localhost": {"platform": "x86"}}, "QUEUE": {"Ethernet0|3": {"scheduler": "a"}}}"#;

pub const OLD: &str = "!\nold\nend\n";
pub const NEW: &str = "!\nnew\nend\n";

pub struct Machine {
    room: TempDir,
    agent: Option<Child>,
    /// What the agent is started with beside its folders.
    arguments: Vec<String>,
}

impl Machine {
    pub fn new() -> Self {
        let machine = Self {
            room: tempfile::tempdir().unwrap(),
            agent: None,
            arguments: vec!["--nos".into(), "linux".into()],
        };
        for (path, content) in [
            ("usr/bin/vtysh", VTYSH),
            ("usr/lib/frr/frr-reload.py", RELOAD),
            ("etc/os-release", "PRETTY_NAME=\"Test\"\n"),
            ("sys/class/net/swp1/type", "1\n"),
            ("sys/class/net/swp1/operstate", "up\n"),
            ("sys/class/net/swp1/statistics/rx_bytes", "77\n"),
            ("running", OLD),
            ("startup", OLD),
            ("sessions", r#"{"ipv4Unicast": {"peers": {"swp1": {"state": "Established"}}}}"#),
            ("token", TOKEN),
        ] {
            machine.write(path, content);
        }
        machine
    }

    /// One of SONiC, with a port.
    pub fn sonic() -> Self {
        let mut machine = Self::new();
        machine.arguments[1] = "sonic".into();
        for (name, script) in SONIC {
            let root = machine.room.path().display();
            machine.write(&format!("bin/{name}"), &format!("#!/bin/sh\nROOT={root}\n{script}\n"));
        }
        for (path, content) in [
            ("etc/sonic/sonic_version.yml", "build_version: 'x.1'\n"),
            ("sys/class/net/Ethernet0/type", "1\n"),
            ("config_db", DATABASE),
            ("config_db.start", DATABASE),
        ] {
            machine.write(path, content);
        }
        machine
    }

    /// One from which a switch is reached by gNMI.
    pub fn beside(switch: &node_agent_gnmi_server::Switch) -> Self {
        let mut machine = Self::new();
        let folder = machine.at("gnmi");
        switch.write_credentials(&folder);
        let folder = folder.display().to_string();
        machine.arguments =
            ["--gnmi", &switch.address(), "--gnmi-credentials", &folder].map(str::to_owned).to_vec();
        machine
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.room.path().join(path)
    }

    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(AGENT);
        let path = format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).arg(subcommand).args(&self.arguments).arg("--frr").arg(self.room.path());
        command.arg("--root").arg(self.room.path()).arg("--state").arg(self.at("state"));
        command.stdin(Stdio::null());
        command
    }

    pub fn read(&self) -> Output {
        self.command("read").output().unwrap()
    }

    pub fn start(&mut self, controller: &Controller) {
        self.start_at(&controller.endpoint(), controller);
    }

    pub fn start_at(&mut self, endpoints: &str, controller: &Controller) {
        let mut command = self.command("run");
        command.args(["--switch", SWITCH, "--controller", endpoints, "--ca-pin", &controller.pin]);
        command.arg("--join-token-file").arg(self.at("token"));
        let log = fs::OpenOptions::new().create(true).append(true).open(self.at("log")).unwrap();
        self.agent = Some(command.stderr(log).spawn().unwrap());
    }

    pub fn kill(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// Asks the agent to end, and waits for that.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut agent = self.agent.take().unwrap();
        let pid = rustix::process::Pid::from_child(&agent);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.until("the agent ends", || agent.try_wait().unwrap())
    }

    /// Waits for the agent's own end.
    pub fn ends(&mut self) -> ExitStatus {
        let mut agent = self.agent.take().unwrap();
        self.until("the agent ends", || agent.try_wait().unwrap())
    }

    pub fn until<T>(&self, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(found) = check() {
                return found;
            }
            assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}\n{}", self.text("log"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn until_running(&self, config: &str) {
        self.until(&format!("{config:?} runs"), || (self.text("running") == config).then_some(()));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        let _ = fs::remove_file(self.at("slow"));
        if std::thread::panicking() {
            eprintln!("{}", self.text("log"));
        }
    }
}
