//! What a job asks of its place and its turn: placement, dependencies, preemption, repair.

use std::collections::BTreeSet;

use proto_model::{
    Arrange, ArrayPlace, ArraySpec, Certification, Dependency, DependencyWhen, Eta, FailurePolicy, GpuModel,
    Group, JobName, Names, NodeName, Pattern, PlacementRequest, Preemption, Promise, RailLoss, Replace,
    Requeue, Taint, Term, Timestamp, Toleration, Within,
    flaw::{MAX_EXCLUDED, MAX_TERMS, SIGNALS},
};

use super::{
    FieldErrors, Fields,
    common::LAST_TIME,
    common::duration,
    fields::{bounded, range},
    known,
    limits::LIMITS,
    time_from_wire, time_to_wire,
};
use crate::{convert::duration_to_wire, v1};

/// What a policy that asks for repairs or repeats gets where it does not say how many.
const DEFAULT_TIMES: u32 = 3;

/// An enumeration's value: `None` where it is unspecified, an error where it is unknown.
fn choice<E: TryFrom<i32> + PartialEq + Default>(fields: &mut Fields, field: &str, number: i32) -> Option<E> {
    if E::try_from(number).is_err() {
        fields.fail(field, format!("{number} is not a known value"));
    }
    known(number)
}

pub(super) fn certification(fields: &mut Fields, number: i32) -> Certification {
    use v1::job_spec::Certification as C;
    match choice(fields, "certification", number) {
        Some(C::Warn) => Certification::Warn,
        Some(C::Require) => Certification::Require,
        Some(C::Unspecified) | None => Certification::Off,
    }
}

pub(super) fn certification_to_wire(certification: Certification) -> v1::job_spec::Certification {
    match certification {
        Certification::Off => v1::job_spec::Certification::Unspecified,
        Certification::Warn => v1::job_spec::Certification::Warn,
        Certification::Require => v1::job_spec::Certification::Require,
    }
}

fn within(fields: &mut Fields, field: &str, number: i32) -> Option<Within> {
    use v1::placement_request::Within as W;
    Some(match choice(fields, field, number)? {
        W::Leaves => Within::Leaves,
        W::Pod => Within::Pod,
        W::Fabric | W::Unspecified => Within::Fabric,
    })
}

fn within_to_wire(within: Within) -> i32 {
    use v1::placement_request::Within as W;
    match within {
        Within::Leaves => W::Leaves,
        Within::Pod => W::Pod,
        Within::Fabric => W::Fabric,
    }
    .into()
}

pub(super) fn placement(fields: &mut Fields, wire: v1::PlacementRequest) -> PlacementRequest {
    use v1::placement_request::{Arrange as A, Pattern as P};
    let whole = within(fields, "placement.within", wire.within).unwrap_or_default();
    let mut groups = Vec::new();
    if bounded(fields, "placement.groups", &wire.groups, MAX_TERMS) {
        for (index, group) in wire.groups.into_iter().enumerate() {
            let field = format!("placement.groups[{index}].within");
            let within = within(fields, &field, group.within).unwrap_or(Within::Pod);
            groups.push(Group { size: group.size, within, required: group.required });
        }
    }
    let arrange = match choice(fields, "placement.arrange", wire.arrange) {
        Some(A::Spread) => Arrange::Spread,
        _ => Arrange::Pack,
    };
    let pattern = match choice(fields, "placement.pattern", wire.pattern) {
        Some(P::AllToAll) => Pattern::AllToAll,
        Some(P::Pipeline) => Pattern::Pipeline(wire.stage_nodes),
        _ => Pattern::Ring,
    };
    if wire.stage_nodes > 0 && !matches!(pattern, Pattern::Pipeline(_)) {
        fields.fail("placement.stageNodes", "goes with pattern PIPELINE only");
    }
    let selector = if bounded(fields, "placement.selector", &wire.selector, MAX_TERMS) {
        fields.list("placement.selector", wire.selector)
    } else {
        Vec::new()
    };
    let tolerations = if bounded(fields, "placement.tolerations", &wire.tolerations, MAX_TERMS) {
        wire.tolerations.into_iter().map(|t| Toleration { key: t.key, value: t.value }).collect()
    } else {
        Vec::new()
    };
    let exclude = node_names(fields, "placement.exclude", &wire.exclude, MAX_EXCLUDED);
    let nodes = node_names(fields, "placement.nodes", &wire.nodes, MAX_EXCLUDED);
    let gpu_models = gpu_models(fields, "placement.gpuModel", wire.gpu_model);
    PlacementRequest {
        within: whole,
        groups,
        arrange,
        pattern,
        exclusive: wire.exclusive,
        spares: wire.spares,
        selector,
        tolerations,
        exclude,
        nodes,
        gpu_models,
    }
}

