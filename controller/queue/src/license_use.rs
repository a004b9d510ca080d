//! Licenses as the queue and a pass find them: how many there are, what is used, and who waits for some.

use proto_model::LicenseName;

use crate::{
    entry::Entry,
    licenses::LicenseUse,
    pass::Pass,
    plan::PlanRequest,
    tables::QueueState,
    why::{WaitCause, WaitReasons},
};

impl QueueState {
    /// So many of a license there are from now on; `None`: it is not known any more. Of one that is not known there is
    /// none. What running jobs hold they keep.
    pub fn set_license(&mut self, name: &LicenseName, total: Option<u32>) {
        self.licenses.set(name, total);
        self.marks.privates.set_license(name, total);
    }

    /// What is used of a license.
    #[must_use]
    pub fn license_use(&self, name: &LicenseName) -> LicenseUse {
        self.licenses.used(name)
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
            let begun = self.begun.jobs.iter().filter_map(|other| other.licenses.get(name));
            let begun = begun.map(|count| u64::from(*count)).sum::<u64>();
            let held = self.queue_state.license_use(name).held + begun;
            let total = self.queue_state.licenses.total(name);
            why.causes.push(WaitCause::License { name: name.clone(), held, total, asked: *asked });
        }
    }
}
