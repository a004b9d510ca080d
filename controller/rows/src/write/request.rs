//! What a job asks of its place and its turn: placement, dependencies, preemption, repair.

use proto_model::{
    Arrange, ArrayPlace, Certification, Dependency, DependencyWhen, Eta, FailurePolicy, Group, Names,
    NodeName, Pattern, PlacementRequest, Preemption, Promise, RailLoss, Replace, Requeue, Taint, Term,
    Toleration, Within, flaw::SIGNALS,
};

use super::{duration_to_row, time_to_row};
use crate::{v1, words::LAST_TIME};

pub(crate) fn certification_to_row(certification: Certification) -> v1::job_spec::Certification {
    match certification {
        Certification::Off => v1::job_spec::Certification::Unspecified,
        Certification::Warn => v1::job_spec::Certification::Warn,
        Certification::Require => v1::job_spec::Certification::Require,
    }
}

fn within_to_row(within: Within) -> i32 {
    use v1::placement_request::Within as W;
    match within {
        Within::Leaves => W::Leaves,
        Within::Pod => W::Pod,
        Within::Fabric => W::Fabric,
    }
    .into()
}

/// The names as short lists; their order is kept.
pub(crate) fn names_to_row(nodes: &[NodeName]) -> Vec<String> {
    let names = Names::of(nodes).to_string();
    if names.is_empty() { Vec::new() } else { vec![names] }
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
pub(crate) fn placement_to_row(place: &PlacementRequest) -> Option<v1::PlacementRequest> {
    use v1::placement_request::{Arrange as A, Pattern as P};
    if *place == PlacementRequest::default() {
        return None;
    }
    let group = |group: &Group| v1::placement_request::Group {
        size: group.size,
        within: within_to_row(group.within),
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
        within: within_to_row(place.within),
        groups: place.groups.iter().map(group).collect(),
        arrange: arrange.into(),
        pattern: pattern.into(),
        stage_nodes,
        exclusive: place.exclusive,
        spares: place.spares,
        selector: place.selector.iter().map(Into::into).collect(),
        tolerations: place.tolerations.iter().map(toleration).collect(),
        exclude: names_to_row(&place.exclude),
        nodes: names_to_row(&place.nodes),
        gpu_model: place.gpu_models.iter().map(ToString::to_string).collect(),
    })
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

/// `None` where it is as the priority has it.
pub(crate) fn preemption_to_row(priority: i32, preemption: Preemption) -> Option<v1::Preemption> {
    let default = Preemption::of_priority(priority);
    let name = SIGNALS.iter().find(|(_, number)| *number == preemption.signal).map(|(name, _)| *name);
    (preemption != default).then(|| v1::Preemption {
        preemptible: Some(preemption.preemptible),
        grace_period: preemption.grace.map(duration_to_row),
        signal: name.filter(|_| preemption.signal != default.signal).unwrap_or_default().to_owned(),
        checkpoint_every: preemption.checkpoint_every.map(duration_to_row),
        restart_cost: preemption.restart_cost.map(duration_to_row),
    })
}

pub(crate) fn failure_to_row(failure: FailurePolicy) -> v1::FailurePolicy {
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

pub(crate) fn avoid_drained_to_row(avoid: bool) -> i32 {
    use v1::rail_request::AvoidDrained as A;
    if avoid { A::Required } else { A::Unspecified }.into()
}

impl From<&ArrayPlace> for v1::ArrayPlace {
    fn from(place: &ArrayPlace) -> Self {
        Self { array: place.array.to_string(), index: place.index, size: place.size }
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
            start: Some(time_to_row(eta.start)),
            earliest: Some(time_to_row(eta.earliest)),
            latest: (eta.latest <= LAST_TIME).then(|| time_to_row(eta.latest)),
            promise: v1::eta::Promise::from(eta.promise).into(),
            planned: eta.planned.filter(|planned| *planned <= LAST_TIME).map(time_to_row),
        }
    }
}

impl From<&Taint> for v1::Taint {
    fn from(taint: &Taint) -> Self {
        Self { key: taint.key.clone(), value: taint.value.clone() }
    }
}
