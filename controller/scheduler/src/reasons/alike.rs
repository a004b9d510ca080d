//! Causes of gangs whose nodes are all alike.

use std::collections::BTreeMap;

use controller_topology::{RailSet, Server};
use proto_model::{IsolationFeature, IsolationSet, JobId, Reason, ReasonCode, Term, Thing, Toleration, many};

use super::host::{self, of_nodes};
use crate::{
    capacity_index::Models,
    choice::{Choice, Time},
    explain::{Blocker, Cause, WithheldNodes, summary},
    host::Host,
    place::{Need, Placer, RailNeed, Within},
    snapshot::{NodeSet, Snapshot},
};

/// Causes for which the job could never start on the cluster as it is described now: as if every node were ready and
/// idle and every NIC up. Each names the nearest right thing. Empty if it could.
#[must_use]
pub(super) fn infeasible(snapshot: &Snapshot, need: &Need, placer: &mut Placer) -> Vec<Reason> {
    let topology = snapshot.topology();
    let (nodes, rails, wanted) = (topology.len(), topology.rails(), need.nodes as usize);
    let mut reasons = Vec::new();
    if nodes == 0 {
        reasons.push(Reason::new(ReasonCode::NoNodes, "no node has joined the cluster yet"));
        return reasons;
    }
    if wanted > nodes {
        let message = format!("the job asks for {}, the cluster has {nodes}", many(wanted, "node"));
        reasons.push(Reason::new(ReasonCode::NodeCount, message).count(wanted - nodes));
    }
    let asked = need.rail_count();
    if asked > rails {
        let message = format!("the job asks for {}, the fabric has {rails}", many(asked, "rail"));
        reasons.push(Reason::new(ReasonCode::RailCount, message).count((asked - rails) as usize));
    }
    if need.nodes > 1 && asked == 0 {
        let message = "a gang of several nodes needs a rail, the fabric has none".to_owned();
        reasons.push(Reason::new(ReasonCode::NoRails, message));
    }
    let shapes = Shapes::count(snapshot, need);
    shapes.gpus(need, nodes, &mut reasons);
    let wanted = wanted.min(nodes);
    if asked <= rails && shapes.with_rails < wanted {
        let what = match need.rails {
            RailNeed::Exactly(set) if set.len() == 1 => format!("a cabled NIC on rail {set}"),
            RailNeed::Exactly(set) => format!("a cabled NIC on each of rails {set}"),
            RailNeed::Any(count) => format!("cabled NICs on {}", many(count, "rail")),
        };
        let with = shapes.with_rails;
        let asked = many(need.nodes, "node");
        let message = format!("the job asks for {asked} with {what}, {} that", of_nodes(with, nodes));
        reasons.push(Reason::new(ReasonCode::RailShape, message).count(nodes - with));
        reasons.extend(dead_rails(snapshot, need, |server| server.present));
    }
    labels(snapshot, need, nodes, &mut reasons);
    models(snapshot, need, nodes, &mut reasons);
    host::shapes(snapshot, need, nodes, &mut reasons);
    for size in need.uneven_groups() {
        let message = format!(
            "groups of {} do not divide the gang of {} and one another without rest",
            many(size, "node"),
            many(need.nodes, "node")
        );
        reasons.push(Reason::new(ReasonCode::GroupSize, message).count(size as usize));
    }
    let healed = healed(need);
    let mut fits = |need: &Need| {
        placer.choose_at(snapshot.capacity_index(), need, None, Time::Healed, &mut Choice::default())
    };
    if reasons.is_empty() && !fits(&healed) {
        misfits(&healed, &shapes, &mut fits, &mut reasons);
    }
    reasons
}

/// What a gang needs of nodes that are as they should be. Taints come and go like other troubles of nodes; and an administrator may repair
/// what a node lacks of isolation.
pub(super) fn healed(need: &Need) -> Need {
    need.with_filter(|filter| {
        filter.tolerations = vec![Toleration { key: None, value: None }];
        filter.isolation = IsolationSet::EMPTY;
        filter.avoid_drained = None;
    })
}

