//! Nodes whose NICs are on each other's rails: the gang begins again with these NICs named as they are cabled, and the node says so
//! until a gang there is certified without.
//!
//! Is that sound? A verdict of [`controller_certify::Verdict::Remap`] says more than "two rails are dead": each rail of the node has
//! answered, bound to its own device, exactly one other rail of its partners. So the very addresses that the new names join have been
//! seen to reach each other. On which networks that can be:
//! - Flat rails (one broadcast domain each): a NIC's address is of another rail's subnet, and the kernel has no route for it by
//!   that device. A socket that is bound to the device takes its peer to be on the link (ip_route_output_key_hash_rcu in
//!   net/ipv4/route.c), RDMA's address resolution is bound to the device anyway: so engines of such a job bind their connections.
//! - Rails whose leaves learn addresses from the servers (BGP on the host) or give them (DHCP, router advertisements): the address
//!   follows the cable, and only the name of the rail is wrong.
//! - Rails routed by subnets that the leaves hold: a NIC on another rail's leaf has no gateway there. It answers nobody, its rails are
//!   dead and not crossed, and the node is replaced: names do not mend that.
//!
//! And the new names are not believed either. The attempt that has them is certified like any other, and a node that was remapped and is
//! still not as it should be is replaced.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_certify::{Certificate, Kind, Remap, Subject};
use controller_state::{JobEntry, Outcome, Own, Undo};
use proto_model::{JobUid, Node, NodeName, Placement, Reason, ReasonCode};

use crate::context::Step;

/// The placement with the rails of these nodes named as they are. `None` if that is no permutation of what the job holds, or if one of
/// them has been remapped already, which then has not helped.
pub(crate) fn remapped(placement: &Placement, remaps: &[Remap]) -> Option<Placement> {
    let mut new = placement.clone();
    for remap in remaps {
        let place = new.nodes.get_mut(remap.node as usize).filter(|place| !place.remapped)?;
        let is_on: BTreeMap<u32, u32> = remap.rails.iter().copied().collect();
        let leaves: BTreeMap<u32, String> =
            place.nics.iter().map(|nic| (nic.rail, nic.leaf.clone())).collect();
        for nic in &mut place.nics {
            nic.rail = is_on.get(&nic.rail).copied().unwrap_or(nic.rail);
            nic.leaf = leaves.get(&nic.rail)?.clone();
        }
        place.nics.sort_by_key(|nic| nic.rail);
        if !place.nics.iter().map(|nic| nic.rail).eq(placement.rails.iter().copied()) {
            return None;
        }
        place.remapped = true;
        for rank in new.ranks.iter_mut().filter(|rank| rank.node == place.node && !rank.nic.is_empty()) {
            let nic = place.nics.iter().find(|nic| nic.device == rank.nic)?;
            (rank.rail, rank.leaf) = (nic.rail, nic.leaf.clone());
        }
    }
    Some(new)
}

/// What is wrong with a node's cables, and what mends it.
fn words(placement: &Placement, remap: &Remap) -> Option<(NodeName, String)> {
    let place = placement.nodes.get(remap.node as usize)?;
    let nic = |own: u32| place.nics.iter().find(|nic| nic.rail == own);
    let rails = remap.rails.iter();
    let each: Vec<String> = rails
        .clone()
        .filter_map(|(own, on)| Some(format!("{} of rail {own} is on rail {on}", nic(*own)?.device)))
        .collect();
    let named: Vec<String> =
        rails.filter_map(|(own, on)| Some(format!("{}={on}", nic(*own)?.device))).collect();
    let message = format!(
        "NICs of node '{}' are on each other's rails: {}; swap their cables, or name the rails as they are cabled (rail-node-agent run \
         --rails map:..., with {})",
        place.node,
        each.join(", "),
        named.join(",")
    );
    Some((place.node.clone(), message))
}

