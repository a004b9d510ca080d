//! Looking at the leader key beside the loop's work, so that nothing waits for it but the answers that hang on it.

use std::{ops::ControlFlow, sync::Arc};

use controller_store::{KeyValue, Store, StoreError};
use tokio::task::JoinHandle;

use crate::{
    drive::{Loop, answer_with},
    error::Refusal,
    handle::{Answer, Applied},
    keys,
};

/// Answers that may wait until it is sure that this controller leads.
const HELD: usize = 4096;
/// A client's answer that was decided without a write.
pub(crate) type Held = (Answer, Result<Applied, Refusal>);

/// The leader key, or why it cannot be read.
pub(crate) type Found = Result<Option<KeyValue>, StoreError>;

/// At most one look at a time.
#[derive(Default)]
pub(crate) struct LeaderCheck {
    asked: Option<JoinHandle<Found>>,
}

impl LeaderCheck {
    /// Asks the store; a former question is forgotten.
    pub fn begin(&mut self, store: &Arc<dyn Store>) {
        let store = Arc::clone(store);
        self.asked = Some(tokio::spawn(async move { store.get(keys::LEADER.into()).await }));
    }

    /// The answer; never comes where nothing was asked. Nothing is lost if nobody waits for it to the end.
    pub async fn answer(&mut self) -> Found {
        let Some(asked) = self.asked.as_mut() else { return std::future::pending().await };
        let found = asked.await.unwrap_or(Err(StoreError::Closed));
        self.asked = None;
        found
    }

    /// Nobody wants to know any more.
    pub fn forget(&mut self) {
        self.asked = None;
    }
}

impl Loop {
    /// Hears what a look at the leader key has brought.
    pub(crate) async fn apply_leader_check(&mut self) -> ControlFlow<()> {
        match self.found.take() {
            Some(Ok(found)) => {
                self.lead.found(found.as_ref());
                if self.lead.leads() != Some(self.epoch) {
                    return self.lost_the_key().await;
                }
                send_held(self.assurance.confirmed());
            }
            Some(Err(error)) => self.leader_check_failed(&error),
            None => {}
        }
        ControlFlow::Continue(())
    }

    /// Begins a look at the leader key where it is due. While the store takes no writes, probes do that.
    pub(crate) fn check_leader_if_due(&mut self) {
        let now = self.clock.now();
        if self.outage.is_none() && self.assurance.due().is_some_and(|at| at <= now) {
            self.assurance.begin_check(now);
            self.leader_check.begin(&self.store);
        }
    }

    /// Keeps an answer that was decided without a write until it is sure that this controller still leads.
    pub(crate) fn hold(&mut self, held: Held) {
        if self.assurance.held() < HELD {
            return self.assurance.hold(held);
        }
        let cause = format!("{HELD} others wait to hear it");
        answer_with(Some(held.0), &Refusal::Unconfirmed { cause });
    }

    /// What was decided without a write is not told.
    pub(crate) fn refuse_held(&mut self, refused: &Refusal) {
        for (answer, _) in self.assurance.give_up() {
            answer_with(Some(answer), refused);
        }
    }
}

pub(crate) fn send_held(held: Vec<Held>) {
    for (answer, result) in held {
        answer.send(&result);
    }
}