/// The gang as a whole does not fit, although there are nodes enough: what of it is too much.
fn misfits(
    need: &Need,
    shapes: &Shapes<'_>,
    fits: &mut impl FnMut(&Need) -> bool,
    reasons: &mut Vec<Reason>,
) {
    let (asked, nodes) = (need.rail_count(), many(need.nodes, "node"));
    let mut without = |less: Need, code: ReasonCode, message: String| {
        if less != *need && fits(&less) {
            reasons.push(Reason::new(code, message).count(need.nodes as usize));
        }
    };
    let inside = match need.within {
        Within::Leaves => "on the same leaves",
        Within::Pod => "in one pod",
        Within::Fabric => "in the fabric",
    };
    let message = format!("no place has {nodes} that would do {inside}; allow a wider one (within)");
    without(Need { within: Within::Fabric, ..need.clone() }, ReasonCode::PlaceShape, message);
    let mut split = need.clone();
    split.groups.iter_mut().for_each(|group| group.required = false);
    let message = "the gang's groups cannot all lie together; let them be split (required: false)".to_owned();
    without(split, ReasonCode::GroupShape, message);
    let spares = many(need.spares, "spare");
    let message = format!("the job asks for {nodes} and {spares}, there are not so many");
    without(Need { spares: 0, ..need.clone() }, ReasonCode::SpareShape, message);
    let message =
        format!("too few of {nodes} have its CPUs and memory beside all else that the job asks for");
    without(Need { host: Host::NONE, ..need.clone() }, host::code(need), message);
    let nodes_of = |count: usize| match count {
        1 => "the node".to_owned(),
        more => format!("the {more} nodes"),
    };
    let excluded = nodes_of(need.exclude.len());
    let message = match &need.only {
        None => format!("without {excluded} that the job excludes there are too few"),
        Some(only) => {
            format!("among {} that the job names as the only ones there are too few", nodes_of(only.len()))
        }
    };
    without(Need { exclude: Vec::new(), only: None, ..need.clone() }, ReasonCode::ExcludedNodes, message);
    if reasons.is_empty() {
        let both = shapes.both;
        let message = if both < need.nodes as usize {
            let have = if both == 1 { "has" } else { "have" };
            let both = many(both, "node");
            format!("the job asks for {nodes} with both its GPUs and its rails, {both} {have} both")
        } else if need.within == Within::Fabric && need.groups.is_empty() {
            let rails = if asked == 1 { "no rail is".to_owned() } else { format!("no {asked} rails are") };
            format!("{rails} common to {nodes}")
        } else if need.nodes == 1 {
            "no node fulfils all that the job asks of its place".to_owned()
        } else {
            format!("no {nodes} fulfil together all that the job asks of its place")
        };
        reasons.push(Reason::new(ReasonCode::GangShape, message).count(need.nodes as usize));
    }
}

/// Conditions on labels that too few nodes fulfil, and all of them together.
fn labels(snapshot: &Snapshot, need: &Need, nodes: usize, reasons: &mut Vec<Reason>) {
    let selector = &need.filter.selector;
    if selector.is_empty() {
        return;
    }
    let mut with = vec![0_usize; selector.len() + 1];
    for (class, count) in snapshot.capacity_index().class_sizes() {
        let holds: Vec<bool> = selector.iter().map(|term| term.holds(&class.labels)).collect();
        holds.iter().zip(&mut with).filter(|(yes, _)| **yes).for_each(|(_, with)| *with += count);
        with[selector.len()] += if holds.iter().all(|yes| *yes) { count } else { 0 };
    }
    let wanted = (need.nodes as usize).min(nodes);
    let before = reasons.len();
    for (term, with) in selector.iter().zip(&with).filter(|(_, with)| **with < wanted) {
        let (asked, have) = (many(wanted, "node"), of_nodes(*with, nodes));
        let message = format!("the job asks for {asked} with label {}, {have} it", term_text(term));
        reasons.push(
            Reason::new(ReasonCode::LabelShape, message)
                .count(nodes - with)
                .scope(format!("label/{}", keys(term))),
        );
    }
    let all = with[selector.len()];
    if reasons.len() == before && all < wanted {
        let (asked, have) = (many(wanted, "node"), of_nodes(all, nodes));
        let message = format!("the job asks for {asked} with all of its labels, {have} them");
        reasons.push(Reason::new(ReasonCode::LabelShape, message).count(nodes - all));
    }
}

