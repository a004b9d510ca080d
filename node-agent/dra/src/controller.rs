//! What the controller says of a server, as the driver sees it. [pure]

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{DrainTarget, Inventory, NodeName};
use proto_wire::v1::{self, node_status::Phase};

use crate::{devices::ServerView, error::SourceError};

/// Where a server is in the fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// Its pod.
    pub pod: Option<String>,
    /// The leaf of each of its rails.
    pub leaves: BTreeMap<u32, String>,
}

/// The place of a server in the topology; nothing where the fabric document does not have it.
#[must_use]
pub fn place(topology: &v1::Topology, node: &NodeName) -> Location {
    let of_pod = |pod: &v1::TopologyPod| {
        let found = pod.nodes.iter().find(|one| one.name == node.as_str())?;
        let cabled = found.ports.iter().filter(|port| !port.leaf.is_empty());
        let leaves = cabled.map(|port| (port.rail, port.leaf.clone())).collect();
        Some(Location { pod: Some(pod.name.clone()).filter(|name| !name.is_empty()), leaves })
    };
    topology.pods.iter().find_map(of_pod).unwrap_or_default()
}

/// All that the driver needs of it.
///
/// # Errors
/// [`SourceError::Answer`] if there is no inventory, or what is there is none.
pub fn view(
    node: v1::Node,
    drains: &[v1::RailDrain],
    place: &Location,
    name: &NodeName,
) -> Result<ServerView, SourceError> {
    let (spec, status) = (node.spec.unwrap_or_default(), node.status.unwrap_or_default());
    let phase = status.phase();
    let none =
        || SourceError::Answer(format!("the controller has no inventory of {name} yet: does its agent run?"));
    let inventory = Inventory::try_from(status.inventory.ok_or_else(none)?);
    let inventory = inventory.map_err(|error| SourceError::Answer(error.to_string()))?;
    let closed = if status.quarantined.is_some() || !status.quarantine.is_empty() {
        Some("Quarantined")
    } else if spec.unschedulable {
        Some("Cordoned")
    } else {
        // What its agent said last may be long ago.
        (phase == Phase::NotReady).then_some("NotReady")
    };
    let leaf = |nic: &proto_model::Nic| Some((nic.device.clone(), place.leaves.get(&nic.rail)?.clone()));
    let leaves = inventory.nics.iter().filter_map(leaf).collect();
    Ok(ServerView {
        cut: status.rails_cut.into_iter().collect(),
        drained: drained(drains, place, name),
        closed,
        pod: place.pod.clone(),
        leaves,
        inventory,
    })
}

/// The rails of this server that an administrator has taken out of use. What a later release may drain is not known here.
fn drained(drains: &[v1::RailDrain], place: &Location, node: &NodeName) -> BTreeSet<u32> {
    let targets = drains.iter().filter_map(|drain| drain.target.parse::<DrainTarget>().ok());
    let rails = |target| match target {
        DrainTarget::Rail(rail) => vec![rail],
        DrainTarget::Port { node: of, rail } if of == *node => vec![rail],
        DrainTarget::Port { .. } => Vec::new(),
        DrainTarget::Leaf(leaf) => {
            place.leaves.iter().filter(|(_, name)| **name == leaf).map(|(rail, _)| *rail).collect()
        }
    };
    targets.flat_map(rails).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeName {
        NodeName::new("n0").unwrap()
    }

    fn topology() -> v1::Topology {
        let port =
            |rail: u32| v1::TopologyPort { rail, leaf: format!("r{rail}-leaf1"), ..Default::default() };
        let of = |name: &str| v1::TopologyNode {
            name: name.into(),
            ports: vec![port(0), port(1)],
            ..Default::default()
        };
        let pod = |name: &str, node: &str| v1::TopologyPod {
            name: name.into(),
            nodes: vec![of(node)],
            ..Default::default()
        };
        v1::Topology { pods: vec![pod("p0", "n9"), pod("p1", "n0")], ..Default::default() }
    }

    #[test]
    fn a_server_is_found_in_its_pod_and_one_that_is_not_cabled_nowhere() {
        let found = place(&topology(), &node());
        assert_eq!(found.pod.as_deref(), Some("p1"));
        assert_eq!(found.leaves, [(0, "r0-leaf1".to_owned()), (1, "r1-leaf1".to_owned())].into());
        assert_eq!(place(&topology(), &NodeName::new("n5").unwrap()), Location::default());
    }

    #[test]
    fn drains_of_rails_leaves_and_ports_reach_their_own_rails() {
        let place = place(&topology(), &node());
        let drained = |targets: &[&str]| {
            let drain = |target: &&str| v1::RailDrain { target: (*target).to_owned(), ..Default::default() };
            super::drained(&targets.iter().map(drain).collect::<Vec<_>>(), &place, &node())
        };
        assert_eq!(drained(&["rail/1"]), [1].into());
        assert_eq!(drained(&["leaf/r0-leaf1", "leaf/r1-leaf0"]), [0].into());
        assert_eq!(drained(&["node/n0:1", "node/n9:0"]), [1].into());
        assert_eq!(drained(&["pod/p1"]), BTreeSet::new());
    }

    #[test]
    fn a_server_to_which_no_job_may_come_is_closed() {
        let nic = v1::Nic { device: "mlx5_0".into(), netdev: "rail0".into(), up: true, ..Default::default() };
        let seen = |change: &dyn Fn(&mut v1::NodeSpec, &mut v1::NodeStatus)| {
            let (mut spec, mut status) = (v1::NodeSpec::default(), v1::NodeStatus::default());
            status.inventory = Some(v1::Inventory { nics: vec![nic.clone()], ..Default::default() });
            change(&mut spec, &mut status);
            let node_ = v1::Node { spec: Some(spec), status: Some(status), ..Default::default() };
            view(node_, &[], &place(&topology(), &node()), &node()).unwrap()
        };
        let open = seen(&|_, _| {});
        assert_eq!((open.closed, open.leaves["mlx5_0"].as_str()), (None, "r0-leaf1"));
        assert_eq!(seen(&|spec, _| spec.unschedulable = true).closed, Some("Cordoned"));
        assert_eq!(
            seen(&|_, status| status.quarantined = Some(v1::Reason::default())).closed,
            Some("Quarantined")
        );
        assert_eq!(seen(&|_, status| status.rails_cut = vec![0]).cut, [0].into());
        assert_eq!(seen(&|_, status| status.set_phase(Phase::NotReady)).closed, Some("NotReady"));
        assert_eq!(seen(&|_, status| status.set_phase(Phase::Ready)).closed, None);
    }

    #[test]
    fn a_server_without_an_inventory_is_not_one_without_rails() {
        let bare = v1::Node { status: Some(v1::NodeStatus::default()), ..Default::default() };
        for answer in [bare, v1::Node::default()] {
            let error = view(answer, &[], &place(&topology(), &node()), &node()).unwrap_err().to_string();
            assert!(error.contains("no inventory of n0"), "{error}");
        }
    }
}
