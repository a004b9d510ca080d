//! A gang with what is left of it.

use crate::FailureScope;
use crate::RepairRequest;
use controller_topology::RailSet;
use proto_model::{NodeName, NodePlace, Reason, ReasonCode};

use crate::{
    capacity_index::Pick,
    place::{Need, RailNeed},
    snapshot::Snapshot,
};

/// The nodes of a gang and its spares as the snapshot knows them, with what each has lost: names are looked up once.
pub(crate) struct Known {
    pub(crate) nodes: Vec<(Option<Pick>, Option<FailureScope>)>,
    pub(crate) spares: Vec<(Option<Pick>, Option<FailureScope>)>,
}

impl Known {
    pub(crate) fn of(snapshot: &Snapshot, request: &RepairRequest<'_>) -> Self {
        let topology = snapshot.topology();
        let find = |place: &NodePlace| {
            let gpus = place.gpus.iter().filter(|gpu| **gpu < crate::capacity::GPUS_MAX);
            let gpus = gpus.fold(0, |set, gpu| set | 1 << gpu);
            let pick = topology.index(&place.node).map(|node| Pick { node, gpus });
            (pick, request.lost.get(&place.node).copied())
        };
        let all = |places: &[NodePlace]| places.iter().map(find).collect();
        Self { nodes: all(&request.placement.nodes), spares: all(&request.placement.spares) }
    }
}

/// The nodes of a gang, with what is left of it.
pub(crate) struct Gang {
    /// In rank order: the node and its GPUs, and whether it stays. A lost one may be unknown.
    pub(crate) seats: Vec<(Option<Pick>, bool)>,
    /// Places of the lost ones, ascending.
    pub(crate) open: Vec<usize>,
    /// Spares that are left, by place.
    pub(crate) spares: Vec<Pick>,
    pub(crate) spares_lost: Vec<NodeName>,
}

impl Gang {
    /// The first place that is to be filled anew.
    pub(crate) fn first_open(&self) -> usize {
        self.open.first().copied().unwrap_or(0)
    }

    pub(crate) fn of(
        snapshot: &Snapshot,
        request: &RepairRequest<'_>,
        known: &Known,
        rails: RailSet,
    ) -> Result<Self, Vec<Reason>> {
        let (topology, need) = (snapshot.topology(), request.need);
        let stays = |loss: Option<FailureScope>| match loss {
            None => true,
            Some(FailureScope::Node) => false,
            Some(FailureScope::Rails(lost)) => lost.and(rails).is_empty(),
        };
        let mut gang =
            Self { seats: Vec::new(), open: Vec::new(), spares: Vec::new(), spares_lost: Vec::new() };
        let mut unknown = Vec::new();
        for (at, (place, (pick, loss))) in request.placement.nodes.iter().zip(&known.nodes).enumerate() {
            let (pick, stays) = (*pick, stays(*loss));
            if !stays {
                gang.open.push(at);
            } else if pick.is_none() {
                let message = format!(
                    "node '{}' of the gang is not in the cluster any more, so nobody knows where it stands",
                    place.node
                );
                unknown.push(
                    Reason::new(ReasonCode::NodeUnknown, message).scope(format!("node/{}", place.node)),
                );
            }
            gang.seats.push((pick, stays));
        }
        for (place, (pick, loss)) in request.placement.spares.iter().zip(&known.spares) {
            let usable = |pick: &Pick| {
                let server = topology.server(pick.node);
                stays(*loss)
                    && snapshot.capacity(pick.node).gate.is_open()
                    && !need
                        .tenant
                        .as_ref()
                        .is_some_and(|tenant| snapshot.capacity_index().is_closed_to(pick.node, tenant))
                    && snapshot
                        .capacity_index()
                        .traits(pick.node)
                        .is_some_and(|traits| traits.isolation.has_all(need.filter.isolation))
                    && server.is_some_and(|server| server.usable.covers(rails))
            };
            if let Some(pick) = pick.filter(usable) {
                gang.spares.push(pick);
            }
            if !stays(*loss) {
                gang.spares_lost.push(place.node.clone());
            }
        }
        if unknown.is_empty() { Ok(gang) } else { Err(unknown) }
    }
}

/// What one replacement of the node at a position of the gang must give.
pub(crate) fn part(need: &Need, position: usize, rails: RailSet) -> Need {
    let one = need.at(position);
    Need {
        filter: one.filter,
        exclude: one.exclude,
        only: one.only,
        host: one.host,
        exclusive: one.exclusive,
        tenant: one.tenant,
        ..Need::plain(1, one.gpus, RailNeed::Exactly(rails))
    }
}