/// Models of GPU in one reason at most.
const MODELS: usize = 8;

/// Too few nodes have GPUs of the models that will do, and which models there are.
fn models(snapshot: &Snapshot, need: &Need, nodes: usize, reasons: &mut Vec<Reason>) {
    let (mut with, mut unknown, mut there) = (0, 0, BTreeMap::new());
    if need.filter.gpu_models.is_empty() && !need.filter.whole_gpus {
        return;
    }
    for (class, count) in snapshot.capacity_index().class_sizes() {
        match need.filter.models(class) {
            Models::Asked => with += count,
            Models::Unknown => unknown += count,
            Models::Others => {}
        }
        for kind in class.gpu_kinds.iter().filter(|kind| !kind.name.is_empty()) {
            *there.entry(kind.name.as_str()).or_insert(0_usize) += count;
        }
    }
    let wanted = (need.nodes as usize).min(nodes);
    if with >= wanted {
        return;
    }
    let (asked, have) = (many(wanted, "node"), of_nodes(with, nodes));
    let mut message = format!("the job asks for {asked} with {}, {have} them", gpus_text(need));
    let listed: Vec<String> =
        there.iter().take(MODELS).map(|(model, nodes)| format!("{model} ({nodes})")).collect();
    if !listed.is_empty() {
        let more = if there.len() > MODELS { ", and others" } else { "" };
        message.push_str(&format!("; there are: {}{more}", listed.join(", ")));
    }
    if unknown > 0 {
        message.push_str(&format!("; {} not told by the agent", of_unknown(unknown)));
    }
    reasons.push(Reason::new(ReasonCode::GpuModelShape, message).count(nodes - with));
}

fn of_unknown(nodes: usize) -> String {
    if nodes == 1 { "on 1 node it is".to_owned() } else { format!("on {nodes} nodes it is") }
}

/// The GPUs that will do.
fn gpus_text(need: &Need) -> String {
    if need.filter.gpu_models.is_empty() {
        "whole GPUs (MIG instances go to jobs that name their profile as GPU model)".to_owned()
    } else {
        format!("GPUs of model {}", model_text(need))
    }
}

/// The models of GPU that will do.
fn model_text(need: &Need) -> String {
    let models: Vec<&str> = need.filter.gpu_models.iter().map(proto_model::GpuModel::as_str).collect();
    models.join(" or ")
}

/// The labels that a condition looks at.
fn keys(term: &Term) -> String {
    term.alternatives().map(Term::key).collect::<Vec<_>>().join("|")
}

/// A condition on labels as people write it.
#[must_use]
pub fn term_text(term: &Term) -> String {
    let list = |values: &std::collections::BTreeSet<String>| {
        values.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    match term {
        Term::In(key, values) => format!("{key} in ({})", list(values)),
        Term::NotIn(key, values) => format!("{key} not in ({})", list(values)),
        Term::Exists(key) => key.clone(),
        Term::Absent(key) => format!("!{key}"),
        Term::Any(terms) => terms.iter().map(term_text).collect::<Vec<_>>().join(" or "),
    }
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
        let (asked, gpus) = (need.gpus, many(need.gpus, "GPU"));
        if let Some((most, server)) = self.largest.filter(|(most, _)| *most < asked) {
            let name = &server.name;
            let message = format!("the job asks for {gpus} per node, the largest node has {most} ({name})");
            reasons
                .push(Reason::new(ReasonCode::GpuShape, message).count(nodes).scope(format!("node/{name}")));
        } else if self.with_gpus < (need.nodes as usize).min(nodes) {
            let with = self.with_gpus;
            let (asked, have) = (many(need.nodes, "node"), of_nodes(with, nodes));
            let message = format!("the job asks for {asked} with {gpus}, {have} so many");
            reasons.push(Reason::new(ReasonCode::GpuShape, message).count(nodes - with));
        }
    }
}

