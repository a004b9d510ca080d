//! The jobs that a name means: a job, or elements of an array.

use std::collections::BTreeSet;

use proto_model::{Authority, Job, JobId, JobName, JobUid, TenantName};

use crate::{error::refusal::CoreError, tables::state::State};

/// The name of an element.
///
/// # Errors
/// The name of the array and the index are too long together.
pub fn element(tenant: &TenantName, array: &JobName, index: u32) -> Result<JobId, CoreError> {
    let name = JobName::new(format!("{array}-{index}")).map_err(|error| CoreError::Invalid {
        field: "metadata.name",
        message: format!("an element of the array cannot be named: {error}"),
    })?;
    Ok(JobId { tenant: tenant.clone(), name })
}

impl State {
    /// The jobs that a name means, if whoever asks may change all of them; `None` stands for the controller itself.
    ///
    /// # Errors
    /// There is no such job, or one of them is somebody else's.
    pub fn changeable(
        &self,
        id: &JobId,
        indices: &[u32],
        by: Option<&Authority>,
    ) -> Result<Vec<JobUid>, CoreError> {
        let uids = self.selected(id, indices)?;
        let Some(by) = by else { return Ok(uids) };
        let jobs = uids.iter().filter_map(|uid| Some(&self.base.jobs.get(uid)?.job));
        match jobs.into_iter().find(|job| !by.may_change(job.status.submitter.as_ref())) {
            None => Ok(uids),
            Some(job) => Err(CoreError::NotOwner {
                what: format!("job '{}'", job.id.name),
                owner: job.status.submitter.as_ref().map(|owner| owner.user.clone()),
            }),
        }
    }

    /// The jobs that a name means: a job, or an array's elements, all of them or those of some indices.
    ///
    /// # Errors
    /// There is no such job, or the array has no such element.
    pub fn selected(&self, id: &JobId, indices: &[u32]) -> Result<Vec<JobUid>, CoreError> {
        if let Some(uid) = self.index.names.get(id).filter(|_| indices.is_empty()) {
            return Ok(vec![*uid]);
        }
        let missing = || CoreError::JobNotFound { id: id.clone() };
        let elements = self.index.arrays.get(id).ok_or_else(missing)?;
        if indices.is_empty() {
            return Ok(elements.by_index.values().copied().collect());
        }
        let wanted: BTreeSet<u32> = indices.iter().copied().collect();
        let found = |index: &u32| {
            elements.by_index.get(index).copied().ok_or_else(|| CoreError::ElementNotFound {
                array: id.clone(),
                index: *index,
                first: elements.by_index.keys().next().copied().unwrap_or(0),
                last: elements.by_index.keys().next_back().copied().unwrap_or(0),
                count: elements.by_index.len(),
            })
        };
        wanted.iter().map(found).collect()
    }

    /// The elements of an array by index; none if there is no such array.
    pub fn array(&self, id: &JobId) -> impl Iterator<Item = &std::sync::Arc<Job>> {
        let elements = self.index.arrays.get(id).into_iter().flat_map(|elements| elements.by_index.values());
        elements.filter_map(|uid| self.job_by_uid(uid))
    }
}
