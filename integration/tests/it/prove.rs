//! A rail that is out of use comes back after proof, with real processes: counters that went quiet, a well server on the same rail, and
//! the way between the two, each server in its own network namespace.

use std::{path::PathBuf, process::Command, time::Duration};

use integration_harness::{Cluster, Shape, binaries, eventually, procfs};
use node_agent_health::Source;
use node_agent_host::counters::recorded;
use serde_json::Value;

use crate::jobs::number;

const SOON: Duration = Duration::from_secs(120);
/// From the end of what was wrong until jobs use the rail again.
const MINUTE: Duration = Duration::from_secs(60);
/// The server whose NICs have counters, as a recorded server has them.
const SICK: &str = "n1";

fn ip(line: &str) {
    let output = Command::new("ip").args(line.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

struct Lab {
    cluster: Cluster,
    counters: PathBuf,
}

impl Lab {
    /// Three servers of two rails; the agent of one reads counters below a folder of the test's own.
    fn up() -> Option<Self> {
        if !binaries::may_make_namespaces() {
            println!("skipped: network namespaces and shaping need root, ip and tc");
            return None;
        }
        let netns = Some("200mbit".to_owned());
        let cluster = Cluster::up(&Shape { nodes: 3, rails: 2, gpus: 1, netns, ..Shape::default() }).unwrap();
        let lab = Self { counters: cluster.home().join("counters"), cluster };
        for rail in 0..2 {
            recorded::record(&lab.counters, &Self::nic(rail), 7).unwrap();
        }
        let dir = lab.cluster.dir().display().to_string();
        let agents = procfs::find(&["rail-node-agent", "run", &format!("--node {SICK}"), &dir]);
        assert_eq!(agents.len(), 1, "{agents:?}");
        procfs::kill(agents[0]).unwrap();
        let mut command = lab.cluster.command(&["dev", "up", "--name", lab.cluster.name(), "--dir", &dir]);
        let output = command.env("RAIL_COUNTERS", &lab.counters).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(lab)
    }

    fn nic(rail: u32) -> proto_model::Nic {
        recorded::nic(rail, &format!("rail{rail}"), &format!("rail{rail}"))
    }

    /// The link of a rail is seen to damage what passes: any increase is one too many.
    fn damage(&self, rail: u32, errors: u32) {
        let file = recorded::place(&Self::nic(rail), Source::Port, "local_link_integrity_errors");
        std::fs::write(self.counters.join(file), format!("{errors}\n")).unwrap();
    }

    fn node(&self) -> Value {
        let nodes = self.cluster.json(&["get", "nodes"]).unwrap();
        let mut nodes = nodes["nodes"].as_array().unwrap().iter();
        nodes.find(|node| node["metadata"]["name"] == SICK).unwrap().clone()
    }

    /// Whether new jobs may use a rail of the server, as `railctl health` has it.
    fn usable(&self, rail: u64) -> bool {
        let health = self.cluster.json(&["health"]).unwrap();
        let nodes = health["nodes"].as_array().unwrap();
        let rails = nodes.iter().find(|node| node["node"] == SICK).unwrap()["rails"].as_array().unwrap();
        rails.iter().find(|one| number(&one["rail"]) == rail).unwrap()["usable"] == true
    }

    fn described(&self) -> String {
        self.cluster.railctl(&["describe", "node", SICK]).stdout
    }
}

#[test]
fn a_rail_whose_counters_went_quiet_comes_back_after_a_probe_and_not_while_its_way_is_bad() {
    let Some(lab) = Lab::up() else { return };
    let fit = || (lab.usable(0) && lab.usable(1)).then_some(());
    eventually("the server with all of its rails", SOON, fit).unwrap();
    // The switch's port takes small packets only, which no counter of the server shows.
    let (leaf, port) = (format!("rail-{}-p0-rail1", lab.cluster.name()), SICK.replace('n', "swp"));
    ip(&format!("-n {leaf} link set {port} mtu 1500"));
    // Written until it is seen: the first look at a counter is compared with nothing.
    let mut errors = 7;
    let drained = || {
        errors += 1;
        lab.damage(1, errors);
        (!lab.usable(1)).then_some(())
    };
    eventually("the rail to be out of use", SOON, drained).unwrap();
    let text = lab.described();
    assert!(text.contains("RailUnproved") && text.contains("asks for a probe when it was quiet"), "{text}");
    let spec = "gang: {nodes: 3, gpusPerNode: 1}\ncollective: {op: ALL_REDUCE, bytes: 1048576, iterations: 3, verify: true}";
    lab.cluster.submit("whole", spec).unwrap();
    let failed = || {
        let text = lab.described();
        let reported = text.contains("the last one, with n") && text.contains("failed: packets");
        (reported && text.contains("pass up to 1500 bytes")).then_some(text)
    };
    let text = eventually("a probe that fails", SOON, failed)
        .unwrap_or_else(|why| panic!("{why}\n{}\n{}", lab.described(), lab.cluster.logs()));
    assert!(!lab.usable(1), "{text}");
    let job = lab.cluster.job("whole").unwrap();
    assert_eq!(job["status"]["phase"], "PENDING", "{job:#}");
    ip(&format!("-n {leaf} link set {port} mtu 9000"));
    eventually("the rail to be back after its proof", MINUTE, || lab.usable(1).then_some(()))
        .unwrap_or_else(|why| panic!("{why}\n{}\n{}", lab.described(), lab.cluster.logs()));
    let node = lab.node();
    let health = &node["status"]["inventory"]["health"];
    assert!(health.as_array().is_none_or(Vec::is_empty), "{node:#}");
    let job = lab.cluster.wait_for("whole", &["COMPLETED", "FAILED"], SOON).unwrap();
    let result = &job["status"]["result"];
    assert_eq!(result["verified"], true, "{job:#}\n{}", lab.cluster.logs());
    let sent: Vec<u64> =
        result["rails"].as_array().unwrap().iter().map(|rail| number(&rail["txBytes"])).collect();
    assert!(sent.len() == 2 && sent.iter().all(|bytes| *bytes > 1 << 20), "{job:#}");
}
