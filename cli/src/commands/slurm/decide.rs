//! What makes Slurm and Railyard of one mind: which allocations nobody needs any more, which nodes are drained in Slurm and which resumed.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1::{self, node_status::Phase};

/// Reasons that Slurm shows of nodes that are drained from here begin so; those of others are let be.
const OURS: &str = "railyard: ";
/// Slurm keeps no longer reason that a table shows.
const REASON: usize = 200;

/// A node as Slurm has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmNode {
    /// No new job is placed on it.
    pub is_drained: bool,
    /// Slurm would start a job on it, if it is free.
    pub is_up: bool,
    /// Why it is drained, down or failing, in the words of who made it so; empty where nobody said.
    pub reason: String,
}

/// One thing that is to be done in Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// No new job on this node, and why.
    Drain {
        /// The node.
        node: String,
        /// What Slurm shows of it.
        reason: String,
    },
    /// New jobs on this node again.
    Resume {
        /// The node.
        node: String,
    },
}

/// Why no job should start on a server; none where it is well.
#[must_use]
pub fn unfit(node: &v1::Node) -> Option<String> {
    let status = node.status.clone().unwrap_or_default();
    let spec = node.spec.clone().unwrap_or_default();
    if let Some(why) = status.quarantined.as_ref().or(status.quarantine.first()) {
        return Some(format!("quarantined: {}", why.message));
    }
    if spec.unschedulable {
        let why = if spec.reason.is_empty() { String::new() } else { format!(": {}", spec.reason) };
        return Some(format!("cordoned{why}"));
    }
    (status.phase() == Phase::NotReady).then(|| "its agent is not heard from".to_owned())
}

/// What is to be done in Slurm. Servers that only one of both has are nobody's business.
#[must_use]
pub fn actions(ours: &[v1::Node], slurm: &BTreeMap<String, SlurmNode>) -> Vec<Action> {
    let mut all = Vec::new();
    for server in ours {
        let name = server.metadata.as_ref().map_or("", |metadata| metadata.name.as_str());
        let Some(there) = slurm.get(name) else { continue };
        let node = name.to_owned();
        let is_ours = there.reason.starts_with(OURS);
        match unfit(server) {
            Some(why) => {
                let reason: String = format!("{OURS}{why}").chars().take(REASON).collect();
                let is_free = there.reason.is_empty() || is_ours;
                if is_free && !(there.is_drained && there.reason == reason) {
                    all.push(Action::Drain { node, reason });
                }
            }
            None if there.is_drained && is_ours => all.push(Action::Resume { node }),
            None => {}
        }
    }
    all
}

/// Allocations whose job Slurm no longer has.
#[must_use]
pub fn leftovers<T: Clone>(held: &[(T, u64)], jobs: &BTreeSet<u64>) -> Vec<T> {
    held.iter().filter(|(_, id)| !jobs.contains(id)).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, cordoned: Option<&str>) -> v1::Node {
        v1::Node {
            metadata: Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() }),
            spec: Some(v1::NodeSpec {
                unschedulable: cordoned.is_some(),
                reason: cordoned.unwrap_or_default().to_owned(),
                ..v1::NodeSpec::default()
            }),
            status: Some(v1::NodeStatus { phase: Phase::Ready.into(), ..v1::NodeStatus::default() }),
            ..v1::Node::default()
        }
    }

    fn there(reason: Option<&str>) -> SlurmNode {
        SlurmNode {
            is_drained: reason.is_some(),
            is_up: reason.is_none(),
            reason: reason.unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn a_server_is_drained_once_and_resumed_only_by_who_drained_it() {
        let mut quiet = server("quiet", None);
        quiet.status.as_mut().unwrap().phase = Phase::NotReady.into();
        let mut bad = server("bad", Some("x"));
        bad.status.as_mut().unwrap().quarantined =
            Some(v1::Reason { message: "GPU 3 is gone".into(), ..v1::Reason::default() });
        let ours = [
            server("well", None),
            server("cordoned", Some("fan")),
            server("known", Some("fan")),
            server("again", None),
            server("theirs", None),
            server("both", Some("fan")),
            server("elsewhere", Some("fan")),
            server("down", Some("fan")),
            quiet,
            bad,
        ];
        let slurm = [
            ("well", None),
            ("cordoned", None),
            ("known", Some("railyard: cordoned: fan")),
            ("again", Some("railyard: cordoned: fan")),
            ("theirs", Some("new disk")),
            ("both", Some("new disk")),
            ("down", Some("bad DIMM")),
            ("unknown", None),
            ("quiet", None),
            ("bad", Some("railyard: cordoned: x")),
        ];
        let mut slurm: BTreeMap<_, _> =
            slurm.into_iter().map(|(name, reason)| (name.to_owned(), there(reason))).collect();
        // Down, and not drained: whoever made it so has said why.
        slurm.get_mut("down").unwrap().is_drained = false;
        let drain = |node: &str, reason: &str| Action::Drain { node: node.into(), reason: reason.into() };
        assert_eq!(
            actions(&ours, &slurm),
            [
                drain("cordoned", "railyard: cordoned: fan"),
                Action::Resume { node: "again".into() },
                drain("quiet", "railyard: its agent is not heard from"),
                drain("bad", "railyard: quarantined: GPU 3 is gone"),
            ]
        );
    }

    #[test]
    fn what_slurm_still_has_is_kept() {
        let held = [("slurm-1", 1), ("slurm-2", 2), ("slurm-2-r1", 2), ("slurm-3", 3)];
        assert_eq!(leftovers(&held, &[2, 9].into()), ["slurm-1", "slurm-3"]);
    }
}
