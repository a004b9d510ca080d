//! Which nodes reservations keep, and from whom.

use std::{collections::BTreeMap, time::Duration};

use controller_scheduler::{NodeSet, Snapshot};
use controller_topology::NodeIx;
use proto_model::{ReservationName, Timestamp};

use crate::{
    defs::{ReservationDef, ReservedNodes},
    entry::Entry,
    tables::QueueState,
};

impl QueueState {
    /// Nodes that a job must not be given if it starts now, because they are reserved: for others before it would end,
    /// or, if it runs inside a reservation, all that are not part of that.
    #[must_use]
    pub fn kept_from(&self, entry: &Entry, snapshot: &Snapshot, now: Timestamp) -> NodeSet {
        if self.reservations.is_empty() {
            return NodeSet::default();
        }
        let kept = ActiveReservations::new(self, snapshot, now);
        let own = entry.reservation.as_ref().and_then(|name| kept.rows.get(name));
        if let Some((_, nodes)) = own {
            let outside = snapshot.topology().servers().map(|(ix, _)| ix).filter(|ix| !nodes.has(*ix));
            return outside.collect();
        }
        let length = self.length(entry);
        let length = entry.limit.unwrap_or(length).max(length);
        kept.in_the_way(entry, now, length).flat_map(|(_, nodes)| nodes.iter()).collect()
    }
}

/// Reservations that are not over, with their nodes.
#[derive(Debug, Default)]
pub(crate) struct ActiveReservations<'a> {
    pub(crate) rows: BTreeMap<&'a ReservationName, (&'a ReservationDef, NodeSet)>,
}

impl<'a> ActiveReservations<'a> {
    pub(crate) fn new(queue_state: &'a QueueState, snapshot: &Snapshot, now: Timestamp) -> Self {
        let mut rows = BTreeMap::new();
        for (name, def) in queue_state.reservations.iter().filter(|(_, def)| def.end() > now) {
            let others = |ix: NodeIx| {
                rows.values().any(|(other, nodes): &(&ReservationDef, NodeSet)| {
                    other.start < def.end() && def.start < other.end() && nodes.has(ix)
                })
            };
            let nodes = nodes(def, snapshot, others);
            rows.insert(name, (def, nodes));
        }
        Self { rows }
    }

    /// The windows in which a node is not for everybody.
    pub(crate) fn windows(&self, node: NodeIx) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        self.rows.values().filter(move |(_, nodes)| nodes.has(node)).map(|(def, _)| (def.start, def.end()))
    }

    /// The reservations into which a job of this length would run that starts now, and in which it has no place.
    pub(crate) fn in_the_way(
        &self,
        entry: &Entry,
        now: Timestamp,
        length: Duration,
    ) -> impl Iterator<Item = (&'a ReservationName, &NodeSet)> {
        let end = now.plus(length);
        let own = entry.reservation.clone();
        self.rows
            .iter()
            .filter(move |(name, (def, _))| def.start < end && own.as_ref() != Some(**name))
            .map(|(name, (_, nodes))| (*name, nodes))
    }
}

/// The nodes of a reservation. Those that are counted are taken in the order of places, from pods that have enough.
fn nodes(def: &ReservationDef, snapshot: &Snapshot, others: impl Fn(NodeIx) -> bool) -> NodeSet {
    let topology = snapshot.topology();
    match &def.nodes {
        ReservedNodes::Names(names) => names.iter().filter_map(|name| topology.index(name)).collect(),
        ReservedNodes::Count { nodes, pods_at_most } => {
            let mut pods: BTreeMap<u32, Vec<NodeIx>> = BTreeMap::new();
            for (ix, _) in topology.servers() {
                if snapshot.capacity(ix).gate.is_open()
                    && !others(ix)
                    && let Some((pod, _)) = snapshot.capacity_index().place(ix)
                {
                    pods.entry(pod).or_default().push(ix);
                }
            }
            let wanted = *nodes as usize;
            let mut pods: Vec<Vec<NodeIx>> = pods.into_values().collect();
            // The smallest pod that holds all; else the largest ones.
            pods.sort_by_key(|pod| {
                (pod.len() < wanted, if pod.len() < wanted { usize::MAX - pod.len() } else { pod.len() })
            });
            if *pods_at_most > 0 {
                pods.truncate(*pods_at_most as usize);
            }
            pods.into_iter().flatten().take(wanted).collect()
        }
    }
}