/// Models of GPU, each once.
pub(super) fn gpu_models(fields: &mut Fields, list: &str, wire: Vec<String>) -> BTreeSet<GpuModel> {
    let mut models = BTreeSet::new();
    if bounded(fields, list, &wire, MAX_TERMS) {
        for (index, text) in wire.into_iter().enumerate() {
            let field = format!("{list}[{index}]");
            let Some(model) = fields.take(&field, GpuModel::new(text)) else { continue };
            if models.contains(&model) {
                fields.fail(&field, format!("'{model}' is given twice"));
            }
            models.insert(model);
        }
    }
    models
}

/// Names and lists of names such as `gpu[001-064]`, each name once and not more than `most`.
pub(super) fn node_names(fields: &mut Fields, field: &str, lists: &[String], most: usize) -> Vec<NodeName> {
    let mut nodes = Vec::new();
    let mut seen = BTreeSet::new();
    if !bounded(fields, field, lists, most) {
        return nodes;
    }
    for (index, list) in lists.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let Some(names) = fields.take(&at, Names::new(list)) else { continue };
        if names.is_empty() {
            fields.fail(&at, "is empty");
        }
        if nodes.len() + names.len() > most {
            fields.fail(field, format!("names more than {most} nodes"));
            return nodes;
        }
        for name in names.iter() {
            let Some(name) = fields.take(&at, NodeName::new(&name)) else { break };
            if !seen.insert(name.clone()) {
                fields.fail(&at, format!("node '{name}' is given twice"));
                break;
            }
            nodes.push(name);
        }
    }
    nodes
}

/// The names as short lists; their order is kept.
pub(super) fn names_to_wire(nodes: &[NodeName]) -> Vec<String> {
    let names = Names::of(nodes).to_string();
    if names.is_empty() { Vec::new() } else { vec![names] }
}

impl TryFrom<v1::SelectorTerm> for Term {
    type Error = FieldErrors;

    fn try_from(wire: v1::SelectorTerm) -> Result<Self, FieldErrors> {
        use v1::selector_term::Operator as W;
        let mut fields = Fields::default();
        if !wire.any_of.is_empty() {
            return alternatives(wire);
        }
        let given = choice(&mut fields, "operator", wire.operator);
        let operator = given.unwrap_or(if wire.values.is_empty() { W::Exists } else { W::In });
        let count = wire.values.len();
        bounded(&mut fields, "values", &wire.values, MAX_TERMS);
        let values: BTreeSet<String> = wire.values.into_iter().collect();
        if values.len() < count {
            fields.fail("values", "has a value twice");
        }
        if count > 0 && matches!(operator, W::Exists | W::Absent) {
            fields.fail("values", "EXISTS and ABSENT take no values");
        }
        let key = wire.key;
        fields.finish(Some(match operator {
            W::In => Self::In(key, values),
            W::NotIn => Self::NotIn(key, values),
            W::Absent => Self::Absent(key),
            W::Exists | W::Unspecified => Self::Exists(key),
        }))
    }
}

