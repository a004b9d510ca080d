//! What a job asks of its place and its turn: placement, dependencies, preemption, repair.

use std::collections::BTreeSet;

use proto_model::{
    Arrange, ArrayPlace, ArraySpec, Certification, Dependency, DependencyWhen, Eta, FailurePolicy, GpuModel,
    Group, JobName, Names, NodeName, Pattern, PlacementRequest, Preemption, Promise, RailLoss, Replace,
    Requeue, Term, Timestamp, Toleration, Within,
    flaw::{MAX_EXCLUDED, MAX_TERMS, SIGNALS},
};

use super::{common::duration, limits::LIMITS, time_from_row};
use crate::v1;
use proto_model::fields::{FieldErrors, Fields, bounded, known, range};

/// What a policy that asks for repairs or repeats gets where it does not say how many.
const DEFAULT_TIMES: u32 = 3;

/// An enumeration's value: `None` where it is unspecified, an error where it is unknown.
fn choice<E: TryFrom<i32> + PartialEq + Default>(fields: &mut Fields, field: &str, number: i32) -> Option<E> {
    if E::try_from(number).is_err() {
        fields.fail(field, format!("{number} is not a known value"));
    }
    known(number)
}

pub(crate) fn certification(fields: &mut Fields, number: i32) -> Certification {
    use v1::job_spec::Certification as C;
    match choice(fields, "certification", number) {
        Some(C::Warn) => Certification::Warn,
        Some(C::Require) => Certification::Require,
        Some(C::Unspecified) | None => Certification::Off,
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

pub(crate) fn placement(fields: &mut Fields, row: v1::PlacementRequest) -> PlacementRequest {
    use v1::placement_request::{Arrange as A, Pattern as P};
    let whole = within(fields, "placement.within", row.within).unwrap_or_default();
    let mut groups = Vec::new();
    if bounded(fields, "placement.groups", &row.groups, MAX_TERMS) {
        for (index, group) in row.groups.into_iter().enumerate() {
            let field = format!("placement.groups[{index}].within");
            let within = within(fields, &field, group.within).unwrap_or(Within::Pod);
            groups.push(Group { size: group.size, within, required: group.required });
        }
    }
    let arrange = match choice(fields, "placement.arrange", row.arrange) {
        Some(A::Spread) => Arrange::Spread,
        _ => Arrange::Pack,
    };
    let pattern = match choice(fields, "placement.pattern", row.pattern) {
        Some(P::AllToAll) => Pattern::AllToAll,
        Some(P::Pipeline) => Pattern::Pipeline(row.stage_nodes),
        _ => Pattern::Ring,
    };
    if row.stage_nodes > 0 && !matches!(pattern, Pattern::Pipeline(_)) {
        fields.fail("placement.stageNodes", "goes with pattern PIPELINE only");
    }
    let selector = if bounded(fields, "placement.selector", &row.selector, MAX_TERMS) {
        fields.list("placement.selector", row.selector)
    } else {
        Vec::new()
    };
    let tolerations = if bounded(fields, "placement.tolerations", &row.tolerations, MAX_TERMS) {
        row.tolerations.into_iter().map(|t| Toleration { key: t.key, value: t.value }).collect()
    } else {
        Vec::new()
    };
    let exclude = node_names(fields, "placement.exclude", &row.exclude, MAX_EXCLUDED);
    let nodes = node_names(fields, "placement.nodes", &row.nodes, MAX_EXCLUDED);
    let gpu_models = gpu_models(fields, "placement.gpuModel", row.gpu_model);
    PlacementRequest {
        within: whole,
        groups,
        arrange,
        pattern,
        exclusive: row.exclusive,
        spares: row.spares,
        selector,
        tolerations,
        exclude,
        nodes,
        gpu_models,
    }
}

/// Models of GPU, each once.
pub(crate) fn gpu_models(fields: &mut Fields, list: &str, row: Vec<String>) -> BTreeSet<GpuModel> {
    let mut models = BTreeSet::new();
    if bounded(fields, list, &row, MAX_TERMS) {
        for (index, text) in row.into_iter().enumerate() {
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
pub(crate) fn node_names(fields: &mut Fields, field: &str, lists: &[String], most: usize) -> Vec<NodeName> {
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

impl TryFrom<v1::SelectorTerm> for Term {
    type Error = FieldErrors;

    fn try_from(row: v1::SelectorTerm) -> Result<Self, FieldErrors> {
        use v1::selector_term::Operator as W;
        let mut fields = Fields::default();
        if !row.any_of.is_empty() {
            return alternatives(row);
        }
        let given = choice(&mut fields, "operator", row.operator);
        let operator = given.unwrap_or(if row.values.is_empty() { W::Exists } else { W::In });
        let count = row.values.len();
        bounded(&mut fields, "values", &row.values, MAX_TERMS);
        let values: BTreeSet<String> = row.values.into_iter().collect();
        if values.len() < count {
            fields.fail("values", "has a value twice");
        }
        if count > 0 && matches!(operator, W::Exists | W::Absent) {
            fields.fail("values", "EXISTS and ABSENT take no values");
        }
        let key = row.key;
        fields.finish(Some(match operator {
            W::In => Self::In(key, values),
            W::NotIn => Self::NotIn(key, values),
            W::Absent => Self::Absent(key),
            W::Exists | W::Unspecified => Self::Exists(key),
        }))
    }
}

/// Conditions of which one is enough.
fn alternatives(row: v1::SelectorTerm) -> Result<Term, FieldErrors> {
    let mut fields = Fields::default();
    if !row.key.is_empty() || row.operator != 0 || !row.values.is_empty() {
        fields.fail("anyOf", "goes alone: key, operator and values belong into its entries");
    }
    if row.any_of.iter().any(|term| !term.any_of.is_empty()) {
        fields.fail("anyOf", "has an entry with anyOf; write all alternatives in one list");
        return fields.finish(None);
    }
    let count = row.any_of.len();
    if !bounded(&mut fields, "anyOf", &row.any_of, MAX_TERMS) {
        return fields.finish(None);
    }
    let terms: Vec<Term> = fields.list("anyOf", row.any_of);
    let whole = terms.len() == count;
    let terms: BTreeSet<Term> = terms.into_iter().collect();
    if whole && terms.len() < count {
        fields.fail("anyOf", "has an alternative twice");
    }
    fields.finish(Some(Term::Any(terms)))
}

impl TryFrom<v1::Dependency> for Dependency {
    type Error = FieldErrors;

    fn try_from(row: v1::Dependency) -> Result<Self, FieldErrors> {
        use v1::dependency::When as W;
        let mut fields = Fields::default();
        let job = fields.take("job", JobName::new(&row.job));
        let when = match choice(&mut fields, "when", row.when) {
            None | Some(W::Succeeded | W::Unspecified) => DependencyWhen::Succeeded,
            Some(W::Ended) => DependencyWhen::Ended,
            Some(W::Started) => DependencyWhen::Started,
            Some(W::Failed) => DependencyWhen::Failed,
        };
        fields.finish(job.map(|job| Self { job, when }))
    }
}

pub(crate) fn array(fields: &mut Fields, text: &str) -> Option<ArraySpec> {
    if text.is_empty() { None } else { fields.take("array", ArraySpec::new(text)) }
}

pub(crate) fn preemption(fields: &mut Fields, priority: i32, row: v1::Preemption) -> Preemption {
    let default = Preemption::of_priority(priority);
    let number = SIGNALS.iter().find(|(name, _)| *name == row.signal).map(|(_, number)| *number);
    if number.is_none() && !row.signal.is_empty() {
        let names = SIGNALS.map(|(name, _)| name).join(", ");
        let shown: String = row.signal.chars().take(32).collect();
        fields.fail("preemption.signal", format!("'{}' is not one of {names}", shown.escape_debug()));
    }
    Preemption {
        preemptible: row.preemptible.unwrap_or(default.preemptible),
        grace: duration(fields, "preemption.gracePeriod", row.grace_period),
        signal: number.unwrap_or(default.signal),
        checkpoint_every: duration(fields, "preemption.checkpointEvery", row.checkpoint_every),
        restart_cost: duration(fields, "preemption.restartCost", row.restart_cost),
    }
}

pub(crate) fn failure(fields: &mut Fields, spares: u32, row: v1::FailurePolicy) -> FailurePolicy {
    use v1::failure_policy::{RailLoss as L, Replace as R, Requeue as Q};
    range(fields, "failure.maxRestarts", row.max_restarts, 0, LIMITS.restarts);
    range(fields, "failure.maxReplacements", row.max_replacements, 0, LIMITS.restarts);
    let requeue = match choice(fields, "failure.requeue", row.requeue) {
        Some(Q::OnInfrastructure) => Requeue::OnInfrastructure,
        Some(Q::OnAny) => Requeue::OnAny,
        _ => Requeue::Never,
    };
    let replace = match choice(fields, "failure.replace", row.replace) {
        Some(R::Spares) => Replace::Spares,
        Some(R::Any) => Replace::Any,
        None if spares > 0 => Replace::Spares,
        _ => Replace::Never,
    };
    let on_rail_loss = match choice(fields, "failure.onRailLoss", row.on_rail_loss) {
        Some(L::Move) => RailLoss::Move,
        Some(L::Fail) => RailLoss::Fail,
        _ => RailLoss::Continue,
    };
    let times = |given: u32, asked: bool| if given == 0 && asked { DEFAULT_TIMES } else { given };
    FailurePolicy {
        requeue,
        max_restarts: times(row.max_restarts, requeue != Requeue::Never),
        replace,
        max_replacements: times(row.max_replacements, replace != Replace::Never),
        on_rail_loss,
    }
}

pub(crate) fn avoid_drained(fields: &mut Fields, row: i32) -> bool {
    use v1::rail_request::AvoidDrained as A;
    choice(fields, "rails.avoidDrained", row) == Some(A::Required)
}

impl TryFrom<v1::ArrayPlace> for ArrayPlace {
    type Error = FieldErrors;

    fn try_from(row: v1::ArrayPlace) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let array = fields.take("array", JobName::new(&row.array));
        fields.finish(array.map(|array| Self { array, index: row.index, size: row.size }))
    }
}

impl TryFrom<v1::Eta> for Eta {
    type Error = FieldErrors;

    fn try_from(row: v1::Eta) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let mut time = |field, time: Option<_>| {
            fields.present(field, time).and_then(|time| fields.nest(field, time_from_row(time)))
        };
        // Absent: so late that nobody can say.
        let latest = match row.latest {
            None => Some(Timestamp(u64::MAX)),
            latest => time("latest", latest),
        };
        let planned = row.planned.map(|planned| time("planned", Some(planned)));
        let times = (time("start", row.start), time("earliest", row.earliest), latest);
        let promise = match row.promise() {
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
