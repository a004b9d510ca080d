//! The decision log: what was decided of which job, and why, so that `explain --at` answers for the past.
//!
//! A record is made when a job waits for other kinds of causes than before, gets a place, gives it back, or ends; in the
//! transaction that decides it. One row holds all records of a step. Rows are kept up to a number of records and an age;
//! the oldest go first, a few with every new one.

use std::{collections::BTreeSet, sync::Arc};

use controller_state::{JobEntry, Own, Undo};
use proto_model::{Phase, Placement};

use crate::context::Step;

pub use controller_state::{
    rows::decisions::{DecisionRecord, DecisionRow},
    view::job::decisions::Past,
};

/// Records of one step at most; further ones are counted.
const RECORDS: usize = 256;
/// Causes of one record at most.
const CAUSES: usize = 16;
/// Rows that one step removes at most.
const REMOVED: usize = 4;

/// What of a job's state a decision changes; engines that get ready are none.
fn stage(entry: &JobEntry) -> (u8, u32) {
    let status = &entry.job.status;
    let stage = match status.phase {
        Phase::Pending => 0,
        Phase::Reserved | Phase::Preparing | Phase::Running => 1,
        Phase::Recovering => 2,
        Phase::Completed => 3,
        Phase::Failed => 4,
        Phase::Cancelled => 5,
    };
    (stage, status.attempt)
}

fn kinds(entry: &JobEntry) -> BTreeSet<&str> {
    entry.job.status.reasons.iter().map(|reason| reason.code.as_str()).collect()
}

/// Whether something was decided between the two.
fn decided(old: Option<&JobEntry>, new: &JobEntry) -> bool {
    let Some(old) = old else { return true };
    if Arc::ptr_eq(&old.job, &new.job) {
        return false;
    }
    let nodes = |entry: &JobEntry| entry.job.status.placement.as_deref().map_or(0, digest);
    stage(old) != stage(new)
        || (new.job.status.phase == Phase::Pending && kinds(old) != kinds(new))
        || (new.job.status.phase.holds() && nodes(old) != nodes(new))
}

/// Equal placements have equal digests.
#[must_use]
pub fn digest(placement: &Placement) -> u64 {
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for rail in &placement.rails {
        add(&rail.to_le_bytes());
    }
    for place in placement.nodes.iter().chain(&placement.spares) {
        add(place.node.as_str().as_bytes());
        add(&[0xff]);
        place.gpus.iter().for_each(|gpu| add(&gpu.to_le_bytes()));
    }
    hash
}

fn record(entry: &JobEntry) -> DecisionRecord {
    let status = &entry.job.status;
    let placement = status.placement.as_deref().filter(|_| status.phase.holds());
    DecisionRecord {
        id: entry.job.id.clone(),
        uid: entry.job.uid,
        phase: status.phase,
        attempt: status.attempt,
        reasons: status.reasons.iter().take(CAUSES).cloned().collect(),
        nodes: placement.map_or(0, |placement| u32::try_from(placement.nodes.len()).unwrap_or(u32::MAX)),
        digest: placement.map_or(0, digest),
    }
}

impl Step<'_> {
    /// Records what this step has decided.
    pub(crate) fn log_decisions(&mut self, mark: usize) {
        let mut seen = BTreeSet::new();
        let (mut records, mut omitted) = (Vec::new(), 0);
        for undo in &self.state.journal.undo[mark..] {
            let Undo::Own(Own::Job(uid, old)) = undo else { continue };
            if !seen.insert(*uid) {
                continue;
            }
            let Some(new) = self.state.base.jobs.get(uid) else { continue };
            if !decided(old.as_deref(), new) {
                continue;
            }
            if records.len() < RECORDS {
                records.push(record(new));
            } else {
                omitted += 1;
            }
        }
        if records.is_empty() {
            return;
        }
        let seq = self.state.base.decisions.last_key_value().map_or(0, |(seq, _)| seq + 1);
        let row = DecisionRow { seq, time: self.now, records, omitted };
        self.state.put(Arc::new(row));
        let config = &self.state.config;
        let (most, age) = (config.max_decisions, config.decision_retention);
        for _ in 0..REMOVED {
            let Some((oldest, row)) = self.state.base.decisions.first_key_value() else { return };
            if self.state.index.decisions <= most && row.time.plus(age) > self.now {
                return;
            }
            let oldest = *oldest;
            self.state.remove::<DecisionRow>(&oldest);
        }
    }
}
