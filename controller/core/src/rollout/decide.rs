//! The machine of rollouts, the same for both ends of a cable: what one look decides, from what agents have said and what was begun
//! before. Units (NICs, or switches) get what is desired in stages; a unit is out of use from before it is touched until its agent says
//! that it is kept there, or taken back.

use std::{collections::BTreeMap, time::Duration};

use controller_state::rows::rollout::{Active, CHANGES, Run};
use proto_model::{QosState, Reason, ReasonCode, Timestamp};

/// Beyond the time of a trial, an agent that is heard is given so long to do what is desired.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a unit waits for of which nothing is known yet.
const COMPARED: &str = "what it has is compared with what it is to have";

/// What a rollout goes by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// It does not go on: what is on trial is taken back.
    pub(super) paused: bool,
    /// A trial that nobody confirms for so long is taken back.
    pub(super) confirm_within: Duration,
    /// A trial has to be well for so long before it is confirmed.
    pub(super) soak: Duration,
    /// Units out of use at a time, at most.
    pub(super) at_once: usize,
    /// Also where a job loses its last rail.
    pub(super) force: bool,
}

/// Codes of what makes a rollout pause.
#[derive(Debug, Clone)]
pub(super) struct Codes {
    pub(super) failed: ReasonCode,
    pub(super) silent: ReasonCode,
    pub(super) unwell: ReasonCode,
}

/// What a rollout changes at one time: a NIC, or a switch.
pub(super) trait Unit {
    /// Names it.
    type Key: Ord + Clone;
    /// Its turn.
    type Stage: Ord + Copy;
    /// What is said where it goes wrong.
    const CODES: Codes;

    fn key(&self) -> Self::Key;
    fn stage(&self) -> Self::Stage;
    /// Units of this stage go one by one, whatever the rollout allows.
    fn alone(stage: Self::Stage) -> bool;
    /// Its agent is connected and heard.
    fn heard(&self) -> bool;
    /// How it stands to this rollout, if its agent has said anything of it.
    fn state(&self) -> Option<QosState>;
    /// What its agent says, in words; may be empty.
    fn said(&self) -> &str;
    /// Its agent is done with all that it was told.
    fn done(&self) -> bool;
    /// Why it serves nobody well at present.
    fn unwell(&self) -> Option<&str>;
    /// Whether it has what is desired will be known with its agent's next word.
    fn unread(&self) -> bool;
    /// For messages, for example "mlx5_0 of node 'n3'".
    fn name(&self) -> String;
    /// For messages: whose agent it is, and what that changes, for example ("node 'n3'", "mlx5_0").
    fn agent(&self) -> (String, String);
    /// The scope of a reason that is about it.
    fn scope(&self) -> String;
}

/// What of the cluster matters besides.
pub(super) trait Site<U: Unit> {
    /// Who still uses it, although it is to be out of use.
    fn user(&self, unit: &U) -> Option<String>;
    /// Of these those without which a job would have no rail left, with its name.
    fn strands(&self, units: &[&U]) -> BTreeMap<U::Key, String>;
    /// Whether it may not be out of use beside what is (`run`), or beside `chosen`.
    fn conflicts(&self, unit: &U, run: &Run<U::Key>, chosen: &[&U]) -> bool;
}

/// What follows.
#[derive(Debug)]
pub(super) struct Decision<K> {
    pub(super) run: Run<K>,
    /// Why the rollout is to pause.
    pub(super) pause: Option<Reason>,
}

/// Decides; `units` are in the order of their stages, then of their names.
pub(super) fn decide<U: Unit>(
    terms: &Terms,
    units: &[U],
    run: &Run<U::Key>,
    site: &dyn Site<U>,
    now: Timestamp,
) -> Decision<U::Key> {
    let mut decision = Decision { run: Run::default(), pause: None };
    for unit in units {
        if let Some(active) = run.units.get(&unit.key()) {
            go_on(terms, unit, active, site, now, &mut decision);
        }
    }
    if terms.paused || decision.pause.is_some() {
        for active in decision.run.units.values_mut() {
            if !active.kept && active.opened.is_some() {
                active.leaving.get_or_insert(now);
            }
        }
        decision.run.units.retain(|_, active| active.leaving.is_some() || active.kept);
    } else {
        begin(terms, units, site, now, &mut decision);
    }
    decision
}

/// One that is under way.
fn go_on<U: Unit>(
    terms: &Terms,
    unit: &U,
    active: &Active,
    site: &dyn Site<U>,
    now: Timestamp,
    decision: &mut Decision<U::Key>,
) {
    let mut active = active.clone();
    if !unit.heard() {
        away(terms, unit, active, now, decision);
        return;
    }
    active.is_back(now);
    let found = match (unit.state(), active.leaving) {
        (Some(QosState::Failed), _) => Err((U::CODES.failed, format!("{}: {}", unit.name(), unit.said()))),
        (state, Some(since)) => {
            let settled = unit.done() && state.is_some_and(|state| state != QosState::Trial);
            if settled || now.since(since) >= patience(terms) {
                return;
            }
            active.note = "what was tried is taken back".to_owned();
            Ok(())
        }
        // One that is to be changed may have been told so before its agent began.
        (Some(QosState::Kept), None) if active.kept || active.opened.is_none() || unit.done() => return,
        (Some(QosState::Trial), None) => try_out(terms, unit, &mut active, now),
        (Some(QosState::Held | QosState::Kept | QosState::Differs) | None, None) => {
            open(terms, unit, &mut active, site, now)
        }
    };
    if let Err((code, text)) = found {
        decision.pause.get_or_insert(Reason::new(code, text).scope(unit.scope()).since(now));
    }
    if unit.state() != Some(QosState::Failed) {
        decision.run.units.insert(unit.key(), active);
    }
}

