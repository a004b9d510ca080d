//! What attempts held, as the simulator itself sees it: phases and placements of stored jobs, and the time at which they changed. The usage
//! records must say just that: one for each attempt, in the transaction that frees what it held, and none without an attempt.

mod events;

use std::collections::BTreeMap;

use controller_core::{
    State, Transition, UsageBudget, UsageBy, UsageFilter, UsageKey, UsageRecord, UsageSums,
};
use proto_model::{Job, JobUid, Timestamp};

/// GPUs, NICs and servers of a job.
type Size = [u64; 3];

/// What an attempt held; the size is not known of one that got its place and gave it back in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    placed: Timestamp,
    ended: Timestamp,
    size: Option<Size>,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Usage {
    /// Attempts that hold something, by their jobs, and since when.
    open: BTreeMap<JobUid, (u32, Timestamp)>,
    /// Attempts that held something.
    ended: BTreeMap<UsageKey, Span>,
}

/// How the records of a run compare with what the simulator saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTally {
    /// Attempts that ended.
    pub attempts: u64,
    /// Attempts without a record.
    pub lost: u64,
    /// Records without an attempt of their own.
    pub doubled: u64,
    /// Records of another time or size.
    pub wrong: u64,
    /// Milliseconds times GPUs, as the simulator saw them.
    pub gpu_ms: u64,
    /// The same, as the controller sums its records up.
    pub gpu_ms_recorded: u64,
}

fn size(job: &Job) -> Size {
    let placement = job.status.placement.as_deref();
    let places = placement.into_iter().flat_map(|placement| placement.nodes.iter().chain(&placement.spares));
    places.fold([0; 3], |[gpus, nics, nodes], place| {
        [gpus + place.gpus.len() as u64, nics + place.nics.len() as u64, nodes + 1]
    })
}

fn recorded(record: &UsageRecord) -> Span {
    let nodes = u64::from(record.held.nodes) + u64::from(record.held.spares);
    let size = Some([record.held.gpus, record.held.nics, nodes]);
    Span { placed: record.placed, ended: record.ended, size }
}

/// Whether a record says what was seen.
fn agree(seen: &Span, record: &Span) -> bool {
    (seen.placed, seen.ended) == (record.placed, record.ended)
        && seen.size.is_none_or(|size| Some(size) == record.size)
}

impl Usage {
    /// Follows the phases of jobs. `before`: the jobs as they were stored.
    fn follow(
        &mut self,
        transitions: &[Transition],
        now: Timestamp,
        before: &BTreeMap<JobUid, &Job>,
    ) -> Vec<(UsageKey, Span)> {
        let mut ended = Vec::new();
        for step in transitions {
            if step.from.holds() && !step.to.holds() {
                let Some((attempt, placed)) = self.open.remove(&step.uid) else { continue };
                let stored = before.get(&step.uid).filter(|job| job.status.attempt == attempt);
                let size = stored.filter(|job| job.status.phase.holds()).map(|job| size(job));
                // Clocks of controllers may differ.
                ended.push(((step.uid, attempt), Span { placed, ended: now.max(placed), size }));
            }
            if !step.from.holds() && step.to.holds() {
                self.open.insert(step.uid, (step.attempt, now));
            }
        }
        ended
    }
}

/// The GPU time of all records, page by page, as the API sums it.
fn summed(state: &State) -> u64 {
    let (since, until) = (Timestamp(0), Timestamp(u64::MAX));
    let filter = UsageFilter { tenant: None, tenant_uid: None, queue: None, user: None, since, until };
    let budget = UsageBudget { records: 7, examined: 9, late: 9 };
    let mut sums = UsageSums::new(UsageBy::Job, since, until);
    let mut after = None;
    loop {
        // As of the end of time: nothing ends later.
        let page = state.usage_page(&filter, until, after, budget).unwrap_or_default();
        let fit = page.records.iter().all(|record| sums.add(record).is_ok());
        after = page.next.filter(|_| fit);
        if after.is_none() {
            return sums.total().amount.gpu_ms;
        }
    }
}
