//! What is to be done next for one workload: a function of what is known, and of nothing else. [pure]
//!
//! One step at a time. Each may be repeated, and whoever dies between two of them is followed by somebody who sees what the first has done: so
//! there is no order of steps to remember. What holds:
//!
//! - At most one allocation holds servers for a workload, and none but that of its present reservation of quota.
//! - Nodes carry its label only while that allocation holds them; the label is taken away before they are given back.
//! - Where a controller of Railyard has not said yet what is held, nothing is given back and no label of a workload that may run is taken away.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1;

use crate::{
    check::{self, Report, State},
    hold::{self, Hold, Stage},
    names::{HOLD, HoldKey},
    nodes::Candidates,
    options::RailOptions,
    settings::{Policy, WhenAway},
    shape::{self, Shape},
    workload::{CheckState, Workload},
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
    /// All that is or was held for it; none while nobody has said what is held.
    pub holds: Option<&'a [Hold]>,
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
    /// Never hold servers for it as the cluster is.
    Never {
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

/// A workload that has quota, or had it until its pods are gone.
struct Present<'a> {
    workload: &'a Workload,
    key: HoldKey,
    /// The first of our checks; none where its ClusterQueue has none of ours (any more).
    check: Option<&'a CheckState>,
}

impl Present<'_> {
    /// It has been said that it cannot run, and Kueue is about to take its quota back.
    fn is_given_up(&self) -> bool {
        self.check.is_some_and(|check| matches!(check.state.as_str(), "Retry" | "Rejected"))
    }
}

/// The next step.
#[must_use]
pub fn decide(known: &Snapshot<'_>, policy: &Policy, now: u64) -> Decision {
    let present = present(known);
    let wanted = present.as_ref().filter(|one| !one.is_given_up());
    let shape = wanted.map(|one| shape::of(one.workload, &policy.gpu_resources));
    let expected = expected_labels(known, wanted, shape.as_ref());
    if let Some(step) = tidy(known, wanted.map(|one| &one.key), &expected) {
        return step;
    }
    let (Some(one), Some(shape)) = (wanted, shape) else {
        return decision(Step::Wait(None), "it has no quota, or Kueue takes it back");
    };
    let Some(check) = one.check else { return decision(Step::Wait(None), "no check of its queue is ours") };
    if one.workload.is("Evicted") || one.workload.spec.active == Some(false) {
        return decision(Step::Wait(None), "it is evicted, and its pods may still be there");
    }
    let missing: BTreeMap<String, String> =
        expected.into_iter().filter(|(node, value)| known.labels.get(node) != Some(value)).collect();
    if !missing.is_empty() {
        return decision(Step::Label(missing), "its servers are held");
    }
    match check.state.as_str() {
        "Ready" => ready(known, one, check, policy, now),
        _ => pending(known, one, check, shape, policy, now),
    }
}

fn present<'a>(known: &Snapshot<'a>) -> Option<Present<'a>> {
    let workload = known.workload.filter(|one| one.metadata.uid == known.uid && one.is_present())?;
    let key = HoldKey { uid: known.uid.to_owned(), reserved: workload.reserved()? };
    let mut ours: Vec<&CheckState> =
        workload.status.admission_checks.iter().filter(|check| known.checks.contains(&check.name)).collect();
    ours.sort_by(|a, b| a.name.cmp(&b.name));
    Some(Present { workload, key, check: ours.first().copied() })
}

/// The labels that nodes should have.
fn expected_labels(
    known: &Snapshot<'_>,
    wanted: Option<&Present<'_>>,
    shape: Option<&Result<(Shape, RailOptions), String>>,
) -> BTreeMap<String, String> {
    let held = wanted.and_then(|one| hold_of(known, &one.key)).filter(|hold| hold.stage == Stage::Runs);
    let (Some(hold), Some(Ok((shape @ Shape::Anywhere(_), _)))) = (held, shape) else {
        return BTreeMap::new();
    };
    let shares = hold::shares(shape, &hold.nodes).unwrap_or_default();
    shares
        .into_iter()
        .flat_map(|(set, nodes)| nodes.into_iter().map(move |node| (node, set.clone())))
        .collect()
}

fn hold_of<'a>(known: &Snapshot<'a>, key: &HoldKey) -> Option<&'a Hold> {
    known.holds?.iter().find(|hold| hold.key == *key)
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

/// It was admitted.
fn ready(known: &Snapshot<'_>, one: &Present<'_>, check: &CheckState, policy: &Policy, now: u64) -> Decision {
    let name = one.key.name(&policy.prefix);
    let relies = check.pod_set_updates.iter().any(|update| update.annotations.get(HOLD) == Some(&name));
    let hold = hold_of(known, &one.key);
    if !relies || known.holds.is_none() || known.away_since.is_some() || hold.is_some_and(Hold::is_live) {
        return decision(Step::Wait(None), "it is admitted");
    }
    let causes = hold.map_or("it is not there any more", |hold| hold.causes.as_str());
    let message = format!("allocation {name} holds its servers no more: {causes}");
    retry(one, check, message, None, policy, now)
}

