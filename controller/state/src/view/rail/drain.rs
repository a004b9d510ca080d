//! Rails that are out of use for an administrator or a rollout, and whom that leaves without any.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_topology::RailSet;
use proto_model::{DesiredQos, DrainTarget, JobId, JobUid, NodeName, RailProof, RailState, Timestamp};

use crate::{
    rows::job::{JobEntry, gang, gang_size},
    tables::state::State,
    view::job::remap::Names,
};

/// What one node is told besides its jobs: drained rails, class of service, probes.
pub type NodeDirectives = (BTreeSet<u32>, Option<Arc<DesiredQos>>, Vec<RailProof>);

impl State {
    /// What a node is to be told besides its jobs.
    pub fn reported_of(&self, name: &NodeName, now: Timestamp) -> NodeDirectives {
        (self.drained_rails(name).iter().collect(), self.qos_desired(name, now), self.proofs_of(name))
    }

    /// Rails of a node that are drained now, as its jobs name them ([`crate::job::remap`]): a rail or a leaf of the fabric is where a NIC is
    /// cabled to, which these names say; a port is a NIC of its inventory, whatever it is called.
    #[must_use]
    pub fn drained_rails(&self, name: &NodeName) -> RailSet {
        let rollouts = self.qos_rails(name).or(self.switch_rails(name));
        if self.base.drains.is_empty() && rollouts.is_empty() {
            return RailSet::EMPTY;
        }
        self.drained_by(name, &self.names(name))
    }

    /// The same as new jobs call the rails, of a node that is there.
    pub fn ports_drained(&self, name: &NodeName) -> RailSet {
        if !self.base.nodes.contains_key(name) {
            return RailSet::EMPTY;
        }
        self.drained_by(name, &Names::default())
    }

    fn drained_by(&self, name: &NodeName, names: &Names) -> RailSet {
        let drains = &self.base.drains;
        let mut drained = names.of_all(self.qos_rails(name)).or(self.switch_rails(name));
        if drains.is_empty() {
            return drained;
        }
        for target in drains.range(DrainTarget::Rail(0)..=DrainTarget::Rail(u32::MAX)).map(|pair| pair.0) {
            if let DrainTarget::Rail(rail) = target {
                drained = drained.with(*rail);
            }
        }
        let of = |rail| DrainTarget::Port { node: name.clone(), rail };
        for target in drains.range(of(0)..=of(u32::MAX)).map(|pair| pair.0) {
            if let DrainTarget::Port { rail, .. } = target {
                drained = drained.with(names.of(*rail));
            }
        }
        let topology = self.index.snapshot.topology();
        let server = topology.index(name).and_then(|ix| topology.server(ix));
        for (rail, port) in (0..).zip(server.map_or(&[][..], |server| &server.ports)) {
            let leaf = port.and_then(|port| port.leaf).map(|leaf| topology.leaf_name(leaf).to_owned());
            if leaf.is_some_and(|leaf| drains.contains_key(&DrainTarget::Leaf(leaf))) {
                drained = drained.with(rail);
            }
        }
        drained
    }

    /// Jobs that hold rails and of which two nodes share none that is neither drained, nor in `more`, nor seen to be down.
    pub fn stranded(&self, more: &BTreeMap<NodeName, RailSet>) -> BTreeMap<JobUid, JobId> {
        let mut stranded = BTreeMap::new();
        let mut drained: BTreeMap<&NodeName, RailSet> = BTreeMap::new();
        let jobs: BTreeSet<JobUid> =
            self.index.holds.values().flat_map(|jobs| jobs.keys().copied()).collect();
        for entry in jobs.iter().filter_map(|uid| self.base.jobs.get(uid)) {
            let ending = entry.attempt.as_ref().is_none_or(|attempt| attempt.ending.is_some());
            if ending || gang_size(entry) < 2 {
                continue;
            }
            let mut usable: BTreeSet<RailSet> = BTreeSet::new();
            let mut alone = BTreeMap::new();
            for (position, node) in gang(entry) {
                let drained = drained.entry(node).or_insert_with(|| {
                    self.drained_rails(node).or(more.get(node).copied().unwrap_or(RailSet::EMPTY))
                });
                let left = self.rails_in_use(entry, position).without(*drained);
                usable.insert(left);
                *alone.entry(left).or_insert(0_u32) += 1;
            }
            let apart = |a: &RailSet| usable.iter().any(|b| a != b && a.and(*b).is_empty());
            let lost = alone.get(&RailSet::EMPTY).is_some_and(|nodes| *nodes > 1);
            if lost || usable.iter().any(apart) {
                stranded.insert(entry.job.uid, entry.job.id.clone());
            }
        }
        stranded
    }

    /// Rails that a job holds on one of its nodes, without those that its engine sees down.
    fn rails_in_use(&self, entry: &JobEntry, position: u32) -> RailSet {
        let nodes = entry.job.status.placement.as_ref().map_or(&[][..], |placement| &placement.nodes);
        let place = nodes.get(position as usize);
        let held = place.into_iter().flat_map(|place| &place.nics).map(|nic| nic.rail).collect::<RailSet>();
        let view = self.base.views.get(&(entry.job.uid, position));
        let reports = view.map_or(&[][..], |view| &view.reports);
        let down = reports.iter().filter(|report| report.state == Some(RailState::Down));
        held.without(down.map(|report| report.rail).collect())
    }
}
