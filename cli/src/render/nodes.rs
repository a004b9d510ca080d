//! Lists of servers.

use proto_wire::v1;

use super::{Table, isolation, jobs::reasons, words};

/// A list of nodes.
#[must_use]
pub fn nodes(list: &[v1::Node], wide: bool, now: f64) -> Table {
    let mut header = vec!["NODE", "STATE", "GPUS", "FREE", "RAILS-UP", "JOBS", "REASONS"];
    if wide {
        header.splice(6..6, ["CPUS", "MEMORY", "ISOLATION", "HEARTBEAT", "AGENT"]);
    }
    let mut table = Table::bare();
    table.row(header.into_iter().map(str::to_owned));
    for node in list {
        table.row(node_row(node, wide, now));
    }
    table
}

fn node_row(node: &v1::Node, wide: bool, now: f64) -> Vec<String> {
    let status = node.status.clone().unwrap_or_default();
    let spec = node.spec.clone().unwrap_or_default();
    let inventory = status.inventory.clone().unwrap_or_default();
    let held: usize = status.holds.iter().map(|hold| hold.gpus.len()).sum();
    let works = |nic: &&v1::Nic| nic.up && !status.rails_cut.contains(&nic.rail);
    let up = inventory.nics.iter().filter(works).count();
    let cordoned = if spec.unschedulable { ",Cordoned" } else { "" };
    let mut why = reasons(&status.reasons);
    let quarantined = if status.quarantined.is_some() { ",Quarantined" } else { "" };
    if spec.unschedulable && !spec.reason.is_empty() {
        why = format!("{}{}{}", spec.reason, if why.is_empty() { "" } else { "," }, why);
    }
    let mut row = vec![
        node.metadata.clone().unwrap_or_default().name,
        format!("{}{cordoned}{quarantined}", words::node_phase(status.phase)),
        inventory.gpus.len().to_string(),
        inventory.gpus.len().saturating_sub(held).to_string(),
        format!("{up}/{}", inventory.nics.len()),
        status.holds.len().to_string(),
        why,
    ];
    if wide {
        let wide = [
            inventory.cpus.to_string(),
            words::bytes(inventory.memory_bytes),
            isolation::cell(&inventory),
            words::age(status.last_heartbeat.as_ref(), None, now),
            status.agent_version,
        ];
        row.splice(6..6, wide);
    }
    row
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A node of two GPUs and two rails, one of them down, with one job on it.
    pub fn node(name: &str) -> v1::Node {
        let nic = |rail: u32, up| v1::Nic {
            device: format!("rail{rail}"),
            rail,
            up,
            address: format!("10.{rail}.0.1"),
            mtu: 9000,
            speed_mbps: 400_000,
            ..Default::default()
        };
        let gpu = |index| v1::Gpu { index, model: "dev GPU".into(), ..Default::default() };
        let hold = v1::Hold {
            tenant: "nlp".into(),
            job: "sum".into(),
            gpus: vec![0],
            nics: vec!["rail0".into()],
            ..Default::default()
        };
        v1::Node {
            metadata: Some(v1::Metadata { name: name.into(), ..Default::default() }),
            spec: Some(v1::NodeSpec {
                unschedulable: name == "n1",
                reason: "CRC errors".into(),
                ..Default::default()
            }),
            status: Some(v1::NodeStatus {
                phase: 1,
                inventory: Some(v1::Inventory {
                    gpus: vec![gpu(0), gpu(1)],
                    nics: vec![nic(0, true), nic(1, false)],
                    cpus: 2,
                    memory_bytes: 8 << 30,
                    ..Default::default()
                }),
                holds: vec![hold],
                agent_version: "0.1.0".into(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn a_table_of_nodes() {
        let expected = "\
NODE  STATE           GPUS  FREE  RAILS-UP  JOBS  REASONS
n0    Ready           2     1     1/2       1     -
n1    Ready,Cordoned  2     1     1/2       1     CRC errors
";
        assert_eq!(nodes(&[node("n0"), node("n1")], false, 0.0).render(""), expected);
        assert!(nodes(&[node("n0")], true, 0.0).render("").contains("8 GiB"));
        let mut cut = node("n0");
        cut.status.get_or_insert_default().rails_cut = vec![0];
        assert!(
            nodes(&[cut], false, 0.0).render("").contains("  0/2  "),
            "a cable that is down counts like a NIC"
        );
    }
}