/// Conditions of which one is enough.
fn alternatives(wire: v1::SelectorTerm) -> Result<Term, FieldErrors> {
    let mut fields = Fields::default();
    if !wire.key.is_empty() || wire.operator != 0 || !wire.values.is_empty() {
        fields.fail("anyOf", "goes alone: key, operator and values belong into its entries");
    }
    if wire.any_of.iter().any(|term| !term.any_of.is_empty()) {
        fields.fail("anyOf", "has an entry with anyOf; write all alternatives in one list");
        return fields.finish(None);
    }
    let count = wire.any_of.len();
    if !bounded(&mut fields, "anyOf", &wire.any_of, MAX_TERMS) {
        return fields.finish(None);
    }
    let terms: Vec<Term> = fields.list("anyOf", wire.any_of);
    let whole = terms.len() == count;
    let terms: BTreeSet<Term> = terms.into_iter().collect();
    if whole && terms.len() < count {
        fields.fail("anyOf", "has an alternative twice");
    }
    fields.finish(Some(Term::Any(terms)))
}

impl From<&Term> for v1::SelectorTerm {
    fn from(term: &Term) -> Self {
        use v1::selector_term::Operator as W;
        let (operator, values) = match term {
            Term::Any(terms) => {
                return Self { any_of: terms.iter().map(Into::into).collect(), ..Self::default() };
            }
            Term::In(_, values) => (W::In, values.iter().cloned().collect()),
            Term::NotIn(_, values) => (W::NotIn, values.iter().cloned().collect()),
            Term::Exists(_) => (W::Exists, Vec::new()),
            Term::Absent(_) => (W::Absent, Vec::new()),
        };
        Self { key: term.key().to_owned(), operator: operator.into(), values, any_of: Vec::new() }
    }
}

/// `None` where nothing is asked.
pub(super) fn placement_to_wire(place: &PlacementRequest) -> Option<v1::PlacementRequest> {
    use v1::placement_request::{Arrange as A, Pattern as P};
    if *place == PlacementRequest::default() {
        return None;
    }
    let group = |group: &Group| v1::placement_request::Group {
        size: group.size,
        within: within_to_wire(group.within),
        required: group.required,
    };
    let (pattern, stage_nodes) = match place.pattern {
        Pattern::Ring => (P::Ring, 0),
        Pattern::AllToAll => (P::AllToAll, 0),
        Pattern::Pipeline(nodes) => (P::Pipeline, nodes),
    };
    let arrange = match place.arrange {
        Arrange::Pack => A::Pack,
        Arrange::Spread => A::Spread,
    };
    let toleration = |t: &Toleration| v1::Toleration { key: t.key.clone(), value: t.value.clone() };
    Some(v1::PlacementRequest {
        within: within_to_wire(place.within),
        groups: place.groups.iter().map(group).collect(),
        arrange: arrange.into(),
        pattern: pattern.into(),
        stage_nodes,
        exclusive: place.exclusive,
        spares: place.spares,
        selector: place.selector.iter().map(Into::into).collect(),
        tolerations: place.tolerations.iter().map(toleration).collect(),
        exclude: names_to_wire(&place.exclude),
        nodes: names_to_wire(&place.nodes),
        gpu_model: place.gpu_models.iter().map(ToString::to_string).collect(),
    })
}

impl TryFrom<v1::Dependency> for Dependency {
    type Error = FieldErrors;

    fn try_from(wire: v1::Dependency) -> Result<Self, FieldErrors> {
        use v1::dependency::When as W;
        let mut fields = Fields::default();
        let job = fields.take("job", JobName::new(&wire.job));
        let when = match choice(&mut fields, "when", wire.when) {
            None | Some(W::Succeeded | W::Unspecified) => DependencyWhen::Succeeded,
            Some(W::Ended) => DependencyWhen::Ended,
            Some(W::Started) => DependencyWhen::Started,
            Some(W::Failed) => DependencyWhen::Failed,
        };
        fields.finish(job.map(|job| Self { job, when }))
    }
}

