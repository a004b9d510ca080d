//! What is to be done next for one workload: a function of what is known, and of nothing else. [pure]
//!
//! One step at a time. Each may be repeated, and whoever dies between two of them is followed by somebody who sees what the first has done: so
//! there is no order of steps to remember. What holds:
//!
//! - At most one allocation of its tenant holds servers for a workload, and none but that of its present reservation of quota.
//! - Nodes carry its label only while that allocation holds them; the label is taken away before they are given back.
//! - What pods were told of an allocation is not told anew: where it is not so any more, they are evicted.
//! - Where a controller of Railyard has not said yet what is held, nothing is given back and no label of a workload that may run is taken away.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1;

use crate::{
    check::{self, Report, State},
    hold::{self, Hold, Stage},
    names::HoldKey,
    nodes::Candidates,
    options::WorkloadOptions,
    present::{Present, list},
    settings::{Policy, WhenAway},
    shape::{self, Shape},
    workload::Workload,
};

/// A hold that has been so for less time is not worth a message, in seconds.
const SOON: u64 = 5;

/// What is known of one workload.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// Its UID.
    pub uid: &'a str,
    /// It, as Kubernetes has it; none where it has not (any more).
    pub workload: Option<&'a Workload>,
    /// The admission checks that are ours.
    pub checks: &'a BTreeSet<String>,
    /// Whose it is; empty: that of the credentials, whose name is not known.
    pub tenant: &'a str,
    /// All that is or was held by its name; none while nobody has said what is held. Names are free, so that other tenants may have such allocations too.
    pub holds: Option<&'a [Hold]>,
    /// Of the servers of these, those that Kubernetes has no node of.
    pub absent: &'a BTreeSet<String>,
    /// Nodes that carry its label, with the value.
    pub labels: &'a BTreeMap<String, String>,
    /// Servers that it may have, where Railyard chooses.
    pub candidates: &'a Candidates,
    /// What was answered when it was asked what would be, in this pass.
    pub plan: Option<&'a Plan>,
    /// Since when nobody answers, in seconds since 1970.
    pub away_since: Option<u64>,
}

/// What Railyard would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Hold servers at once.
    Fits,
    /// Let it wait.
    Waits {
        /// Why.
        causes: String,
        /// When it would probably start, in seconds since 1970.
        start: Option<u64>,
    },
    /// Hold no servers for it while the cluster is as it is.
    Infeasible {
        /// Why.
        causes: String,
    },
    /// Never hold servers for such a job.
    Invalid {
        /// Why.
        causes: String,
    },
    /// Nothing for us: the credentials, or the name, do not allow it.
    Refused {
        /// Why.
        causes: String,
    },
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Take the label from these nodes.
    Unlabel(BTreeSet<String>),
    /// Give these nodes the label, with this value.
    Label(BTreeMap<String, String>),
    /// Give back what this allocation of this tenant holds.
    Release {
        /// Which.
        key: HoldKey,
        /// Whose.
        tenant: String,
    },
    /// Ask what Railyard would do with this job; it changes nothing.
    Plan(Box<v1::Job>),
    /// Submit this job, under its own name as the request's id.
    Create {
        /// Of which reservation.
        key: HoldKey,
        /// The job.
        job: Box<v1::Job>,
    },
    /// Write the state of the checks.
    Report(Report),
    /// Nothing before this time (seconds since 1970), unless something changes.
    Wait(Option<u64>),
}

/// What is to be done, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What.
    pub step: Step,
    /// Why, for the log.
    pub reason: String,
}

fn decision(step: Step, reason: impl Into<String>) -> Decision {
    Decision { step, reason: reason.into() }
}