/// Causes for which the gang cannot be placed now, although it could be on an idle cluster. Empty if there is room.
#[must_use]
pub(super) fn not_now(snapshot: &Snapshot, need: &Need, reserved: Option<(&NodeSet, &JobId)>) -> Vec<Reason> {
    let thing = reserved.map(|(_, job)| Thing::Job(job.clone()));
    let kept = reserved.zip(thing.as_ref()).map(|((nodes, _), thing)| WithheldNodes { thing, nodes });
    let found = summary(snapshot, need, kept.as_slice());
    if found.reach >= need.nodes {
        return Vec::new();
    }
    let mut reasons = vec![capacity(need, found.nodes, found.free, found.reach)];
    reasons.extend(found.blockers.iter().map(|blocker| remediated(snapshot, blocker, reason(need, blocker))));
    reasons.extend(dead_rails(snapshot, need, |server| server.usable));
    reasons
}

/// What would help against nodes that do not keep jobs apart as is demanded, by the first of them.
fn remediated(snapshot: &Snapshot, blocker: &Blocker, mut reason: Reason) -> Reason {
    let wanted = match blocker.cause {
        Cause::Isolation(feature) => feature,
        Cause::OtherTenant => IsolationFeature::UidPerAttempt,
        _ => return reason,
    };
    let lacks = |server: &&Server| !server.inventory.isolation.active().has(wanted);
    let first = snapshot.nodes().map(|(_, server, _)| server).filter(lacks).min_by_key(|server| &server.name);
    if let Some(server) = first {
        let states = server.inventory.isolation.states().iter();
        let state = states.filter(|state| state.feature == wanted).find(|state| !state.fix.is_empty());
        let fix = state
            .map_or("upgrade rail-node-agent there, which says nothing of isolation", |state| &state.fix);
        reason.message.push_str(&format!("; on {}: {fix}", server.name));
    }
    reason
}

/// Rails that the gang requires and that no node at all can give, and what to write to start on the others:
/// `allowPartial` alone does not say that fewer will do.
fn dead_rails(snapshot: &Snapshot, need: &Need, of: impl Fn(&Server) -> RailSet) -> Option<Reason> {
    let alive = snapshot.nodes().fold(RailSet::EMPTY, |set, (_, server, _)| set.or(of(server)));
    let all = RailSet::first(snapshot.topology().rails());
    let asked = need.rail_count();
    let dead = match need.rails {
        RailNeed::Exactly(rails) => rails.without(alive),
        RailNeed::Any(count) if alive.len() < count => all.without(alive),
        RailNeed::Any(_) => RailSet::EMPTY,
    };
    let left = alive.len().min(asked);
    if dead.is_empty() || left == 0 {
        return None;
    }
    let (rails, work) = if dead.len() == 1 { ("rail", "works") } else { ("rails", "work") };
    let living = if left == 1 { "the one that works" } else { "those that work" };
    let message = format!(
        "{rails} {dead} {work} on no node, and a job never starts on fewer rails than it requires ({asked}); to start on \
         {living}, write rails: {{required: {left}, allowPartial: true}}"
    );
    Some(Reason::new(ReasonCode::RailDead, message).count(dead.len() as usize))
}

/// How many nodes of the gang are missing.
#[must_use]
pub fn capacity(need: &Need, nodes: u32, free: u32, reach: u32) -> Reason {
    let missing = need.nodes.saturating_sub(reach);
    let together =
        if reach < free.min(need.nodes) { format!(", {reach} of them as one gang") } else { String::new() };
    let spares = if need.spares > 0 { format!(" and {}", many(need.spares, "spare")) } else { String::new() };
    let message = format!(
        "{free} of {} could be had now{together}; the job needs {}{spares}, {missing} more must become free",
        many(nodes, "node"),
        need.nodes
    );
    Reason::new(ReasonCode::GangCapacity, message).count(missing as usize)
}

