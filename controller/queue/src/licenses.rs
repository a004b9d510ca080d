//! Licenses: what the cluster has a number of beside its nodes, and which jobs hold some of it while they run.
//!
//! How many there are is one number of the whole cluster. That no more are held is kept by the plan, in which a license is
//! one more limit over time (`plan/license.rs`), and proved by the independent check.

use std::collections::BTreeMap;

use proto_model::{JobUid, LicenseName};

use crate::{
    entry::Entry,
    pass::Pass,
    plan::PlanRequest,
    queue_state::QueueState,
    why::{WaitCause, WaitReasons},
};

/// How many there are, and who holds them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Licenses {
    totals: BTreeMap<LicenseName, u32>,
    /// What running jobs hold.
    held: BTreeMap<LicenseName, LicenseHolders>,
    /// By license how many waiting jobs ask for it.
    waiting: BTreeMap<LicenseName, u32>,
}

/// What running jobs hold of one license, together and each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct LicenseHolders {
    sum: u64,
    jobs: BTreeMap<JobUid, u32>,
}

/// What is used of one license.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LicenseUse {
    /// How many running jobs hold together.
    pub held: u64,
    /// Jobs that hold some.
    pub running: u32,
    /// Jobs that wait and ask for some.
    pub waiting: u32,
}

impl Licenses {
    /// Counts the licenses of a job that enters the queue state, whether it waits or runs.
    pub(crate) fn enter(&mut self, entry: &Entry) {
        for (name, count) in &entry.licenses {
            if entry.run().is_some() {
                let held = self.held.entry(name.clone()).or_default();
                held.sum += u64::from(*count);
                held.jobs.insert(entry.uid, *count);
            } else {
                *self.waiting.entry(name.clone()).or_default() += 1;
            }
        }
    }

    /// It goes, as it came.
    pub(crate) fn leave(&mut self, entry: &Entry) {
        for (name, count) in &entry.licenses {
            if entry.run().is_some() {
                if let Some(held) = self.held.get_mut(name) {
                    held.sum = held.sum.saturating_sub(u64::from(*count));
                    held.jobs.remove(&entry.uid);
                    if held.jobs.is_empty() {
                        self.held.remove(name);
                    }
                }
            } else if let Some(jobs) = self.waiting.get_mut(name) {
                *jobs = jobs.saturating_sub(1);
                if *jobs == 0 {
                    self.waiting.remove(name);
                }
            }
        }
    }

    /// How many there are of each.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (&LicenseName, u32)> {
        self.totals.iter().map(|(name, total)| (name, *total))
    }

    /// How many there are; none where it is not known.
    pub(crate) fn total(&self, name: &LicenseName) -> u32 {
        self.totals.get(name).copied().unwrap_or(0)
    }

    /// What each running job holds.
    pub(crate) fn held(&self, name: &LicenseName) -> impl Iterator<Item = (&JobUid, u32)> {
        self.held.get(name).into_iter().flat_map(|held| &held.jobs).map(|(uid, count)| (uid, *count))
    }
}

impl QueueState {
    /// So many of a license there are from now on; `None`: it is not known any more. Of one that is not known there is
    /// none. What running jobs hold they keep.
    pub fn set_license(&mut self, name: &LicenseName, total: Option<u32>) {
        match total {
            Some(total) => self.licenses.totals.insert(name.clone(), total),
            None => self.licenses.totals.remove(name),
        };
        self.marks.privates.set_license(name, total);
    }

    /// What is used of a license.
    #[must_use]
    pub fn license_use(&self, name: &LicenseName) -> LicenseUse {
        let held = self.licenses.held.get(name);
        LicenseUse {
            held: held.map_or(0, |held| held.sum),
            running: held.map_or(0, |held| u32::try_from(held.jobs.len()).unwrap_or(u32::MAX)),
            waiting: self.licenses.waiting.get(name).copied().unwrap_or(0),
        }
    }

    /// Licenses of which a job asks for more than there are.
    pub(crate) fn too_few_licenses(&self, entry: &Entry) -> Vec<WaitCause> {
        let asks = |(name, asked): (&LicenseName, &u32)| {
            let total = self.licenses.total(name);
            let held = || self.license_use(name).held;
            (*asked > total).then(|| WaitCause::License {
                name: name.clone(),
                held: held(),
                total,
                asked: *asked,
            })
        };
        entry.licenses.iter().filter_map(asks).collect()
    }
}

impl Pass<'_> {
    /// Every license for which a job does not start now.
    pub(crate) fn say_licenses(&self, entry: &Entry, desired: &PlanRequest, why: &mut WaitReasons) {
        for (name, asked) in &entry.licenses {
            if !self.plan.is_license_short(name, desired) {
                continue;
            }
            let begun = self.begun.iter().filter_map(|other| other.licenses.get(name));
            let begun = begun.map(|count| u64::from(*count)).sum::<u64>();
            let held = self.queue_state.license_use(name).held + begun;
            let total = self.queue_state.licenses.total(name);
            why.causes.push(WaitCause::License { name: name.clone(), held, total, asked: *asked });
        }
    }
}