/// The next step.
#[must_use]
pub fn decide(known: &Snapshot<'_>, policy: &Policy, now: u64) -> Decision {
    let present = Present::of(known.uid, known.workload, known.checks);
    let wanted = present.as_ref().filter(|one| !one.is_given_up());
    let shape = wanted.map(|one| shape::of(one.workload, &policy.gpu_resources));
    let expected = expected_labels(known, wanted, shape.as_ref(), policy);
    if let Some(step) = tidy(known, wanted.map(|one| &one.key), &expected) {
        return step;
    }
    let (Some(one), Some(shape)) = (wanted, shape) else {
        return decision(Step::Wait(None), "it has no quota, or Kueue takes it back");
    };
    if one.checks.is_empty() {
        return decision(Step::Wait(None), "no check of its queue is ours");
    }
    if let Some(why) = one.ending() {
        return decision(Step::Wait(None), why);
    }
    let is_missing = |(node, value): &(String, String)| {
        known.labels.get(node) != Some(value) && !known.absent.contains(node)
    };
    let missing: BTreeMap<String, String> = expected.into_iter().filter(is_missing).collect();
    if !missing.is_empty() {
        return decision(Step::Label(missing), "its servers are held");
    }
    if let Some(message) = lost(known, one, policy) {
        return retry(one, message, None, policy, now);
    }
    if one.is_ready() {
        return decision(Step::Wait(None), "it is admitted");
    }
    pending(known, one, shape, policy, now)
}

/// The labels that nodes should have: those that its pods ask for, and before that those that they will.
fn expected_labels(
    known: &Snapshot<'_>,
    wanted: Option<&Present<'_>>,
    shape: Option<&Result<(Shape, WorkloadOptions), String>>,
    policy: &Policy,
) -> BTreeMap<String, String> {
    let Some(one) = wanted else { return BTreeMap::new() };
    let Some(hold) = hold_of(known, one, policy) else { return BTreeMap::new() };
    if let Some(said) = one.said(&one.key.name(&policy.prefix)) {
        if said.lost(Some(hold)).is_some() {
            return BTreeMap::new();
        }
        if !said.is_short {
            return said.labels;
        }
    }
    let (Stage::Runs, Some(Ok((shape @ Shape::Anywhere(_), _)))) = (hold.stage, shape) else {
        return BTreeMap::new();
    };
    let shares = hold::shares(shape, &hold.nodes).unwrap_or_default();
    shares
        .into_iter()
        .flat_map(|(set, nodes)| nodes.into_iter().map(move |node| (node, set.clone())))
        .collect()
}

fn is_own(known: &Snapshot<'_>, hold: &Hold) -> bool {
    known.tenant.is_empty() || hold.tenant == known.tenant
}

/// Its allocation: that of its tenant, or the one that its pods were told of before its namespace had another tenant.
fn hold_of<'a>(known: &Snapshot<'a>, one: &Present<'_>, policy: &Policy) -> Option<&'a Hold> {
    let of = || known.holds.into_iter().flatten().filter(|hold| hold.key == one.key);
    of().find(|hold| is_own(known, hold)).or_else(|| {
        let said = one.said(&one.key.name(&policy.prefix)).filter(|said| !said.is_short)?;
        of().find(|hold| said.lost(Some(hold)).is_none())
    })
}

/// Why it cannot go on as its pods were told.
fn lost(known: &Snapshot<'_>, one: &Present<'_>, policy: &Policy) -> Option<String> {
    let name = one.key.name(&policy.prefix);
    let said = one.said(&name).filter(|_| known.holds.is_some() && known.away_since.is_none())?;
    let causes = said.lost(hold_of(known, one, policy))?;
    Some(format!("allocation {name} holds its servers no more: {causes}"))
}

/// What nobody needs goes: first labels, then what is held.
fn tidy(
    known: &Snapshot<'_>,
    wanted: Option<&HoldKey>,
    expected: &BTreeMap<String, String>,
) -> Option<Decision> {
    // While it is not known what is held, labels of what may run stay.
    if known.holds.is_some() || wanted.is_none() {
        let extra: BTreeSet<String> =
            known.labels.keys().filter(|node| !expected.contains_key(*node)).cloned().collect();
        if !extra.is_empty() {
            return Some(decision(Step::Unlabel(extra), "these nodes are not held for it"));
        }
    }
    let stale = known.holds?.iter().find(|hold| hold.is_live() && Some(&hold.key) != wanted)?;
    let step = Step::Release { key: stale.key.clone(), tenant: stale.tenant.clone() };
    Some(decision(step, "nobody needs what it holds"))
}

