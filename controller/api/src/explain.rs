//! Plans and explanations on the wire.

use controller_core::{
    DecisionRecord, Detail, Explanation, Holding, PlanResult,
    decisions::Past,
    explain::{Change, Relaxation, term_text},
};
use proto_model::{JobId, Taint, TenantName, Within, many, size};
use proto_wire::{
    convert::{isolation_policy_to_wire, time_to_wire},
    v1,
};

use crate::views::{node_rails, reasons_for, report};

/// A plan, for a caller that sees the jobs of `only`, or all.
pub fn plan(plan: &PlanResult, only: Option<&TenantName>) -> v1::PlanJobResponse {
    let detail = plan.detail.clone().unwrap_or_default();
    let named = |id: &JobId| holder(&Holding { id: id.clone(), nodes: 0, until: None }, only);
    v1::PlanJobResponse {
        placement: plan.placement.as_ref().map(|placement| {
            let mut wire = v1::Placement::from(placement);
            wire.reasons.iter_mut().for_each(|reason| report(reason, only));
            wire
        }),
        reasons: reasons_for(&plan.reasons, only),
        infeasible: plan.infeasible,
        eta: detail.eta.map(Into::into),
        preempts: plan.preempts.iter().map(named).collect(),
        holders: detail.holders.iter().map(|holding| holder(holding, only)).collect(),
        holders_omitted: detail.holders_omitted,
        relaxations: detail.relaxations.iter().map(relaxation).collect(),
    }
}

/// An explanation, for a caller that sees the jobs of `only`, or all.
pub fn explanation(explanation: &Explanation, only: Option<&TenantName>) -> v1::ExplainJobResponse {
    let detail: Detail = explanation.detail.clone().unwrap_or_default();
    v1::ExplainJobResponse {
        phase: v1::job_status::Phase::from(explanation.phase).into(),
        reasons: reasons_for(&explanation.reasons, only),
        queue_position: explanation.queue_position,
        infeasible: explanation.infeasible,
        rails: explanation.rails.iter().map(node_rails).collect(),
        rails_omitted: explanation.rails_omitted,
        choices: explanation.choices.iter().map(Into::into).collect(),
        nodes_total: detail.nodes,
        nodes_free: detail.free,
        nodes_reach: detail.reach,
        holders: detail.holders.iter().map(|holding| holder(holding, only)).collect(),
        holders_omitted: detail.holders_omitted,
        relaxations: detail.relaxations.iter().map(relaxation).collect(),
        eta: detail.eta.map(Into::into),
        isolation: isolation_policy_to_wire(explanation.isolation).into(),
        backfill: explanation.backfill.to_string(),
        ..v1::ExplainJobResponse::default()
    }
}

/// What was so at some time, for a caller that sees the jobs of `only`, or all.
pub fn past(past: &Past, only: Option<&TenantName>) -> v1::ExplainJobResponse {
    let decision = |(time, record): &(proto_model::Timestamp, DecisionRecord)| v1::Decision {
        time: Some(time_to_wire(*time)),
        phase: v1::job_status::Phase::from(record.phase).into(),
        attempt: record.attempt,
        reasons: reasons_for(&record.reasons, only),
        nodes: record.nodes,
        placement_digest: if record.digest == 0 { String::new() } else { format!("{:016x}", record.digest) },
    };
    let decisions: Vec<v1::Decision> = past.decisions.iter().map(decision).collect();
    let last = decisions.last().cloned().unwrap_or_default();
    v1::ExplainJobResponse {
        phase: last.phase,
        reasons: last.reasons,
        decisions,
        ..v1::ExplainJobResponse::default()
    }
}

