//! Every cause for which a gang cannot be placed, with counts: never only the first.

use controller_topology::{RailSet, Server};
use proto_model::{JobId, Reason};

use crate::{
    place::{Choice, Need, Placer, RailNeed, Time},
    snapshot::{Capacity, NodeSet, Snapshot},
};

/// Causes for which the job could never start on the cluster as it is described now: as if every node were ready and
/// idle and every NIC up. Each names the nearest right thing. Empty if it could.
#[must_use]
pub fn infeasible(snapshot: &Snapshot, need: &Need, placer: &mut Placer) -> Vec<Reason> {
    let topology = snapshot.topology();
    let (nodes, rails, wanted) = (topology.len(), topology.rails(), need.nodes as usize);
    let mut reasons = Vec::new();
    if nodes == 0 {
        reasons.push(Reason::new("NoNodes", "no node has joined the cluster yet"));
        return reasons;
    }
    if wanted > nodes {
        let message = format!("the job asks for {wanted} nodes, the cluster has {nodes}");
        reasons.push(Reason::new("NodeCount", message).count(wanted - nodes));
    }
    let asked = need.rail_count();
    if asked > rails {
        let message = format!("the job asks for {asked} rails, the fabric has {rails}");
        reasons.push(Reason::new("RailCount", message).count((asked - rails) as usize));
    }
    if need.nodes > 1 && asked == 0 {
        let message = "a gang of several nodes needs a rail, the fabric has none".to_owned();
        reasons.push(Reason::new("NoRails", message));
    }
    let shapes = Shapes::count(snapshot, need);
    shapes.gpus(need, nodes, &mut reasons);
    let wanted = wanted.min(nodes);
    if asked <= rails && shapes.with_rails < wanted {
        let what = match need.rails {
            RailNeed::Exactly(set) => format!("a cabled NIC on each of rails {set}"),
            RailNeed::Any(count) => format!("cabled NICs on {count} rails"),
        };
        let with = shapes.with_rails;
        let message =
            format!("the job asks for {} nodes with {what}, {with} of {nodes} nodes have that", need.nodes);
        reasons.push(Reason::new("RailShape", message).count(nodes - with));
    }
    if reasons.is_empty()
        && !placer.choose_at(snapshot.yard(), need, None, Time::Healed, &mut Choice::default())
    {
        let both = shapes.both;
        let message = if both < need.nodes as usize {
            format!(
                "the job asks for {} nodes with both its GPUs and its rails, {both} of {nodes} nodes have both",
                need.nodes
            )
        } else {
            format!("no {asked} rails are common to {} nodes", need.nodes)
        };
        reasons.push(Reason::new("GangShape", message).count(need.nodes as usize));
    }
    reasons
}

/// Which nodes have the shape, busy or not.
struct Shapes<'a> {
    with_gpus: usize,
    with_rails: usize,
    both: usize,
    largest: Option<(u32, &'a Server)>,
}

impl<'a> Shapes<'a> {
    fn count(snapshot: &'a Snapshot, need: &Need) -> Self {
        let mut shapes = Self { with_gpus: 0, with_rails: 0, both: 0, largest: None };
        for (_, server, capacity) in snapshot.nodes() {
            let gpus = capacity.gpus.count_ones();
            if shapes.largest.is_none_or(|(most, other)| (gpus, &other.name) > (most, &server.name)) {
                shapes.largest = Some((gpus, server));
            }
            let (gpus, rails) = (gpus >= need.gpus, need.rails_in(server.present));
            shapes.with_gpus += usize::from(gpus);
            shapes.with_rails += usize::from(rails);
            shapes.both += usize::from(gpus && rails);
        }
        shapes
    }

    fn gpus(&self, need: &Need, nodes: usize, reasons: &mut Vec<Reason>) {
        let asked = need.gpus;
        if let Some((most, server)) = self.largest.filter(|(most, _)| *most < asked) {
            let name = &server.name;
            let message =
                format!("the job asks for {asked} GPUs per node, the largest node has {most} ({name})");
            reasons.push(Reason::new("GpuShape", message).count(nodes).scope(format!("node/{name}")));
        } else if self.with_gpus < (need.nodes as usize).min(nodes) {
            let with = self.with_gpus;
            let message = format!(
                "the job asks for {} nodes with {asked} GPUs, {with} of {nodes} nodes have so many",
                need.nodes
            );
            reasons.push(Reason::new("GpuShape", message).count(nodes - with));
        }
    }
}

/// Counts of nodes by cause.
#[derive(Default)]
struct Counts {
    free: usize,
    shape: usize,
    unschedulable: usize,
    not_ready: usize,
    away: usize,
    draining: usize,
    gpus: usize,
    reserved: usize,
    /// Per rail: missing, down, held by others.
    rails: std::collections::BTreeMap<u32, [usize; 3]>,
    /// Nodes with too few rails of any kind, where any will do: in all, without what is down, without what is held.
    few: [usize; 3],
}