impl From<&Dependency> for v1::Dependency {
    fn from(dependency: &Dependency) -> Self {
        use v1::dependency::When as W;
        let when = match dependency.when {
            DependencyWhen::Succeeded => W::Succeeded,
            DependencyWhen::Ended => W::Ended,
            DependencyWhen::Started => W::Started,
            DependencyWhen::Failed => W::Failed,
        };
        Self { job: dependency.job.to_string(), when: when.into() }
    }
}

pub(super) fn array(fields: &mut Fields, text: &str) -> Option<ArraySpec> {
    if text.is_empty() { None } else { fields.take("array", ArraySpec::new(text)) }
}

pub(super) fn preemption(fields: &mut Fields, priority: i32, wire: v1::Preemption) -> Preemption {
    let default = Preemption::of_priority(priority);
    let number = SIGNALS.iter().find(|(name, _)| *name == wire.signal).map(|(_, number)| *number);
    if number.is_none() && !wire.signal.is_empty() {
        let names = SIGNALS.map(|(name, _)| name).join(", ");
        let shown: String = wire.signal.chars().take(32).collect();
        fields.fail("preemption.signal", format!("'{}' is not one of {names}", shown.escape_debug()));
    }
    Preemption {
        preemptible: wire.preemptible.unwrap_or(default.preemptible),
        grace: duration(fields, "preemption.gracePeriod", wire.grace_period),
        signal: number.unwrap_or(default.signal),
        checkpoint_every: duration(fields, "preemption.checkpointEvery", wire.checkpoint_every),
        restart_cost: duration(fields, "preemption.restartCost", wire.restart_cost),
    }
}

/// `None` where it is as the priority has it.
pub(super) fn preemption_to_wire(priority: i32, preemption: Preemption) -> Option<v1::Preemption> {
    let default = Preemption::of_priority(priority);
    let name = SIGNALS.iter().find(|(_, number)| *number == preemption.signal).map(|(name, _)| *name);
    (preemption != default).then(|| v1::Preemption {
        preemptible: Some(preemption.preemptible),
        grace_period: preemption.grace.map(duration_to_wire),
        signal: name.filter(|_| preemption.signal != default.signal).unwrap_or_default().to_owned(),
        checkpoint_every: preemption.checkpoint_every.map(duration_to_wire),
        restart_cost: preemption.restart_cost.map(duration_to_wire),
    })
}

pub(super) fn failure(fields: &mut Fields, spares: u32, wire: v1::FailurePolicy) -> FailurePolicy {
    use v1::failure_policy::{RailLoss as L, Replace as R, Requeue as Q};
    range(fields, "failure.maxRestarts", wire.max_restarts, 0, LIMITS.restarts);
    range(fields, "failure.maxReplacements", wire.max_replacements, 0, LIMITS.restarts);
    let requeue = match choice(fields, "failure.requeue", wire.requeue) {
        Some(Q::OnInfrastructure) => Requeue::OnInfrastructure,
        Some(Q::OnAny) => Requeue::OnAny,
        _ => Requeue::Never,
    };
    let replace = match choice(fields, "failure.replace", wire.replace) {
        Some(R::Spares) => Replace::Spares,
        Some(R::Any) => Replace::Any,
        None if spares > 0 => Replace::Spares,
        _ => Replace::Never,
    };
    let on_rail_loss = match choice(fields, "failure.onRailLoss", wire.on_rail_loss) {
        Some(L::Move) => RailLoss::Move,
        Some(L::Fail) => RailLoss::Fail,
        _ => RailLoss::Continue,
    };
    let times = |given: u32, asked: bool| if given == 0 && asked { DEFAULT_TIMES } else { given };
    FailurePolicy {
        requeue,
        max_restarts: times(wire.max_restarts, requeue != Requeue::Never),
        replace,
        max_replacements: times(wire.max_replacements, replace != Replace::Never),
        on_rail_loss,
    }
}

