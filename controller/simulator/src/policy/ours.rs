//! The production scheduler in virtual time.

use controller_scheduler::{Choice, Need, Placer, Snapshot, rankmap};
use controller_topology::NodeIx;
use proto_model::Timestamp;

use super::{
    Act, Scheduler,
    queue::{Look, Queue},
};
use crate::{site::Site, workload::SimJob};

/// `controller-scheduler`'s placement, in order, passing over those that do not fit.
#[derive(Default)]
pub struct Ours {
    placer: Placer,
    queue: Queue<Need>,
    choice: Choice,
}

impl Ours {
    /// With nothing seen yet.
    #[must_use]
    pub fn new(_: &Site, _: &[SimJob]) -> Self {
        Self::default()
    }
}

impl Scheduler for Ours {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn submit(&mut self, job: usize, jobs: &[SimJob], _: Timestamp) {
        self.queue.push(jobs[job].need.clone(), job);
    }

    fn end(&mut self, _: usize, _: &[SimJob], _: Timestamp) {}

    fn node(&mut self, _: NodeIx, _: bool, _: Timestamp) {}

    fn pass(&mut self, snapshot: &mut Snapshot, jobs: &[SimJob], _: Timestamp) -> Vec<Act> {
        let mut acts: Vec<Act> = Vec::new();
        let Self { placer, queue, choice } = self;
        queue.look(|need, job| {
            if !placer.choose(snapshot.yard(), need, None, choice) {
                return Look::ClassStays;
            }
            let of = &jobs[job];
            let placement = Box::new(rankmap::placement(snapshot, &of.spec, choice));
            snapshot.hold(&of.id.tenant, &placement);
            acts.push(Act::Start { job, placement });
            Look::Taken
        });
        for act in acts.iter().rev() {
            if let Act::Start { job, placement } = act {
                snapshot.release(&jobs[*job].id.tenant, placement);
            }
        }
        acts
    }
}
