//! What all transitions work with: the state, the time, randomness, and what the step has brought about so far.

use std::{collections::BTreeSet, sync::Arc};

use controller_state::{JobEntry, State, Transition, rows::job::Schedule};
use proto_model::{Job, JobStatus, JobUid, Phase, Timestamp};

use crate::event::{Output, Push, ToNode};

/// Fills a buffer with randomness that nobody can guess; in tests with a seeded stream.
pub type Rng<'a> = dyn FnMut(&mut [u8]) + 'a;

/// One step at work.
pub(crate) struct Step<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) now: Timestamp,
    pub(crate) rng: &'a mut Rng<'a>,
    pub(crate) out: Output,
    /// A node whose Welcome is being made: it gets no desired state before that.
    pub(crate) hold_back: Option<proto_model::NodeName>,
    /// Jobs that moved on: others may wait for that.
    pub(crate) moved: BTreeSet<JobUid>,
    /// The queue is looked at in the next tick, together with what else comes until then.
    pub(crate) later: bool,
    /// Nodes that are quarantined now, with the evidence.
    pub(crate) quarantined: Vec<(proto_model::NodeName, proto_model::Reason)>,
    /// Who asks; empty where nobody does.
    pub(crate) who: String,
}

impl Step<'_> {
    /// Random bytes.
    pub(crate) fn random<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.rng)(&mut bytes);
        bytes
    }

    /// A random identity as text.
    pub(crate) fn random_uid(&mut self) -> String {
        JobUid::from_random(self.random()).to_string()
    }

    pub(crate) fn entry(&self, uid: JobUid) -> Option<JobEntry> {
        self.state.base.jobs.get(&uid).cloned()
    }

    /// Changes a job's status within its phase.
    pub(crate) fn change(&mut self, entry: &mut JobEntry, change: impl FnOnce(&mut JobStatus)) {
        let job: &mut Job = Arc::make_mut(&mut entry.job);
        change(&mut job.status);
    }

    /// Moves a job to another phase. A move that the graph does not have is not made.
    pub(crate) fn enter(&mut self, entry: &mut JobEntry, to: Phase) -> bool {
        let from = entry.job.status.phase;
        if !from.may_become(to) {
            debug_assert!(false, "{from} may not become {to}");
            return false;
        }
        let job = Arc::make_mut(&mut entry.job);
        job.status.phase = to;
        let held = from == Phase::Pending && !job.status.holds.is_empty();
        debug_assert!(!held || to.is_terminal(), "{} is held, and becomes {to}", job.id);
        if to == Phase::Pending {
            job.status.attempt += 1;
        }
        if to.is_terminal() {
            job.status.holds.clear();
            job.status.ended = Some(self.now);
        }
        let attempt = job.status.attempt;
        self.moved.insert(entry.job.uid);
        self.out.transitions.push(Transition { uid: entry.job.uid, attempt, from, to });
        true
    }

    pub(crate) fn push(&mut self, node: &proto_model::NodeName, message: ToNode) {
        let session = self.state.base.links.get(node).and_then(|link| link.session);
        let Some(session) = session else { return };
        if self.hold_back.as_ref() == Some(node) && matches!(message, ToNode::Assignment(_)) {
            return;
        }
        self.out.pushes.push(Push { node: node.clone(), session, epoch: self.state.epoch, message });
    }

    /// Something was freed or added: a pass over the queue follows.
    pub(crate) fn request_scheduling_pass(&mut self) {
        if !self.state.base.schedule.wanted {
            let schedule = Schedule { wanted: true, ..self.state.base.schedule.clone() };
            self.state.set_schedule(schedule);
        }
    }
}