pub(super) fn failure_to_wire(failure: FailurePolicy) -> v1::FailurePolicy {
    use v1::failure_policy::{RailLoss as L, Replace as R, Requeue as Q};
    v1::FailurePolicy {
        requeue: match failure.requeue {
            Requeue::Never => Q::Never,
            Requeue::OnInfrastructure => Q::OnInfrastructure,
            Requeue::OnAny => Q::OnAny,
        }
        .into(),
        max_restarts: failure.max_restarts,
        replace: match failure.replace {
            Replace::Never => R::Unspecified,
            Replace::Spares => R::Spares,
            Replace::Any => R::Any,
        }
        .into(),
        max_replacements: failure.max_replacements,
        on_rail_loss: match failure.on_rail_loss {
            RailLoss::Continue => L::Unspecified,
            RailLoss::Move => L::Move,
            RailLoss::Fail => L::Fail,
        }
        .into(),
    }
}

pub(super) fn avoid_drained(fields: &mut Fields, wire: i32) -> bool {
    use v1::rail_request::AvoidDrained as A;
    choice(fields, "rails.avoidDrained", wire) == Some(A::Required)
}

pub(super) fn avoid_drained_to_wire(avoid: bool) -> i32 {
    use v1::rail_request::AvoidDrained as A;
    if avoid { A::Required } else { A::Unspecified }.into()
}

impl TryFrom<v1::ArrayPlace> for ArrayPlace {
    type Error = FieldErrors;

    fn try_from(wire: v1::ArrayPlace) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let array = fields.take("array", JobName::new(&wire.array));
        fields.finish(array.map(|array| Self { array, index: wire.index, size: wire.size }))
    }
}

impl From<&ArrayPlace> for v1::ArrayPlace {
    fn from(place: &ArrayPlace) -> Self {
        Self { array: place.array.to_string(), index: place.index, size: place.size }
    }
}

impl TryFrom<v1::Eta> for Eta {
    type Error = FieldErrors;

    fn try_from(wire: v1::Eta) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let mut time = |field, time: Option<_>| {
            fields.present(field, time).and_then(|time| fields.nest(field, time_from_wire(time)))
        };
        // Absent: so late that nobody can say.
        let latest = match wire.latest {
            None => Some(Timestamp(u64::MAX)),
            latest => time("latest", latest),
        };
        let planned = wire.planned.map(|planned| time("planned", Some(planned)));
        let times = (time("start", wire.start), time("earliest", wire.earliest), latest);
        let promise = match wire.promise() {
            v1::eta::Promise::Unspecified | v1::eta::Promise::Estimate => Promise::Estimate,
            v1::eta::Promise::Conservative => Promise::Conservative,
            v1::eta::Promise::Easy => Promise::Easy,
            v1::eta::Promise::Slack => Promise::Slack,
        };
        let eta = match times {
            (Some(start), Some(earliest), Some(latest)) => {
                Some(Self { start, earliest, latest, promise, planned: planned.flatten() })
            }
            _ => None,
        };
        fields.finish(eta)
    }
}

impl From<Promise> for v1::eta::Promise {
    fn from(promise: Promise) -> Self {
        match promise {
            Promise::Estimate => Self::Estimate,
            Promise::Conservative => Self::Conservative,
            Promise::Easy => Self::Easy,
            Promise::Slack => Self::Slack,
        }
    }
}

impl From<Eta> for v1::Eta {
    fn from(eta: Eta) -> Self {
        Self {
            start: Some(time_to_wire(eta.start)),
            earliest: Some(time_to_wire(eta.earliest)),
            latest: (eta.latest <= LAST_TIME).then(|| time_to_wire(eta.latest)),
            promise: v1::eta::Promise::from(eta.promise).into(),
            planned: eta.planned.filter(|planned| *planned <= LAST_TIME).map(time_to_wire),
        }
    }
}

impl From<&Taint> for v1::Taint {
    fn from(taint: &Taint) -> Self {
        Self { key: taint.key.clone(), value: taint.value.clone() }
    }
}
