//! How this controller stands to its calls: it answers them, hands them on, or lets them wait for a leader.

use std::time::Duration;

use axum::Router;
use proto_rpc::Client;
use tokio::sync::watch;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// Who answers calls.
#[derive(Clone, Default)]
pub enum Leadership {
    /// It is not known: calls wait.
    #[default]
    Unknown,
    /// This controller, by its router. Calls that are at work are counted.
    Local(Router, TaskTracker),
    /// The leader of this epoch.
    Remote(u64, Client),
}

impl Leadership {
    /// This controller leads.
    #[must_use]
    pub fn local(router: Router) -> Self {
        Self::Local(router, TaskTracker::new())
    }
}

/// Where a call goes.
pub(crate) enum Target {
    Local(Router, TaskTrackerToken),
    Remote(u64, Client),
}

/// Tells the stand to all calls; clones share it.
#[derive(Clone, Default)]
pub struct LeadershipWatch(watch::Sender<Leadership>);

impl LeadershipWatch {
    /// No leader is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self(watch::Sender::new(Leadership::Unknown))
    }

    /// From now on.
    pub fn set(&self, leadership: Leadership) {
        self.0.send_replace(leadership);
    }

    /// The leader of this epoch is not there any more: calls wait for the next.
    pub fn lost(&self, epoch: u64) {
        self.0.send_if_modified(|leadership| {
            let is = matches!(leadership, Leadership::Remote(leads, _) if *leads == epoch);
            if is {
                *leadership = Leadership::Unknown;
            }
            is
        });
    }

    /// New calls wait; those that this controller works at have this time to end. Streams are not waited for.
    pub async fn drain(&self, longest: Duration) {
        let Leadership::Local(_, calls) = self.0.send_replace(Leadership::Unknown) else { return };
        calls.close();
        if tokio::time::timeout(longest, calls.wait()).await.is_err() {
            tracing::warn!(calls = calls.len(), "calls are cut off by the end of the lead");
        }
    }

    /// The epoch of the leader to which calls are handed on; none while this controller leads, or nobody is known to.
    #[must_use]
    pub fn remote_epoch(&self) -> Option<u64> {
        match &*self.0.borrow() {
            Leadership::Remote(epoch, _) => Some(*epoch),
            Leadership::Unknown | Leadership::Local(..) => None,
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(*self.0.borrow(), Leadership::Local(..))
    }

    pub(crate) fn route(&self) -> Route {
        Route(self.0.subscribe())
    }
}

/// The way of one call, which may change while it is at work.
pub(crate) struct Route(watch::Receiver<Leadership>);

impl Route {
    /// Where to go now, once that is known.
    pub async fn target(&mut self) -> Option<Target> {
        loop {
            {
                // Counted while nobody can change the stand: who rests hears of every call.
                let leadership = self.0.borrow_and_update();
                match &*leadership {
                    Leadership::Unknown => {}
                    Leadership::Local(router, calls) => {
                        return Some(Target::Local(router.clone(), calls.token()));
                    }
                    Leadership::Remote(epoch, client) => return Some(Target::Remote(*epoch, client.clone())),
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
