//! What was decided of a job up to some time.

use proto_model::{JobId, TenantName, Timestamp};

use crate::{error::refusal::CoreError, rows::decisions::DecisionRecord, tables::state::State};

/// Records that one answer shows.
const SHOWN: usize = 32;

/// What a job was up to some time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Past {
    /// Times and records, the last one last; never empty.
    pub decisions: Vec<(Timestamp, DecisionRecord)>,
}

impl State {
    /// When the tenant was made: what was decided before is of an earlier one of that name.
    #[must_use]
    pub fn tenant_begin(&self, tenant: &TenantName) -> Timestamp {
        self.base.tenants.get(tenant).map_or(Timestamp(u64::MAX), |tenant| tenant.created)
    }

    /// What was decided of a job from `from` up to a time, also of one that is gone.
    ///
    /// # Errors
    /// There is no such job, or nothing was recorded of it by then.
    pub fn explain_at(&self, id: &JobId, from: Timestamp, at: Timestamp) -> Result<Past, CoreError> {
        let time = |seq: &u64| self.base.decisions.get(seq).map(|row| row.time);
        let rows = self.index.decided.get(id).into_iter().flatten();
        let rows: Vec<u64> = rows.filter(|seq| time(seq).is_some_and(|time| time >= from)).copied().collect();
        let Some(first) = rows.first() else {
            if !self.index.names.contains_key(id) {
                return Err(CoreError::JobNotFound { id: id.clone() });
            }
            let message =
                format!("nothing is recorded of job '{id}' any more; leave `at` out to hear of now");
            return Err(CoreError::Invalid { field: "at", message });
        };
        let of_row = |seq: &u64| {
            let row = self.base.decisions.get(seq)?;
            Some(
                row.records.iter().filter(|record| record.id == *id).map(|record| (row.time, record.clone())),
            )
        };
        let mut decisions: Vec<(Timestamp, DecisionRecord)> =
            rows.iter().filter_map(of_row).flatten().filter(|(time, _)| *time <= at).collect();
        if decisions.is_empty() {
            let ahead = time(first).map_or(0, |first| first.since(at).as_secs());
            let message = format!(
                "nothing is recorded of job '{id}' at that time; the first decision came {ahead} s later"
            );
            return Err(CoreError::Invalid { field: "at", message });
        }
        decisions.drain(..decisions.len().saturating_sub(SHOWN));
        Ok(Past { decisions })
    }
}
