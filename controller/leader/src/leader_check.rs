//! Leader checks: the leader key is read beside the loop's work, so that only the answers that need the check wait for it.

use std::ops::ControlFlow;

use crate::{
    error::Refusal,
    loop_state::{Loop, PendingAnswer},
    request::answer_with,
};

/// Most answers that wait for a confirmation that this controller leads.
const HELD: usize = 4096;

impl Loop {
    /// Applies the result of a finished check.
    pub(crate) async fn apply_leader_check(&mut self) -> ControlFlow<()> {
        match self.leading.found.take() {
            Some(Ok(found)) => {
                self.leading.lead.found(found.as_ref());
                if self.leading.lead.leads() != Some(self.leading.epoch) {
                    return self.lost_the_key().await;
                }
                send_held(self.leading.assurance.confirmed());
            }
            Some(Err(error)) => self.leader_check_failed(&error),
            None => {}
        }
        ControlFlow::Continue(())
    }

    /// Begins a check if one is due. While the store takes no writes, write probes do its work.
    pub(crate) fn check_leader_if_due(&mut self) {
        let now = self.clock.now();
        if self.outage.is_none() && self.leading.assurance.due().is_some_and(|at| at <= now) {
            self.leading.assurance.begin_check(now);
            self.leading.leader_check.begin(&self.store);
        }
    }

    /// Holds an answer that was decided without a write until it is confirmed that this controller still leads.
    pub(crate) fn hold(&mut self, held: PendingAnswer) {
        if self.leading.assurance.held() < HELD {
            return self.leading.assurance.hold(held);
        }
        let cause = format!("{HELD} others wait to hear it");
        answer_with(Some(held.0), &Refusal::Unconfirmed { cause });
    }

    /// Sends `refused` instead of all held answers.
    pub(crate) fn refuse_held(&mut self, refused: &Refusal) {
        for (answer, _) in self.leading.assurance.give_up() {
            answer_with(Some(answer), refused);
        }
    }
}

/// Sends answers that are confirmed.
pub(crate) fn send_held(held: Vec<PendingAnswer>) {
    for (answer, result) in held {
        answer.send(&result);
    }
}