/// A constraint in words. The code says what kind it is, the scope which one.
#[must_use]
pub fn reason(need: &Need, blocker: &Blocker) -> Reason {
    let Blocker { cause, lost, .. } = blocker;
    let reason = match cause {
        Cause::Withheld(thing) => {
            let (code, ahead) = match thing {
                Thing::Job(_) => (ReasonCode::ReservedAhead, ", which is ahead in the queue"),
                Thing::Reservation { .. } => (ReasonCode::Reserved, ""),
            };
            Reason::about(code, thing, |name, _| sentence(blocker, &format!("ARE kept for {name}{ahead}")))
        }
        cause => {
            let (code, scope, what) = words(need, cause);
            Reason::new(code, sentence(blocker, &what)).scope(scope)
        }
    };
    reason.count(*lost as usize)
}

/// What is so of how many nodes.
fn sentence(blocker: &Blocker, what: &str) -> String {
    let Blocker { cause, lost, alone } = blocker;
    let (nodes, have, are) = if *lost == 1 { ("node", "has", "is") } else { ("nodes", "have", "are") };
    let what = what.replacen("HAVE", have, 1).replacen("ARE", are, 1);
    match cause {
        Cause::Quota => format!("{} more than {what}", many(lost, "GPU")),
        cause if cause.is_of_gang() => format!("{what}: {lost} {nodes} fewer for the gang"),
        _ if alone == lost => format!("{lost} {nodes} {what}"),
        _ if *lost == 1 => format!("1 node {what}; it has other causes too"),
        _ if *alone == 0 => format!("{lost} nodes {what}; each of them has other causes too"),
        _ => format!("{lost} nodes {what}; for {alone} of them that is the only cause"),
    }
}

/// Fewer things than are asked for.
fn fewer(asked: u32, what: &str) -> String {
    if asked == 1 { format!("no {what}") } else { format!("fewer than {asked} {what}s") }
}

fn words(need: &Need, cause: &Cause) -> (ReasonCode, String, String) {
    if let Some((code, what)) = host::words(need, cause) {
        return (code, String::new(), what);
    }
    let (gpus, rails) = (need.gpus, need.rail_count());
    let rail = |rail: &Option<u32>| rail.map_or(String::new(), |rail| format!("rail/{rail}"));
    let nics = |rail: &Option<u32>, of_one: &str, of_all: String| match rail {
        Some(rail) => format!("HAVE {of_one} rail {rail}"),
        None => format!("HAVE {of_all}"),
    };
    let text = str::to_owned;
    match cause {
        Cause::GpuShape => {
            (ReasonCode::GpuShape, String::new(), format!("HAVE {}, even when idle", fewer(gpus, "GPU")))
        }
        Cause::GpusHeld => {
            (ReasonCode::GpuCapacity, String::new(), format!("HAVE {} free", fewer(gpus, "GPU")))
        }
        Cause::HeldAlone | Cause::Shared | Cause::OtherTenant | Cause::Isolation(_) => apart_words(cause),
        Cause::RailMissing(at) => {
            (ReasonCode::RailMissing, rail(at), nics(at, "no cabled NIC on", fewer(rails, "cabled NIC")))
        }
        Cause::RailDown(at) => match at {
            Some(one) => (ReasonCode::RailDown, rail(at), format!("HAVE the NIC of rail {one} down")),
            None => (ReasonCode::RailDown, rail(at), format!("HAVE {} up", fewer(rails, "NIC"))),
        },
        Cause::RailHeld(at) => match at {
            Some(one) => {
                (ReasonCode::RailBusy, rail(at), format!("HAVE the NIC of rail {one} held by another job"))
            }
            None if rails == 1 => (ReasonCode::RailBusy, rail(at), text("HAVE every NIC held by other jobs")),
            None => {
                (ReasonCode::RailBusy, rail(at), format!("HAVE fewer than {rails} NICs that no job holds"))
            }
        },
        Cause::RailDrained if rails == 1 => {
            (ReasonCode::RailDrained, String::new(), text("HAVE the rail drained"))
        }
        Cause::RailDrained => (ReasonCode::RailDrained, String::new(), text("HAVE rails drained")),
        Cause::Unschedulable | Cause::NotReady | Cause::Away | Cause::Draining | Cause::Excluded => {
            closed_words(cause)
        }
        Cause::Label(term) => (
            ReasonCode::LabelMismatch,
            format!("label/{}", keys(term)),
            match term {
                Term::Any(_) => format!("HAVE none of the labels {}", term_text(term)),
                _ => format!("HAVE not the label {}", term_text(term)),
            },
        ),
        Cause::GpuModel => {
            (ReasonCode::GpuModelMismatch, String::new(), format!("HAVE not only {}", gpus_text(need)))
        }
        Cause::GpuModelUnknown => {
            let what =
                format!("HAVE GPUs of which nobody knows whether they are of model {}", model_text(need));
            (ReasonCode::GpuModelUnknown, String::new(), what)
        }
        Cause::Taint(taint) => {
            let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
            let what = format!("HAVE the taint {}{value}, which the job does not tolerate", taint.key);
            (ReasonCode::NodeTaint, format!("taint/{}", taint.key), what)
        }
        _ => gang_words(need, cause),
    }
}