/// Of another tenant's job only what it holds is shown, not whose it is.
fn holder(holding: &Holding, only: Option<&TenantName>) -> v1::Holder {
    let own = only.is_none_or(|tenant| *tenant == holding.id.tenant);
    let shown = |text: String| if own { text } else { String::new() };
    v1::Holder {
        tenant: shown(holding.id.tenant.to_string()),
        job: shown(holding.id.name.to_string()),
        nodes: holding.nodes,
        until: holding.until.filter(|_| own).map(time_to_wire),
    }
}

fn relaxation(relaxation: &Relaxation) -> v1::Relaxation {
    v1::Relaxation { changes: relaxation.changes.iter().map(change).collect(), amount: relaxation.amount }
}

/// The place as documents write it.
fn within(within: Within) -> &'static str {
    match within {
        Within::Leaves => "LEAVES",
        Within::Pod => "POD",
        Within::Fabric => "FABRIC",
    }
}

fn taint_text(taint: &Taint) -> String {
    match taint.value.as_str() {
        "" => taint.key.clone(),
        value => format!("{}={value}", taint.key),
    }
}

fn change(change: &Change) -> v1::relaxation::Change {
    let make = |field: &str, from: String, to: String, message: String| v1::relaxation::Change {
        field: field.to_owned(),
        from,
        to,
        message,
    };
    let number = |field: &str, from: u32, to: u32, what: &str| {
        make(field, from.to_string(), to.to_string(), format!("{what} in place of {from}"))
    };
    let text = str::to_owned;
    let set = |field: &str, message: &str| make(field, text("set"), String::new(), text(message));
    match change {
        Change::Nodes { from, to } => number("spec.gang.nodes", *from, *to, &many(to, "node")),
        Change::Gpus { from, to } => {
            number("spec.gang.gpusPerNode", *from, *to, &format!("{} on each node", many(to, "GPU")))
        }
        Change::Rails { from, to } => {
            let message = format!("any {} (required: {to}, allowPartial: true)", many(to, "rail"));
            number("spec.rails", *from, *to, &message)
        }
        Change::Within { from, to } => {
            let (from, to) = (within(*from), within(*to));
            make("spec.placement.within", text(from), text(to), format!("within {to} in place of {from}"))
        }
        Change::Split(group) => {
            let message = format!("groups of {} may be split (required: false)", many(group.size, "node"));
            make("spec.placement.groups", text("required: true"), text("required: false"), message)
        }
        Change::Share => make(
            "spec.placement.exclusive",
            text("true"),
            text("false"),
            text("other jobs may share its nodes"),
        ),
        Change::Tolerate(taint) => {
            let taint = taint_text(taint);
            let message = format!("tolerate the taint {taint}");
            make("spec.placement.tolerations", String::new(), taint, message)
        }
        Change::Drop(term) => {
            let term = term_text(term);
            let message = format!("do without the label condition {term}");
            make("spec.placement.selector", term, String::new(), message)
        }
        Change::AnyModel => set("spec.placement.gpuModel", "take GPUs of any model"),
        Change::NoCpus { from } => {
            let message = format!("ask for no CPUs of its own in place of {from}");
            make("spec.gang.cpusPerNode", from.to_string(), text("0"), message)
        }
        Change::NoMemory { from } => {
            let message = format!("ask for no memory of its own in place of {}", size(*from));
            make("spec.gang.memoryPerNode", from.to_string(), text("0"), message)
        }
        Change::Include { named: true } => {
            set("spec.placement.nodes", "allow other nodes than those that it names")
        }
        Change::Include { named: false } => set("spec.placement.exclude", "allow the nodes that it excludes"),
        Change::Drained => {
            let message = text("drained rails will do where nothing else is left");
            make("spec.rails.avoidDrained", text("REQUIRED"), text("PREFERRED"), message)
        }
        Change::Spares { from, to } => number("spec.placement.spares", *from, *to, &many(to, "spare")),
        Change::Quota { more } => {
            let message = format!("{} more in the tenant's quota", many(more, "GPU"));
            make("tenant.spec.quota.gpus", String::new(), format!("+{more}"), message)
        }
    }
}