/// It has quota, and waits for us.
fn pending(
    known: &Snapshot<'_>,
    one: &Present<'_>,
    check: &CheckState,
    shape: Result<(Shape, RailOptions), String>,
    policy: &Policy,
    now: u64,
) -> Decision {
    let (shape, options) = match shape {
        Ok(found) => found,
        Err(why) => return reject(one, check, why, now),
    };
    if shape == Shape::Nothing {
        let message = "no pod of it has GPUs or asks for rails: nothing is held for it".to_owned();
        return report(one, check, State::Ready, message, now);
    }
    if let Some(since) = known.away_since {
        return away(one, check, since, policy, now);
    }
    let Some(holds) = known.holds else {
        return decision(Step::Wait(None), "no controller of Railyard has said yet what is held");
    };
    if let Some(hold) = hold_of(known, &one.key) {
        return held(one, check, hold, &shape, policy, now);
    }
    if holds.iter().any(|hold| hold.stage != Stage::Over) {
        return decision(Step::Wait(None), "what it held before is being given back");
    }
    if let Some(few) = too_few(&shape, known.candidates) {
        return retry(one, check, few, None, policy, now);
    }
    let Some(job) = hold::job(one.workload, &one.key, &shape, &options, known.candidates, policy) else {
        return reject(one, check, "it cannot be said as a job of Railyard".to_owned(), now);
    };
    match known.plan {
        None => decision(Step::Plan(Box::new(job)), "nothing is held for it"),
        Some(Plan::Fits) => {
            decision(Step::Create { key: one.key.clone(), job: Box::new(job) }, "it would start at once")
        }
        Some(Plan::Waits { causes, start }) => {
            retry(one, check, format!("nothing fits now: {causes}"), *start, policy, now)
        }
        Some(Plan::Never { causes }) if matches!(shape, Shape::Chosen(_)) => {
            let message = format!("the nodes that Kueue has chosen cannot be held: {causes}");
            retry(one, check, message, None, policy, now)
        }
        // It was asked for the servers that are open.
        Some(Plan::Never { causes }) if known.candidates.closed > 0 => {
            let message =
                format!("nothing fits while {} nodes are closed: {causes}", known.candidates.closed);
            retry(one, check, message, None, policy, now)
        }
        Some(Plan::Never { causes }) => reject(one, check, format!("it can never be placed: {causes}"), now),
    }
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
    one: &Present<'_>,
    check: &CheckState,
    hold: &Hold,
    shape: &Shape,
    policy: &Policy,
    now: u64,
) -> Decision {
    let name = hold.key.name(&policy.prefix);
    let limit = match hold.stage {
        Stage::Runs => {
            let Some(shares) = hold::shares(shape, &hold.nodes) else {
                let message =
                    format!("allocation {name} holds other servers than it needs: {}", hold.nodes.join(","));
                return retry(one, check, message, None, policy, now);
            };
            let updates = check::updates(&one.key.uid, &name, shape, &shares);
            let message = format!("allocation {name} holds {}", list(&hold.nodes));
            let report = Report { updates, ..Report::of(one.workload, &[check], State::Ready, message, now) };
            return decision(Step::Report(report), "its servers are held and prepared");
        }
        Stage::Ending | Stage::Over => {
            let message = format!("allocation {name} has ended before its pods ran: {}", hold.causes);
            return retry(one, check, message, None, policy, now);
        }
        Stage::Waiting => policy.place_within,
        Stage::Preparing => policy.prepare_within,
    };
    let until = hold.since.saturating_add(limit);
    let doing = if hold.stage == Stage::Waiting { "waits for servers" } else { "prepares its servers" };
    if now >= until {
        let message = format!("allocation {name} still {doing} after {limit} s: {}", hold.causes);
        return retry(one, check, message, None, policy, now);
    }
    let message = format!("allocation {name} {doing}");
    let soon = hold.since.saturating_add(SOON);
    if now >= soon && check.message != message {
        return report(one, check, State::Pending, message, now);
    }
    decision(Step::Wait(Some(if now < soon { soon.min(until) } else { until })), message)
}

/// Nobody answers.
fn away(one: &Present<'_>, check: &CheckState, since: u64, policy: &Policy, now: u64) -> Decision {
    let from = since.saturating_add(policy.away_after);
    if now < from {
        return decision(Step::Wait(Some(from)), "no controller of Railyard answers at the moment");
    }
    match policy.when_away {
        WhenAway::Open => {
            let message =
                "no controller of Railyard answers: admitted without it (when-away is open)".to_owned();
            report(one, check, State::Ready, message, now)
        }
        WhenAway::Closed => {
            let message =
                "no controller of Railyard answers: it waits until one does (when-away is closed)".to_owned();
            if check.message == message {
                return decision(Step::Wait(None), message);
            }
            report(one, check, State::Pending, message, now)
        }
    }
}

fn report(one: &Present<'_>, check: &CheckState, state: State, message: String, now: u64) -> Decision {
    let reason = message.clone();
    decision(Step::Report(Report::of(one.workload, &[check], state, message, now)), reason)
}

fn reject(one: &Present<'_>, check: &CheckState, message: String, now: u64) -> Decision {
    report(one, check, State::Rejected, message, now)
}

/// Kueue takes its quota back and tries again later: when it would probably start, and no sooner than after a pause that grows.
fn retry(
    one: &Present<'_>,
    check: &CheckState,
    message: String,
    start: Option<u64>,
    policy: &Policy,
    now: u64,
) -> Decision {
    let pause = pause(check.retry_count.unwrap_or(0), policy);
    let until_start = start.map_or(0, |start| u32::try_from(start.saturating_sub(now)).unwrap_or(u32::MAX));
    let after = until_start.clamp(pause, policy.retry_longest.max(pause));
    let reason = message.clone();
    let report = Report::of(one.workload, &[check], State::Retry, message, now);
    decision(Step::Report(Report { requeue_after: Some(after), ..report }), reason)
}

/// The pause before the next try, in seconds.
#[must_use]
pub fn pause(retries: u32, policy: &Policy) -> u32 {
    let factor = 1_u32.checked_shl(retries).unwrap_or(u32::MAX);
    policy.retry_first.saturating_mul(factor).min(policy.retry_longest)
}

fn list(nodes: &[String]) -> String {
    const SHOWN: usize = 16;
    let shown = nodes.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(",");
    match nodes.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
