//! Looking at the leader key beside the loop's work, so that nothing waits for it.

use std::{ops::ControlFlow, sync::Arc};

use controller_store::{KeyValue, Store, StoreError};
use tokio::task::JoinHandle;

use crate::{drive::Loop, keys};

/// The leader key, or why it cannot be read.
pub(crate) type Found = Result<Option<KeyValue>, StoreError>;

/// At most one look at a time.
#[derive(Default)]
pub(crate) struct Look {
    asked: Option<JoinHandle<Found>>,
}

impl Look {
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
    pub(crate) async fn hear_of_the_lead(&mut self) -> ControlFlow<()> {
        match self.found.take() {
            Some(Ok(found)) => {
                self.lead.found(found.as_ref());
                if self.lead.leads() != Some(self.epoch) {
                    return self.lost_the_key().await;
                }
                self.assurance.confirmed();
            }
            Some(Err(error)) => self.look_failed(&error),
            None => {}
        }
        ControlFlow::Continue(())
    }

    /// Begins a look at the leader key where it is due. While the store takes no writes, probes do that.
    pub(crate) fn look_if_due(&mut self) {
        let now = self.clock.now();
        if self.outage.is_none() && self.assurance.due().is_some_and(|at| at <= now) {
            self.assurance.ask(now);
            self.look.begin(&self.store);
        }
    }
}
