//! What a job waits for beside room: other jobs, its turn in its array, a time.

use std::collections::BTreeSet;

use proto_model::{
    Dependency, DependencyWhen, Job, JobId, JobName, Phase, Reason, ReasonCode, TenantName, Timestamp,
};

use crate::{
    error::refusal::CoreError,
    index::arrays::{Progress, array_of},
    tables::state::State,
    view::job::holds::causes,
};

/// Names that are looked at for the one that was meant.
const NAMES_CHECKED: usize = 10_000;

/// Jobs that a chain of dependencies may have, each waiting for the next, before it is not followed further.
const CHAIN_MAX: usize = 100_000;

/// What holds a waiting job back.
#[derive(Debug, Default)]
pub struct Hold {
    /// Every cause; none: nothing but room is missing.
    pub reasons: Vec<Reason>,
    /// It can never start, and why.
    pub never: Vec<Reason>,
    /// When time alone takes a cause away.
    pub until: Option<Timestamp>,
}

/// Whether a condition on other jobs is fulfilled.
enum Answer {
    Met,
    Open,
    Never(&'static str),
}

fn answer(progress: Option<Progress>, when: DependencyWhen) -> Answer {
    let Some(progress) = progress else { return Answer::Never("is gone") };
    let all_ended = progress.ended() == progress.all;
    match when {
        DependencyWhen::Succeeded if progress.failed > 0 => Answer::Never("has failed"),
        DependencyWhen::Succeeded if progress.cancelled > 0 => Answer::Never("was cancelled"),
        DependencyWhen::Started if progress.started == progress.all => Answer::Met,
        DependencyWhen::Started if progress.missed > 0 => Answer::Never("has ended without ever starting"),
        DependencyWhen::Failed if all_ended && progress.failed == 0 => Answer::Never("has not failed"),
        DependencyWhen::Succeeded | DependencyWhen::Ended | DependencyWhen::Failed if all_ended => {
            Answer::Met
        }
        _ => Answer::Open,
    }
}

fn words(when: DependencyWhen) -> &'static str {
    match when {
        DependencyWhen::Succeeded => "succeeded",
        DependencyWhen::Ended => "ended",
        DependencyWhen::Started => "started",
        DependencyWhen::Failed => "failed",
    }
}

impl State {
    /// How far the job or the array of that name is.
    fn progress(&self, id: &JobId) -> Option<Progress> {
        let job = self.index.names.get(id).and_then(|uid| self.base.jobs.get(uid));
        job.map(|entry| Progress::of(&entry.job))
            .or_else(|| self.index.arrays.get(id).map(|elements| elements.progress))
    }

    /// What holds a waiting job back now. A job that was tried once is held by people, and by its turn if it gave that up for them: its
    /// other conditions were met.
    pub fn hold(&self, job: &Job, now: Timestamp) -> Hold {
        let mut hold = Hold::default();
        if job.status.phase != Phase::Pending {
            return hold;
        }
        hold.reasons.extend(causes(job));
        if job.status.attempt <= 1 {
            self.hold_conditions(job, now, &mut hold);
        }
        // One that people hold lets the others of its array pass.
        if job.status.holds.is_empty() {
            self.hold_turn(job, &mut hold);
        }
        hold
    }

    /// A job that was never tried waits for its begin time, and for other jobs.
    fn hold_conditions(&self, job: &Job, now: Timestamp, hold: &mut Hold) {
        if let Some(begin) = job.spec.begin.filter(|begin| *begin > now) {
            let seconds = begin.since(now).as_secs();
            let message = format!("the job is not to start before its begin time, {seconds} s from now");
            hold.reasons.push(Reason::new(ReasonCode::BeginTime, message).since(job.status.submitted));
            hold.until = Some(begin);
        }
        for Dependency { job: name, when } in &job.spec.after {
            let id = JobId { tenant: job.id.tenant.clone(), name: name.clone() };
            let word = words(*when);
            match answer(self.progress(&id), *when) {
                Answer::Met => {}
                Answer::Open => {
                    let message = format!("the job waits until '{name}' has {word}");
                    hold.reasons
                        .push(Reason::new(ReasonCode::Dependency, message).scope(format!("job/{id}")));
                }
                Answer::Never(what) => {
                    let message =
                        format!("the job was to wait until '{name}' has {word}, and '{name}' {what}");
                    hold.never.push(
                        Reason::new(ReasonCode::DependencyNeverMet, message).scope(format!("job/{id}")),
                    );
                }
            }
        }
    }