/// It has quota, and waits for us.
fn pending(
    known: &Snapshot<'_>,
    one: &Present<'_>,
    shape: Result<(Shape, WorkloadOptions), String>,
    policy: &Policy,
    now: u64,
) -> Decision {
    let (shape, options) = match shape {
        Ok(found) => found,
        Err(why) => return report(one, State::Rejected, why, now),
    };
    if shape == Shape::Nothing {
        let message = "no pod of it has GPUs or asks for rails: nothing is held for it".to_owned();
        return report(one, State::Ready, message, now);
    }
    if let Some(since) = known.away_since {
        return away(one, since, policy, now);
    }
    let Some(holds) = known.holds else {
        return decision(Step::Wait(None), "no controller of Railyard has said yet what is held");
    };
    if let Some(hold) = hold_of(known, one, policy) {
        return held(known, one, hold, &shape, policy, now);
    }
    if holds.iter().any(|hold| hold.stage != Stage::Over && is_own(known, hold)) {
        return decision(Step::Wait(None), "what it held before is being given back");
    }
    if let Some(few) = too_few(&shape, known.candidates) {
        return retry(one, few, None, policy, now);
    }
    let Some(job) = hold::job(one.workload, &one.key, &shape, &options, known.candidates, policy) else {
        return report(one, State::Rejected, "it cannot be said as a job of Railyard".to_owned(), now);
    };
    match known.plan {
        None => decision(Step::Plan(Box::new(job)), "nothing is held for it"),
        Some(Plan::Fits) => {
            decision(Step::Create { key: one.key.clone(), job: Box::new(job) }, "it would start at once")
        }
        Some(other) => answered(known, one, other, &shape, policy, now),
    }
}

/// Railyard does not hold servers for it at once.
fn answered(
    known: &Snapshot<'_>,
    one: &Present<'_>,
    plan: &Plan,
    shape: &Shape,
    policy: &Policy,
    now: u64,
) -> Decision {
    let closed = known.candidates.closed;
    let longest = now.saturating_add(u64::from(policy.retry_longest));
    let (message, start) = match plan {
        Plan::Fits => ("it would start at once".to_owned(), None),
        Plan::Waits { causes, start } => (format!("nothing fits now: {causes}"), *start),
        Plan::Refused { causes } => (format!("Railyard refuses to hold its servers: {causes}"), None),
        Plan::Infeasible { causes } | Plan::Invalid { causes } if matches!(shape, Shape::Chosen(_)) => {
            (format!("the nodes that Kueue has chosen cannot be held: {causes}"), None)
        }
        // It was asked for the servers that are open.
        Plan::Infeasible { causes } | Plan::Invalid { causes } if closed > 0 => {
            (format!("nothing fits while {closed} nodes are closed: {causes}"), None)
        }
        Plan::Infeasible { causes } => {
            (format!("it cannot be placed as the cluster is: {causes}"), Some(longest))
        }
        Plan::Invalid { causes } => {
            return report(one, State::Rejected, format!("it can never be placed: {causes}"), now);
        }
    };
    retry(one, message, start, policy, now)
}

/// What is said where Kubernetes has fewer open servers than are needed.
fn too_few(shape: &Shape, candidates: &Candidates) -> Option<String> {
    let Shape::Anywhere(parts) = shape else { return None };
    let needed: u64 = parts.iter().map(|part| u64::from(part.nodes)).sum();
    let open = u64::try_from(candidates.open).unwrap_or(u64::MAX);
    (open < needed).then(|| {
        let closed = candidates.closed;
        format!("it needs {needed} servers: Kubernetes has {open} open nodes whose rails are Railyard's, and {closed} that are closed")
    })
}

