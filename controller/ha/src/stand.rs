//! How this controller stands to its calls: it answers them, hands them on, or lets them wait for a leader.

use std::time::Duration;

use axum::Router;
use proto_rpc::Client;
use tokio::sync::watch;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// Who answers calls.
#[derive(Clone, Default)]
pub enum Stand {
    /// It is not known: calls wait.
    #[default]
    Open,
    /// This controller, by its router. Calls that are at work are counted.
    Here(Router, TaskTracker),
    /// The leader of this epoch.
    There(u64, Client),
}

impl Stand {
    /// This controller leads.
    #[must_use]
    pub fn here(router: Router) -> Self {
        Self::Here(router, TaskTracker::new())
    }
}

/// Where a call goes.
pub(crate) enum Way {
    Here(Router, TaskTrackerToken),
    There(u64, Client),
}

/// Tells the stand to all calls; clones share it.
#[derive(Clone)]
pub struct Stands(watch::Sender<Stand>);

/// A stand that is open.
#[must_use]
pub fn stands() -> Stands {
    Stands(watch::Sender::new(Stand::Open))
}

impl Stands {
    /// From now on.
    pub fn take(&self, stand: Stand) {
        self.0.send_replace(stand);
    }

    /// The leader of this epoch is not there any more: calls wait for the next.
    pub fn lost(&self, epoch: u64) {
        self.0.send_if_modified(|stand| {
            let is = matches!(stand, Stand::There(leads, _) if *leads == epoch);
            if is {
                *stand = Stand::Open;
            }
            is
        });
    }

    /// New calls wait; those that this controller works at have this time to end. Streams are not waited for.
    pub async fn rest(&self, longest: Duration) {
        let Stand::Here(_, calls) = self.0.send_replace(Stand::Open) else { return };
        calls.close();
        if tokio::time::timeout(longest, calls.wait()).await.is_err() {
            tracing::warn!(calls = calls.len(), "calls are cut off by the end of the lead");
        }
    }

    /// The epoch of the leader to which calls are handed on; none while this controller leads, or nobody is known to.
    #[must_use]
    pub fn elsewhere(&self) -> Option<u64> {
        match &*self.0.borrow() {
            Stand::There(epoch, _) => Some(*epoch),
            Stand::Open | Stand::Here(..) => None,
        }
    }

    pub(crate) fn is_here(&self) -> bool {
        matches!(*self.0.borrow(), Stand::Here(..))
    }

    pub(crate) fn route(&self) -> Route {
        Route(self.0.subscribe())
    }
}

/// The way of one call, which may change while it is at work.
pub(crate) struct Route(watch::Receiver<Stand>);

impl Route {
    /// Where to go now, once that is known.
    pub async fn now(&mut self) -> Option<Way> {
        loop {
            {
                // Counted while nobody can change the stand: who rests hears of every call.
                let stand = self.0.borrow_and_update();
                match &*stand {
                    Stand::Open => {}
                    Stand::Here(router, calls) => return Some(Way::Here(router.clone(), calls.token())),
                    Stand::There(epoch, client) => return Some(Way::There(*epoch, client.clone())),
                }
            }
            self.0.changed().await.ok()?;
        }
    }

    /// The stand is another one.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
