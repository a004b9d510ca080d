//! Licenses over time: limits of the whole cluster, each counted in licenses.

use proto_model::{LicenseName, Timestamp};

use super::{Limited, Plan, PlanRequest, Quota, signed};
use crate::{entry::Entry, grid::NEVER, row::Row, tables::QueueState};

#[cfg(test)]
use crate::plant::{self, Bug};

impl PlanRequest {
    /// How many it asks for of a license; `None`: that limit is none.
    pub(super) fn license(&self, quota: usize) -> Option<i32> {
        self.licenses.iter().find(|(at, _)| *at == quota).map(|(_, count)| *count)
    }
}

impl Plan {
    /// The licenses that a job asks for.
    pub(crate) fn license_limits(
        &mut self,
        queue_state: &QueueState,
        entry: &Entry,
        now: Timestamp,
    ) -> Vec<usize> {
        #[cfg(test)]
        if plant::is(Bug::Licenses) {
            return Vec::new();
        }
        entry.licenses.keys().map(|name| self.license_limit(queue_state, name, now)).collect()
    }

    fn license_limit(&mut self, queue_state: &QueueState, name: &LicenseName, now: Timestamp) -> usize {
        let whose = Limited::License(name.clone());
        if let Some(at) = self.quota_of.get(&whose) {
            return *at;
        }
        let total = queue_state.licenses.total(name);
        let mut left = Row::default();
        left.note(0, NEVER, signed(total));
        for (uid, count) in queue_state.licenses.held(name) {
            if let Some(entry) = queue_state.running.get(uid) {
                left.note(0, self.held_until(queue_state, entry, now), -signed(count));
            }
        }
        left.sum_up();
        self.keep_limit(whose, Quota { left, gpus: false, limit: u64::from(total) })
    }

    /// The licenses that a job asks for, as far as they are among the limits, with how many.
    pub(crate) fn licenses_of(&self, entry: &Entry) -> Vec<(usize, i32)> {
        let at = |name: &LicenseName| self.quota_of.get(&Limited::License(name.clone())).copied();
        entry.licenses.iter().filter_map(|(name, count)| Some((at(name)?, signed(*count)))).collect()
    }

    /// Whether all licenses that a job asks for are free from now to its end, beside all that is planned.
    pub(crate) fn has_licenses(&self, desired: &PlanRequest) -> bool {
        !desired.licenses.iter().any(|license| self.lacks(*license, desired))
    }

    /// Whether one of them is not.
    pub(crate) fn is_license_short(&self, name: &LicenseName, desired: &PlanRequest) -> bool {
        let Some(at) = self.quota_of.get(&Limited::License(name.clone())) else { return false };
        desired.licenses.iter().any(|license| license.0 == *at && self.lacks(*license, desired))
    }

    fn lacks(&self, (at, count): (usize, i32), desired: &PlanRequest) -> bool {
        let end = self.grid.end_now(desired.length);
        self.quotas[at].left.last_below(0, end, count).is_some()
    }

    /// Whether all limits but licenses leave room for a job now.
    pub(crate) fn is_within_limits(&self, desired: &PlanRequest) -> bool {
        let mut limits = desired.quotas.iter().filter(|at| desired.license(**at).is_none());
        limits.all(|at| self.quotas[*at].left.at(0) >= self.share(*at, desired))
    }

    /// Keeps the licenses of a job that has nodes of its own for when they are free.
    pub(crate) fn plan_licenses(&mut self, desired: &PlanRequest) {
        let mut step = desired.from;
        loop {
            let end = self.grid.end(step, desired.length);
            let miss = |(at, count): &(usize, i32)| self.quotas[*at].left.last_below(step, end, *count);
            match desired.licenses.iter().filter_map(miss).max() {
                None => break,
                Some(NEVER) => return,
                Some(enough) => step = enough,
            }
        }
        let end = self.grid.end(step, desired.length);
        for (at, count) in &desired.licenses {
            self.quotas[*at].left.add(step, end, -count);
        }
    }
}
