//! Licenses: made, changed and removed; whether there are as many as a job asks for.

use std::sync::Arc;

use controller_queue::LicenseUse;
use proto_model::{JobSpec, License, LicenseName};

use super::nearest;
use crate::{
    error::CoreError,
    event::{Key, Reply, Write},
    state::{State, journal::Undo},
    step::Step,
};

/// Licenses at most.
const MAX_LICENSES: usize = 256;

impl Step<'_> {
    pub(crate) fn apply_license(&mut self, license: License, dry_run: bool) -> Result<Reply, CoreError> {
        let name = license.name.clone();
        let old = self.state.base.licenses.get(&name).cloned();
        let wanted = match &old {
            Some(old) => {
                License { uid: old.uid.clone(), generation: old.generation, created: old.created, ..license }
            }
            None if self.state.base.licenses.len() >= MAX_LICENSES => {
                let remedy = "delete some that are not used";
                return Err(CoreError::Full { what: "licenses", limit: MAX_LICENSES, remedy });
            }
            None => License { uid: self.random_uid(), generation: 0, created: self.now, ..license },
        };
        if let Some(old) = old.filter(|old| **old == wanted) {
            return Ok(Reply::License(old));
        }
        let license = Arc::new(License { generation: wanted.generation + 1, ..wanted });
        if !dry_run {
            self.state.set_license(&name, Some(Arc::clone(&license)));
            self.request_scheduling_pass();
        }
        Ok(Reply::License(license))
    }

    pub(crate) fn delete_license(&mut self, name: &LicenseName) -> Result<Reply, CoreError> {
        if self.state.license(name).is_none() {
            return Err(self.state.no_license(name));
        }
        let asks =
            |job: &proto_model::Job| job.spec.licenses.contains_key(name) && !job.status.phase.is_terminal();
        let jobs = self.state.base.jobs.values().filter(|entry| asks(&entry.job)).count();
        if jobs > 0 {
            let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
            return Err(CoreError::LicenseBusy { license: name.clone(), jobs });
        }
        self.state.set_license(name, None);
        Ok(Reply::Done)
    }
}

impl State {
    fn set_license(&mut self, name: &LicenseName, new: Option<Arc<License>>) {
        let old = self.swap_license(name, new);
        self.journal.undo.push(Undo::License(name.clone(), old));
    }

    /// What is stored, with the store's revisions.
    pub(crate) fn load_licenses(&mut self, stored: Vec<(Arc<License>, u64)>) {
        for (license, version) in stored {
            let name = license.name.clone();
            self.versions.insert(Key::License(name.clone()), version);
            self.swap_license(&name, Some(license));
        }
    }

    pub(crate) fn swap_license(
        &mut self,
        name: &LicenseName,
        new: Option<Arc<License>>,
    ) -> Option<Arc<License>> {
        self.index.queue_state.set_license(name, new.as_ref().map(|license| license.total));
        match new {
            Some(new) => self.base.licenses.insert(name.clone(), new),
            None => self.base.licenses.remove(name),
        }
    }

    pub(crate) fn license_write(&self, name: &LicenseName, was: bool) -> Option<Write> {
        let deleted = || was.then(|| Write::DeleteLicense(name.clone()));
        self.base.licenses.get(name).cloned().map(Write::PutLicense).or_else(deleted)
    }

    /// A license.
    #[must_use]
    pub fn license(&self, name: &LicenseName) -> Option<&Arc<License>> {
        self.base.licenses.get(name)
    }

    /// What is used of a license.
    #[must_use]
    pub fn license_use(&self, name: &LicenseName) -> LicenseUse {
        self.index.queue_state.license_use(name)
    }

    fn no_license(&self, name: &LicenseName) -> CoreError {
        let nearest = nearest(name.as_str(), self.base.licenses.keys());
        CoreError::LicenseNotFound { license: name.clone(), nearest }
    }

    /// Whether the licenses that a job asks for are there, and as many of each. Whether they are free, its turn shows.
    pub(crate) fn check_licenses(&self, spec: &JobSpec) -> Result<(), CoreError> {
        for (name, asked) in &spec.licenses {
            let total = self.license(name).ok_or_else(|| self.no_license(name))?.total;
            if *asked > total {
                return Err(CoreError::LicenseTooFew { license: name.clone(), asked: *asked, total });
            }
        }
        Ok(())
    }
}
