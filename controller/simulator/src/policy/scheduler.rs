//! What a policy is asked and answers, and the rules that all of them keep.

use std::time::Duration;

use controller_queue::{Budget, Policy as Queueing};
use controller_scheduler::Snapshot;
use controller_topology::NodeIx;
use proto_model::{Backfill, LongJobLimit, Objective, Placement, Timestamp};

use crate::{proof::Claim, workload::SimJob};

/// A decision of a scheduler.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// A waiting job starts.
    Start {
        /// Index into the jobs of the workload.
        job: usize,
        /// The servers, GPUs and NICs that it gets.
        placement: Box<Placement>,
    },
    /// A running job is stopped for another and queued again.
    Preempt {
        /// Index into the jobs of the workload.
        job: usize,
        /// It holds its place so long.
        grace: Duration,
    },
}

/// What a scheduler is given, and what it decides. It sees no run that a real one would not know: only limits.
pub trait Scheduler {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// A job is queued; again, after it was stopped.
    fn submit(&mut self, job: usize, jobs: &[SimJob], now: Timestamp);

    /// A running job has ended; or it was stopped, and will be queued again: then it has not run as a whole.
    fn end(&mut self, job: usize, jobs: &[SimJob], now: Timestamp, whole: bool);

    /// A server takes new jobs, or no longer does.
    fn node(&mut self, node: NodeIx, open: bool, now: Timestamp);

    /// What a job's placement is proved against: only what such a scheduler can be asked for.
    fn claim<'j>(&self, job: &'j SimJob) -> Claim<'j> {
        Claim::from(job)
    }

    /// What an independent proof of its own found since it was asked last.
    fn breaches(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// When time alone may change a decision.
    fn next_check(&self) -> Option<Timestamp> {
        None
    }

    /// Called once all jobs have ended.
    fn over(&mut self, _now: Timestamp) {}

    /// After events: who starts where, in this order. The snapshot is as it was found when this returns.
    fn pass(&mut self, snapshot: &mut Snapshot, jobs: &[SimJob], now: Timestamp) -> Vec<Act>;
}

/// What an administrator may set. By default all is as the controller does it by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Waiting jobs that one look of the controller's queue takes in, in their order.
    pub depth: usize,
    /// Tenants that used less of late go first.
    pub fair_share: bool,
    /// Jobs may be stopped for those of higher priority.
    pub preemption: bool,
    /// Guarantees are kept by stopping who borrows.
    pub reclaim: bool,
    /// Running elastic jobs get more servers when nobody waits, and fewer when others do.
    pub growth: bool,
    /// The head start of large jobs in the controller's queue: [`controller_queue::Policy::head_start`].
    pub head_start: Duration,
    /// The same for EASY, whose queue is in the order of submits without it; Slurm has it as the weight of the job's
    /// size in its priority.
    pub easy_head_start: Duration,
    /// What the order of the controller's queue is for, where no queue says it.
    pub objective: Option<Objective>,
    /// What small jobs that may run for long hold together at most, in the controller's queue.
    pub long_jobs: Option<LongJobLimit>,
    /// Who may start before jobs that wait ahead, in the controller's queue.
    pub backfill: Backfill,
}

impl Default for Rules {
    fn default() -> Self {
        let Queueing {
            fair_share,
            preemption,
            reclaim,
            grow_after,
            head_start,
            objective,
            long_jobs,
            backfill,
            ..
        } = Queueing::default();
        Self {
            depth: Budget::STEP.jobs,
            fair_share,
            preemption,
            reclaim,
            growth: grow_after.is_some(),
            head_start,
            easy_head_start: Duration::ZERO,
            objective,
            long_jobs,
            backfill,
        }
    }
}

impl Rules {
    /// The numbers of the controller's policy that they come to.
    #[must_use]
    pub fn queueing(&self) -> Queueing {
        let grow_after = Queueing::default().grow_after.filter(|_| self.growth);
        let Self { fair_share, preemption, reclaim, head_start, objective, long_jobs, backfill, .. } = *self;
        Queueing {
            fair_share,
            preemption,
            reclaim,
            grow_after,
            head_start,
            objective,
            long_jobs,
            backfill,
            ..Queueing::default()
        }
    }

    /// What the controller does by default and these leave out, in the words of the command line.
    #[must_use]
    pub fn left_out(&self) -> Vec<&'static str> {
        let usual = Self::default();
        let parts = [
            (usual.fair_share && !self.fair_share, "fair-share"),
            (usual.preemption && !self.preemption, "preemption"),
            (usual.reclaim && !self.reclaim, "reclaim"),
            (usual.growth && !self.growth, "growth"),
        ];
        parts.into_iter().filter(|(is_out, _)| *is_out).map(|(_, name)| name).collect()
    }
}