/// Causes for which the gang cannot be placed now, although it could be on an idle cluster.
#[must_use]
pub fn not_now(snapshot: &Snapshot, need: &Need, reserved: Option<(&NodeSet, &JobId)>) -> Vec<Reason> {
    let mut counts = Counts::default();
    for (ix, server, capacity) in snapshot.nodes() {
        let kept = reserved.is_some_and(|(nodes, _)| nodes.has(ix));
        counts.add(need, server, capacity, kept);
    }
    let total = snapshot.topology().len();
    let mut reasons = Vec::new();
    let missing = (need.nodes as usize).saturating_sub(counts.free);
    if missing > 0 {
        let message = format!(
            "{} of the {} nodes that the job needs can take it now ({total} nodes in all); {missing} more must become free",
            counts.free, need.nodes
        );
        reasons.push(Reason::new("GangCapacity", message).count(missing));
    } else {
        let message = format!(
            "{} nodes are free, no {} rails are free on {} of them at once",
            counts.free,
            need.rail_count(),
            need.nodes
        );
        reasons.push(Reason::new("RailAlignment", message).count(need.nodes as usize));
    }
    counts.report(need, reserved.map(|(_, job)| job), &mut reasons);
    reasons
}

/// Rails of a node that are up and that nobody holds.
fn free_rails(server: &Server, capacity: &Capacity) -> RailSet {
    if capacity.held.whole { RailSet::EMPTY } else { server.usable.without(capacity.held.rails) }
}

impl Counts {
    fn add(&mut self, need: &Need, server: &Server, capacity: &Capacity, kept: bool) {
        if capacity.gpus.count_ones() < need.gpus || !need.rails_in(server.present) {
            self.shape += 1;
            self.rails(need, server, capacity);
            return;
        }
        let gate = capacity.gate;
        self.unschedulable += usize::from(gate.unschedulable);
        self.not_ready += usize::from(gate.not_ready);
        self.away += usize::from(gate.away && !gate.not_ready);
        self.draining += usize::from(gate.draining);
        let few_gpus = capacity.free_gpus().count_ones() < need.gpus;
        self.gpus += usize::from(few_gpus);
        self.rails(need, server, capacity);
        let rails = need.rails_in(free_rails(server, capacity));
        self.reserved += usize::from(kept);
        self.free += usize::from(gate.is_open() && !few_gpus && rails && !kept);
    }

    fn rails(&mut self, need: &Need, server: &Server, capacity: &Capacity) {
        let free = free_rails(server, capacity);
        match need.rails {
            RailNeed::Any(_) => {
                let at = if !need.rails_in(server.present) {
                    0
                } else if !need.rails_in(server.usable) {
                    1
                } else if !need.rails_in(free) {
                    2
                } else {
                    return;
                };
                self.few[at] += 1;
            }
            RailNeed::Exactly(set) => {
                let mut count = |set: RailSet, kind: usize| {
                    for rail in set.iter() {
                        self.rails.entry(rail).or_default()[kind] += 1;
                    }
                };
                count(set.without(server.present), 0);
                count(set.and(server.present).without(server.usable), 1);
                count(set.and(server.usable).and(capacity.held.rails), 2);
            }
        }
    }

    fn report(&self, need: &Need, ahead: Option<&JobId>, reasons: &mut Vec<Reason>) {
        let mut add = |code: &'static str, count: usize, scope: String, what: &str| {
            if count > 0 {
                let (nodes, verb) = if count == 1 { ("node", "has") } else { ("nodes", "have") };
                let message = format!(
                    "{count} {nodes} {}",
                    what.replacen("HAVE", verb, 1).replacen("ARE", if count == 1 { "is" } else { "are" }, 1)
                );
                reasons.push(Reason::new(code, message).count(count).scope(scope));
            }
        };
        add(
            "NodeShape",
            self.shape,
            String::new(),
            &format!(
                "HAVE too few GPUs or rails for the job ({} GPUs, {} rails), even when idle",
                need.gpus,
                need.rail_count()
            ),
        );
        add("GpuCapacity", self.gpus, String::new(), &format!("HAVE fewer than {} GPUs free", need.gpus));
        for (rail, [missing, down, held]) in &self.rails {
            let scope = format!("rail/{rail}");
            add("RailMissing", *missing, scope.clone(), &format!("HAVE no cabled NIC on rail {rail}"));
            add("RailDown", *down, scope.clone(), &format!("HAVE the NIC of rail {rail} down"));
            add("RailBusy", *held, scope, &format!("HAVE the NIC of rail {rail} held by another job"));
        }
        let count = need.rail_count();
        add("RailMissing", self.few[0], String::new(), &format!("HAVE fewer than {count} cabled NICs"));
        add("RailDown", self.few[1], String::new(), &format!("HAVE fewer than {count} NICs up"));
        add(
            "RailBusy",
            self.few[2],
            String::new(),
            &format!("HAVE fewer than {count} NICs that no job holds"),
        );
        add(
            "NodeUnschedulable",
            self.unschedulable,
            String::new(),
            "ARE marked unschedulable by an administrator",
        );
        add("NodeNotReady", self.not_ready, String::new(), "ARE not heard from");
        add("NodeAway", self.away, String::new(), "ARE not connected at the moment");
        add("NodeDraining", self.draining, String::new(), "ARE still ending processes of an older try");
        if let Some(job) = ahead {
            add(
                "ReservedAhead",
                self.reserved,
                format!("job/{job}"),
                &format!("ARE kept for job '{job}', which is ahead in the queue"),
            );
        }
    }
}