/// What is said of nodes that take no new job at the moment, or not this one.
fn closed_words(cause: &Cause) -> (ReasonCode, String, String) {
    let (code, what) = match cause {
        Cause::Unschedulable => {
            (ReasonCode::NodeUnschedulable, "ARE marked unschedulable by an administrator")
        }
        Cause::NotReady => (ReasonCode::NodeNotReady, "ARE not heard from"),
        Cause::Excluded => (ReasonCode::NodeExcluded, "ARE excluded by the job"),
        Cause::Draining => (ReasonCode::NodeDraining, "ARE still ending processes of an older attempt"),
        _ => (ReasonCode::NodeAway, "ARE not connected at the moment"),
    };
    (code, String::new(), what.to_owned())
}

fn apart_words(cause: &Cause) -> (ReasonCode, String, String) {
    match cause {
        Cause::HeldAlone => {
            let what = "ARE held by a job that wants nobody beside it";
            (ReasonCode::NodeExclusive, String::new(), what.to_owned())
        }
        Cause::Shared => {
            let what = "ARE held in part, and the job wants nobody beside it";
            (ReasonCode::NodeShared, String::new(), what.to_owned())
        }
        Cause::Isolation(feature) => (
            ReasonCode::IsolationMissing,
            format!("isolation/{feature}"),
            format!("HAVE no {feature}, which isolation REQUIRED asks for"),
        ),
        _ => {
            let what = "HAVE a job of another tenant and cannot keep two apart, for they give no user to each attempt";
            (ReasonCode::NodeNotShared, String::new(), what.to_owned())
        }
    }
}

fn gang_words(need: &Need, cause: &Cause) -> (ReasonCode, String, String) {
    let rails = need.rail_count();
    let text = str::to_owned;
    match cause {
        Cause::Confined(Within::Leaves) => {
            (ReasonCode::LeafCapacity, String::new(), text("the gang must stay on the same leaves"))
        }
        Cause::Confined(_) => (ReasonCode::PodCapacity, String::new(), text("the gang must stay in one pod")),
        Cause::Grouped(group) => {
            let place = if group.within == Within::Leaves { "on the same leaves" } else { "in one pod" };
            (
                ReasonCode::GroupCapacity,
                format!("group/{}", group.size),
                format!("groups of {} must stay {place}", many(group.size, "node")),
            )
        }
        Cause::Aligned => (
            ReasonCode::RailAlignment,
            String::new(),
            match rails {
                1 => text("all nodes must share a rail that joins them"),
                _ => format!("all nodes must share {rails} rails that join them"),
            },
        ),
        Cause::Spares => {
            let are = if need.spares == 1 { "is" } else { "are" };
            let spares = many(need.spares, "spare");
            (ReasonCode::SpareCapacity, String::new(), format!("{spares} {are} to idle beside it"))
        }
        _ => (ReasonCode::QuotaExceeded, String::new(), text("the tenant may take now")),
    }
}
