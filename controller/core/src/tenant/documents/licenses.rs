//! Licenses: made, changed and removed; whether there are as many as a job asks for.

use std::sync::Arc;

use controller_state::CoreError;
use proto_model::{License, LicenseName};

use crate::{context::Step, event::Reply};

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
            self.state.put(Arc::clone(&license));
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
        self.state.remove::<License>(name);
        Ok(Reply::Done)
    }
}