impl Step<'_> {
    /// Ends an attempt whose nodes' rails are swapped, so that it begins again with the rails named as they are. False if that is no way.
    pub(crate) fn remap(&mut self, uid: JobUid, entry: &JobEntry, remaps: &[Remap]) -> bool {
        let Some(old) = entry.job.status.placement.clone() else { return false };
        let Some(mut new) = remapped(&old, remaps) else { return false };
        let reason = |remap: &Remap| {
            let (node, message) = words(&old, remap)?;
            let message = format!("{message}; this job uses them as they are cabled");
            Some(
                Reason::new(ReasonCode::RailsRemapped, message).scope(format!("node/{node}")).since(self.now),
            )
        };
        let causes: Vec<Reason> = remaps.iter().filter_map(reason).collect();
        new.reasons.extend(causes.iter().cloned());
        let Some(mut entry) = self.entry(uid) else { return false };
        self.change(&mut entry, |status| status.placement = Some(Arc::new(new)));
        let grace = entry.job.spec.grace_period;
        self.state.set_job(uid, Some(entry));
        self.stop_attempt(uid, Outcome::Move, grace, 0, causes);
        true
    }

    /// Nodes on which a job that names NICs otherwise has begun or ended in this step are told what is drained in the names that are
    /// used now. Rails of theirs that are out of use could not be probed under other names.
    pub(crate) fn report_renamed(&mut self, mark: usize) {
        let mut nodes: BTreeSet<NodeName> = BTreeSet::new();
        for undo in self.state.journal.undo.get(mark..).unwrap_or_default() {
            let Undo::Own(Own::Job(uid, old)) = undo else { continue };
            let entries = old.as_deref().into_iter().chain(self.state.base.jobs.get(uid));
            let placements = entries.filter_map(|entry| entry.job.status.placement.as_ref());
            let remapped = placements.flat_map(|placement| &placement.nodes).filter(|place| place.remapped);
            nodes.extend(remapped.map(|place| place.node.clone()));
        }
        for node in nodes {
            self.report_drained(&node);
            self.proofs_changed(&node);
        }
    }

    /// The attempt with the new names.
    pub(crate) fn start_renamed(&mut self, uid: JobUid, placement: Placement) {
        if !self.state.is_over_quota(uid, &placement) {
            self.place(uid, placement);
        }
    }

    /// Nodes of a gang that was measured say that their NICs are on each other's rails, or no longer do.
    pub(crate) fn note_cables(&mut self, entry: &JobEntry, certificate: &Certificate, remaps: &[Remap]) {
        let Some(placement) = entry.job.status.placement.clone() else { return };
        let named = |node: u32, kind: Option<Kind>| {
            let mut findings = certificate.findings.iter();
            findings.any(|finding| {
                finding.place == Subject::Node(node) && kind.is_none_or(|kind| finding.kind == kind)
            })
        };
        for (at, place) in (0..).zip(placement.nodes.iter()) {
            let Some(node) = self.state.base.nodes.get(&place.node).cloned() else { continue };
            let swapped = named(at, Some(Kind::Swapped)) && !place.remapped;
            let reported = node.reasons.iter().any(|reason| reason.code == ReasonCode::RailsSwapped);
            let remap = remaps.iter().find(|remap| remap.node == at).filter(|_| swapped && !reported);
            if let Some((_, message)) = remap.and_then(|remap| words(&placement, remap)) {
                let reason = Reason::new(ReasonCode::RailsSwapped, message).since(self.now);
                let reasons = node.reasons.iter().cloned().chain([reason]).collect();
                self.state.put(Arc::new(Node { reasons, ..(*node).clone() }));
            }
            // As its inventory names them, and nothing is wrong with it: somebody has seen to the cables, or to the names.
            if reported && !place.remapped && !named(at, None) && certificate.measured == certificate.planned
            {
                let reasons = node
                    .reasons
                    .iter()
                    .filter(|reason| reason.code != ReasonCode::RailsSwapped)
                    .cloned()
                    .collect();
                self.state.put(Arc::new(Node { reasons, ..(*node).clone() }));
            }
        }
    }
}