    /// An element waits while as many of its array as may be at once are under way.
    fn hold_turn(&self, job: &Job, hold: &mut Hold) {
        let at_once = job.spec.array.as_ref().map_or(0, |array| array.at_once);
        let Some((id, index)) = array_of(job).filter(|_| at_once > 0) else { return };
        let elements = self.index.arrays.get(&id);
        let own = self.base.jobs.get(&job.uid).is_some_and(|entry| !entry.held);
        let active = elements.map_or(0, |elements| elements.active).saturating_sub(u32::from(own));
        if active >= at_once {
            let ahead = elements.map_or(0, |elements| elements.held.range(..index).count());
            let message = format!(
                "{active} of at most {at_once} jobs of array '{}' are under way; {ahead} others come before this one",
                id.name
            );
            hold.reasons
                .push(Reason::new(ReasonCode::ArrayTurn, message).count(ahead).scope(format!("job/{id}")));
        }
    }

    /// Refuses conditions on jobs that there are not, and those that can never be met because they wait for the job
    /// itself. `own` is the name of the job, or of its array.
    ///
    /// # Errors
    /// A job that is named is not there, or would wait for this one.
    pub fn check_after(
        &self,
        tenant: &TenantName,
        own: &JobName,
        elements: &[u32],
        after: &[Dependency],
    ) -> Result<(), CoreError> {
        for Dependency { job, .. } in after {
            let id = JobId { tenant: tenant.clone(), name: job.clone() };
            let element = || job.as_str().strip_prefix(own.as_str())?.strip_prefix('-')?.parse().ok();
            if job == own || element().is_some_and(|index: u32| elements.contains(&index)) {
                return Err(CoreError::DependencyCycle { path: vec![own.clone(), job.clone()] });
            }
            if self.progress(&id).is_none() {
                return Err(CoreError::DependencyUnknown { job: id, nearest: self.nearest_job(tenant, job) });
            }
        }
        self.check_cycle(tenant, own, after)
    }

    /// Follows what those that the job waits for wait for themselves.
    fn check_cycle(&self, tenant: &TenantName, own: &JobName, after: &[Dependency]) -> Result<(), CoreError> {
        let mut seen: BTreeSet<JobName> = BTreeSet::new();
        let mut open: Vec<Vec<JobName>> =
            after.iter().map(|dependency| vec![own.clone(), dependency.job.clone()]).collect();
        while let Some(path) = open.pop() {
            let Some(last) = path.last() else { continue };
            if last == own {
                return Err(CoreError::DependencyCycle { path });
            }
            if seen.len() >= CHAIN_MAX || !seen.insert(last.clone()) {
                continue;
            }
            let id = JobId { tenant: tenant.clone(), name: last.clone() };
            let element = self.index.arrays.get(&id).and_then(|elements| elements.by_index.values().next());
            let uid = self.index.names.get(&id).or(element);
            let Some(entry) = uid.and_then(|uid| self.base.jobs.get(uid)) else { continue };
            if entry.job.status.phase != Phase::Pending {
                continue;
            }
            for next in &entry.job.spec.after {
                let short = if path.len() > 16 { &path[path.len() - 16..] } else { &path[..] };
                open.push(short.iter().cloned().chain([next.job.clone()]).collect());
            }
        }
        Ok(())
    }

    fn nearest_job(&self, tenant: &TenantName, name: &JobName) -> Option<JobName> {
        let own = |id: &&JobId| id.tenant == *tenant;
        let Ok(first) = JobName::new("0") else { return None };
        let from = JobId { tenant: tenant.clone(), name: first };
        let jobs = self.index.names.range(from.clone()..).map(|pair| pair.0).take_while(own);
        let arrays = self.index.arrays.range(from..).map(|pair| pair.0).take_while(own);
        arrays
            .take(NAMES_CHECKED)
            .chain(jobs.take(NAMES_CHECKED))
            .map(|id| (strsim::damerau_levenshtein(name.as_str(), id.name.as_str()), &id.name))
            .filter(|(distance, _)| *distance <= 3)
            .min()
            .map(|(_, near)| near.clone())
    }

    /// A waiting job that names this one, or its array, in its conditions.
    pub fn needed_by(&self, job: &Job) -> Option<&JobId> {
        let array = array_of(job).map(|(id, _)| id);
        let dependents = [Some(job.id.clone()), array].into_iter().flatten();
        let uid = dependents.filter_map(|id| self.index.dependents.get(&id)?.first().copied()).next()?;
        self.base.jobs.get(&uid).map(|entry| &entry.job.id)
    }
}