/// Its allocation is there.
fn held(
    known: &Snapshot<'_>,
    one: &Present<'_>,
    hold: &Hold,
    shape: &Shape,
    policy: &Policy,
    now: u64,
) -> Decision {
    let name = hold.key.name(&policy.prefix);
    let limit = match hold.stage {
        Stage::Runs => return prepared(known, one, hold, shape, policy, now),
        Stage::Ending | Stage::Over => {
            let message = format!("allocation {name} has ended before its pods ran: {}", hold.causes);
            return retry(one, message, None, policy, now);
        }
        Stage::Waiting => policy.place_within,
        Stage::Preparing => policy.prepare_within,
    };
    let until = hold.since.saturating_add(limit);
    let doing = if hold.stage == Stage::Waiting { "waits for servers" } else { "prepares its servers" };
    if now >= until {
        let message = format!("allocation {name} still {doing} after {limit} s: {}", hold.causes);
        return retry(one, message, None, policy, now);
    }
    let message = format!("allocation {name} {doing}");
    let soon = hold.since.saturating_add(SOON);
    if now >= soon && !one.says(&message) {
        return report(one, State::Pending, message, now);
    }
    decision(Step::Wait(Some(if now < soon { soon.min(until) } else { until })), message)
}

/// Its servers are held and prepared.
fn prepared(
    known: &Snapshot<'_>,
    one: &Present<'_>,
    hold: &Hold,
    shape: &Shape,
    policy: &Policy,
    now: u64,
) -> Decision {
    let name = hold.key.name(&policy.prefix);
    if let Some(node) = hold.nodes.iter().find(|node| known.absent.contains(*node)) {
        let message = format!(
            "allocation {name} holds {node}, and Kubernetes has no such node: nodes are called in Kubernetes as in Railyard"
        );
        return retry(one, message, None, policy, now);
    }
    let Some(shares) = hold::shares(shape, &hold.nodes) else {
        let message = format!("allocation {name} holds other servers than it needs: {}", list(&hold.nodes));
        return retry(one, message, None, policy, now);
    };
    let updates = check::updates(&one.key.uid, &name, shape, &shares);
    let message = format!("allocation {name} holds {}", list(&hold.nodes));
    let report = Report::of(one.workload, &one.checks, State::Ready, message, now).with_updates(updates);
    decision(Step::Report(report), "its servers are held and prepared")
}

/// Nobody answers.
fn away(one: &Present<'_>, since: u64, policy: &Policy, now: u64) -> Decision {
    let from = since.saturating_add(policy.away_after);
    if now < from {
        return decision(Step::Wait(Some(from)), "no controller of Railyard answers at the moment");
    }
    match policy.when_away {
        WhenAway::Open => {
            let message =
                "no controller of Railyard answers: admitted without it (when-away is open)".to_owned();
            report(one, State::Ready, message, now)
        }
        WhenAway::Closed => {
            let message =
                "no controller of Railyard answers: it waits until one does (when-away is closed)".to_owned();
            if one.says(&message) {
                return decision(Step::Wait(None), message);
            }
            report(one, State::Pending, message, now)
        }
    }
}

fn report(one: &Present<'_>, state: State, message: String, now: u64) -> Decision {
    let reason = message.clone();
    decision(Step::Report(Report::of(one.workload, &one.checks, state, message, now)), reason)
}

/// Kueue takes its quota back and tries again later: when it would probably start, and no sooner than after a pause that grows.
fn retry(one: &Present<'_>, message: String, start: Option<u64>, policy: &Policy, now: u64) -> Decision {
    let pause = pause(one.retries(), policy);
    let until_start = start.map_or(0, |start| u32::try_from(start.saturating_sub(now)).unwrap_or(u32::MAX));
    let after = until_start.clamp(pause, policy.retry_longest.max(pause));
    let reason = message.clone();
    let report = Report::of(one.workload, &one.checks, State::Retry, message, now);
    decision(Step::Report(Report { requeue_after: Some(after), ..report }), reason)
}

/// The pause before the next try, in seconds.
#[must_use]
pub fn pause(retries: u32, policy: &Policy) -> u32 {
    let factor = 1_u32.checked_shl(retries).unwrap_or(u32::MAX);
    policy.retry_first.saturating_mul(factor).min(policy.retry_longest)
}
