//! What a gang has lost.

use std::collections::BTreeMap;

use controller_scheduler::repair::FailureScope;
use controller_topology::RailSet;
use proto_model::{Health, NodeName, RailState, ReasonCode, Replace};

use crate::{
    rows::{
        job::{JobEntry, gang, gang_size},
        node::is_drained,
        records::Attempt,
    },
    tables::state::State,
    view::job::blame::{first_to_fail, is_for_rail, most_missed, moves_for_rail, node_of, rails_named},
};

impl State {
    /// Whether the job lets nodes be replaced, and may have another one replaced.
    pub fn replaces(&self, entry: &JobEntry) -> bool {
        let failure = entry.job.spec.failure;
        failure.replace != Replace::Never && entry.job.status.replaced < failure.max_replacements
    }

    /// What the gang has lost: nodes that are away or take no more jobs, NICs that are down, and the node that was the
    /// first to say that it failed, or else the one that is missed by most. An attempt that ends for a rail loses that: engines that fail
    /// while they are stopped for it are well.
    pub fn losses(&self, entry: &JobEntry, attempt: &Attempt) -> BTreeMap<NodeName, FailureScope> {
        let topology = self.index.snapshot.topology();
        let placement = entry.job.status.placement.as_ref();
        let rails: RailSet = placement.iter().flat_map(|placement| &placement.rails).copied().collect();
        let mut lost = BTreeMap::new();
        let spares = placement.iter().flat_map(|placement| &placement.spares).map(|place| &place.node);
        for node in gang(entry).map(|(_, node)| node).chain(spares) {
            let index = topology.index(node);
            let open = index.is_some_and(|ix| self.index.snapshot.capacity(ix).gate.is_open());
            let quarantined =
                self.base.nodes.get(node).is_some_and(|node| node.quarantined.is_some() || is_drained(node));
            let usable =
                index.and_then(|ix| topology.server(ix)).map_or(RailSet::EMPTY, |server| server.usable);
            let usable = self.names(node).of_all(usable);
            if !open || quarantined {
                lost.insert(node.clone(), FailureScope::Node);
            } else if !usable.covers(rails) {
                lost.insert(node.clone(), FailureScope::Rails(rails.without(usable)));
            }
        }
        let causes = attempt.ending.as_ref().map_or(&[][..], |ending| &ending.causes);
        let own = first_to_fail(causes);
        let down = match (is_for_rail(causes), &own) {
            // Nobody else is believed: engines that are stopped for it lose their peers one by one.
            (true, _) => rails_named(causes, self.rails_alone(entry)),
            (false, None) => self.rails_down(entry),
            (false, Some(_)) => BTreeMap::new(),
        };
        for (node, rails) in down {
            lost.entry(node).or_insert(FailureScope::Rails(rails));
        }
        let unfit = causes.iter().filter(|cause| cause.code == ReasonCode::NotCertified).filter_map(node_of);
        lost.extend(unfit.map(|node| (node, FailureScope::Node)));
        if lost.is_empty()
            && let Some(node) = own.or_else(|| most_missed(causes))
        {
            lost.insert(node, FailureScope::Node);
        }
        lost
    }

    /// Rails that the job's engines see down on their own servers while most of the gang see them up. (What a node says of itself comes
    /// before: reports are up to a second old.) Links come up one by one: before its ranks have started, and before all have spoken,
    /// nothing is known.
    pub fn rails_down(&self, entry: &JobEntry) -> BTreeMap<NodeName, RailSet> {
        let view = |position: u32| self.base.views.get(&(entry.job.uid, position));
        let spoke = |position: u32| view(position).is_some_and(|view| !view.reports.is_empty());
        let down = self.rails_alone(entry);
        // Of two, both or the first say so, and which of them lost it only inventories tell.
        let most = down.len() * 2 >= gang_size(entry) as usize;
        let all = gang(entry).all(|(position, _)| spoke(position));
        if most || !all || entry.job.status.started.is_none() { BTreeMap::new() } else { down }
    }

    /// Rails on which the job's engine sees no peer at all, by its own word alone.
    fn rails_alone(&self, entry: &JobEntry) -> BTreeMap<NodeName, RailSet> {
        let mut down: BTreeMap<NodeName, RailSet> = BTreeMap::new();
        for (position, node) in gang(entry) {
            let Some(view) = self.base.views.get(&(entry.job.uid, position)) else { continue };
            let alone = |report: &&proto_model::RailReport| {
                report.state == Some(RailState::Down) && report.peers > 0 && report.peers_up == 0
            };
            let rails: RailSet = view.reports.iter().filter(alone).map(|report| report.rail).collect();
            if !rails.is_empty() {
                down.insert(node.clone(), rails);
            }
        }
        down
    }
}

impl State {
    /// Whether an attempt that is moved goes on elsewhere although nothing was repaired: it was stopped for a reason that is
    /// no failure.
    pub fn moves_anyway(&self, entry: &JobEntry, attempt: &Attempt) -> bool {
        let causes = attempt.ending.as_ref().map_or(&[][..], |ending| &ending.causes);
        let first = causes.first().map(|cause| &cause.code);
        moves_for_rail(entry, attempt)
            || matches!(first, Some(ReasonCode::RailsRemapped | ReasonCode::NodeDrained))
    }

    /// Not heard for longer than the limit, or gone.
    pub fn is_silent(&self, name: &NodeName) -> bool {
        self.base.nodes.get(name).is_none_or(|node| node.health == Health::NotReady)
    }
}
