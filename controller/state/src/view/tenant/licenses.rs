//! Whether there are as many licenses as a job asks for.

use std::sync::Arc;

use controller_queue::LicenseUse;
use proto_model::{JobSpec, License, LicenseName};

use crate::{
    error::{nearest::nearest, refusal::CoreError},
    rows::write::{Key, Write},
    tables::{journal::Undo, state::State},
};

impl State {
    /// Puts a license into its table, or takes it out; the journal can undo it.
    pub fn set_license(&mut self, name: &LicenseName, new: Option<Arc<License>>) {
        let old = self.swap_license(name, new);
        self.journal.undo.push(Undo::License(name.clone(), old));
    }

    /// What is stored, with the store's revisions.
    pub fn load_licenses(&mut self, stored: Vec<(Arc<License>, u64)>) {
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

    /// The refusal for a license that is not there, with the name that may have been meant.
    pub fn no_license(&self, name: &LicenseName) -> CoreError {
        let nearest = nearest(name.as_str(), self.base.licenses.keys());
        CoreError::LicenseNotFound { license: name.clone(), nearest }
    }

    /// Whether the licenses that a job asks for are there, and as many of each. Whether they are free, its turn shows.
    ///
    /// # Errors
    /// A license is not there, or there are fewer of it than the job asks for.
    pub fn check_licenses(&self, spec: &JobSpec) -> Result<(), CoreError> {
        for (name, asked) in &spec.licenses {
            let total = self.license(name).ok_or_else(|| self.no_license(name))?.total;
            if *asked > total {
                return Err(CoreError::LicenseTooFew { license: name.clone(), asked: *asked, total });
            }
        }
        Ok(())
    }
}
