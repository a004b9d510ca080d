//! Whether there are as many licenses as a job asks for.

use std::sync::Arc;

use controller_queue::LicenseUse;
use proto_model::{JobSpec, License, LicenseName};

use crate::{
    error::{nearest::nearest, refusal::CoreError},
    tables::state::State,
};

impl State {
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