/// One whose agent is not heard. It may be at work on it, and may begin with taking it back when it starts again: nobody uses it until
/// the agent says what became of it, or is away for long.
fn away<U: Unit>(
    terms: &Terms,
    unit: &U,
    mut active: Active,
    now: Timestamp,
    decision: &mut Decision<U::Key>,
) {
    let since = *active.away.get_or_insert(now);
    if active.opened.is_some() && now.since(since) < patience(terms) {
        active.note = "its agent is not heard".to_owned();
        decision.run.units.insert(unit.key(), active);
    }
}

/// How long an agent that is heard may take for what is desired, and how long one that is not heard is waited for.
fn patience(terms: &Terms) -> Duration {
    terms.confirm_within + PATIENCE
}

/// Why a rollout has to pause.
type Trouble = (ReasonCode, String);

/// An agent that is heard, and does not do what is desired.
fn silent<U: Unit>(terms: &Terms, unit: &U, what: &str) -> Trouble {
    let limit = patience(terms).as_secs();
    let (owner, thing) = unit.agent();
    let text = format!(
        "the agent of {owner} is heard and has not {what} {thing} within {limit} s; it may be of an older release, see its log"
    );
    (U::CODES.silent, text)
}

/// One that is to be given to its agent, or was.
fn open<U: Unit>(
    terms: &Terms,
    unit: &U,
    active: &mut Active,
    site: &dyn Site<U>,
    now: Timestamp,
) -> Result<(), Trouble> {
    match active.opened {
        None => match site.user(unit) {
            None => {
                active.opened = Some(now);
                active.note = CHANGES.to_owned();
            }
            Some(user) => active.note = user,
        },
        Some(opened) if now.since(opened) >= patience(terms) => {
            // It has had its time, and gets no more of it to take back what it has not said it has done.
            active.leaving = Some(opened);
            return Err(silent(terms, unit, "changed"));
        }
        Some(_) => {}
    }
    Ok(())
}

/// One on trial.
fn try_out<U: Unit>(terms: &Terms, unit: &U, active: &mut Active, now: Timestamp) -> Result<(), Trouble> {
    let since = *active.trial.get_or_insert(now);
    active.opened.get_or_insert(now);
    let passed = now.since(since);
    match unit.unwell() {
        _ if active.kept && passed >= patience(terms) => {
            active.kept = false;
            return Err(silent(terms, unit, "confirmed"));
        }
        None if passed >= terms.soak => {
            active.kept = true;
            active.note = "it is well and is to be kept".to_owned();
        }
        None => active.note = format!("it is on trial, and has to be well for {} s", terms.soak.as_secs()),
        Some(why) if passed >= terms.confirm_within => {
            return Err((U::CODES.unwell, format!("{} is not well with it: {why}", unit.name())));
        }
        Some(why) => active.note = format!("it is on trial, and not well: {why}"),
    }
    Ok(())
}

/// More of the first stage that has not all of it.
fn begin<U: Unit>(
    terms: &Terms,
    units: &[U],
    site: &dyn Site<U>,
    now: Timestamp,
    decision: &mut Decision<U::Key>,
) {
    let lacks = |unit: &&U| unit.heard() && unit.state() != Some(QosState::Kept);
    let Some(stage) = units.iter().filter(lacks).map(U::stage).min() else { return };
    let at_once = if U::alone(stage) { 1 } else { terms.at_once };
    let room = at_once.saturating_sub(decision.run.units.len());
    let mut chosen: Vec<&U> = Vec::new();
    for unit in units.iter().filter(|unit| unit.stage() == stage).filter(lacks) {
        if decision.run.units.contains_key(&unit.key()) {
            continue;
        }
        if unit.state() == Some(QosState::Failed) {
            let text = format!("{}: {}", unit.name(), unit.said());
            decision.pause = Some(Reason::new(U::CODES.failed, text).scope(unit.scope()).since(now));
            return;
        }
        if unit.unread() && unit.state() != Some(QosState::Trial) {
            decision.run.waits.insert(unit.key(), COMPARED.to_owned());
            continue;
        }
        if chosen.len() < room && !site.conflicts(unit, &decision.run, &chosen) {
            chosen.push(unit);
        }
    }
    // What is on trial already is out of use already: this controller has begun since.
    let on_trial = |unit: &U| unit.state() == Some(QosState::Trial);
    let fresh: Vec<&U> = chosen.iter().copied().filter(|unit| !on_trial(unit)).collect();
    let strands = if terms.force || fresh.is_empty() { BTreeMap::new() } else { site.strands(&fresh) };
    for unit in chosen {
        if let Some(job) = strands.get(&unit.key()).filter(|_| !on_trial(unit)) {
            let text = format!(
                "job '{job}' would have no rail left; it is waited for, unless the rollout is forced"
            );
            decision.run.waits.insert(unit.key(), text);
            continue;
        }
        let active = if on_trial(unit) { Active::on_trial(now) } else { Active::begun() };
        decision.run.units.insert(unit.key(), active);
    }
}
