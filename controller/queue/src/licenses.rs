//! Licenses: what the cluster has a number of beside its nodes, and which jobs hold some of it while they run.
//!
//! How many there are is one number of the whole cluster. That no more are held is kept by the plan, in which a license is
//! one more limit over time (`plan/license.rs`), and proved by the independent check.

use std::collections::BTreeMap;

use proto_model::{JobUid, LicenseName};

use crate::entry::Entry;

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

    /// So many of a license there are from now on; `None`: it is not known any more.
    pub(crate) fn set(&mut self, name: &LicenseName, total: Option<u32>) {
        match total {
            Some(total) => self.totals.insert(name.clone(), total),
            None => self.totals.remove(name),
        };
    }

    /// What is used of one.
    pub(crate) fn used(&self, name: &LicenseName) -> LicenseUse {
        let held = self.held.get(name);
        LicenseUse {
            held: held.map_or(0, |held| held.sum),
            running: held.map_or(0, |held| u32::try_from(held.jobs.len()).unwrap_or(u32::MAX)),
            waiting: self.waiting.get(name).copied().unwrap_or(0),
        }
    }
}
