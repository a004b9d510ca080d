//! Licenses over time: limits of the whole cluster, each counted in licenses.

use proto_model::{LicenseName, Timestamp};

use super::{Limited, Plan, Quota, Wish, signed};
#[cfg(test)]
use crate::plant::{self, Bug};
use crate::{book::Book, entry::Entry, grid::NEVER, row::Row};

impl Wish {
    /// How many it asks for of a license; `None`: that limit is none.
    pub(super) fn license(&self, quota: usize) -> Option<i32> {
        self.licenses.iter().find(|(at, _)| *at == quota).map(|(_, count)| *count)
    }
}

impl Plan {
    /// The licenses that a job asks for.
    pub(crate) fn license_limits(&mut self, book: &Book, entry: &Entry, now: Timestamp) -> Vec<usize> {
        #[cfg(test)]
        if plant::is(Bug::Licenses) {
            return Vec::new();
        }
        entry.licenses.keys().map(|name| self.license_limit(book, name, now)).collect()
    }

    fn license_limit(&mut self, book: &Book, name: &LicenseName, now: Timestamp) -> usize {
        let whose = Limited::License(name.clone());
        if let Some(at) = self.quota_of.get(&whose) {
            return *at;
        }
        let total = book.licenses.total(name);
        let mut left = Row::default();
        left.note(0, NEVER, signed(total));
        for (uid, count) in book.licenses.held(name) {
            if let Some(entry) = book.running.get(uid) {
                left.note(0, self.held_until(book, entry, now), -signed(count));
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
    pub(crate) fn has_licenses(&self, wish: &Wish) -> bool {
        !wish.licenses.iter().any(|license| self.lacks(*license, wish))
    }

    /// Whether one of them is not.
    pub(crate) fn is_license_short(&self, name: &LicenseName, wish: &Wish) -> bool {
        let Some(at) = self.quota_of.get(&Limited::License(name.clone())) else { return false };
        wish.licenses.iter().any(|license| license.0 == *at && self.lacks(*license, wish))
    }

    fn lacks(&self, (at, count): (usize, i32), wish: &Wish) -> bool {
        let end = self.grid.end_now(wish.length);
        self.quotas[at].left.last_below(0, end, count).is_some()
    }

    /// Whether all limits but licenses leave room for a job now.
    pub(crate) fn is_within_limits(&self, wish: &Wish) -> bool {
        let mut limits = wish.quotas.iter().filter(|at| wish.license(**at).is_none());
        limits.all(|at| self.quotas[*at].left.at(0) >= self.share(*at, wish))
    }

    /// Keeps the licenses of a job that has nodes of its own for when they are free.
    pub(crate) fn plan_licenses(&mut self, wish: &Wish) {
        let mut step = wish.from;
        loop {
            let end = self.grid.end(step, wish.length);
            let miss = |(at, count): &(usize, i32)| self.quotas[*at].left.last_below(step, end, *count);
            match wish.licenses.iter().filter_map(miss).max() {
                None => break,
                Some(NEVER) => return,
                Some(enough) => step = enough,
            }
        }
        let end = self.grid.end(step, wish.length);
        for (at, count) in &wish.licenses {
            self.quotas[*at].left.add(step, end, -count);
        }
    }
}
