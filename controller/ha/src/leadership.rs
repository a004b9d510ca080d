//! Who answers the calls that this controller receives: itself, the leader elsewhere, or nobody until a leader is known.

use std::time::Duration;

use axum::Router;
use proto_rpc::Client;
use tokio::sync::watch;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// Who answers the calls that this controller receives.
#[derive(Clone, Default)]
pub enum Leadership {
    /// No leader is known: calls wait.
    #[default]
    Unknown,
    /// This controller leads: its router, and a counter of the calls in progress.
    Local(Router, TaskTracker),
    /// Another controller leads: its epoch, and a client that reaches it.
    Remote(u64, Client),
}

impl Leadership {
    /// This controller leads, with no call in progress.
    #[must_use]
    pub fn local(router: Router) -> Self {
        Self::Local(router, TaskTracker::new())
    }
}

/// Where one call goes. While the token lives the call counts as in progress.
pub(crate) enum Target {
    Local(Router, TaskTrackerToken),
    Remote(u64, Client),
}

/// The current leadership, for all calls; clones share it.
#[derive(Clone, Default)]
pub struct LeadershipWatch(watch::Sender<Leadership>);

impl LeadershipWatch {
    /// No leader is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self(watch::Sender::new(Leadership::Unknown))
    }

    /// Replaces the leadership; calls that wait are notified.
    pub fn set(&self, leadership: Leadership) {
        self.0.send_replace(leadership);
    }

    /// The leader of this epoch is gone: calls wait for the next one. No effect if another leadership was set meanwhile.
    pub fn lost(&self, epoch: u64) {
        self.0.send_if_modified(|leadership| {
            let is = matches!(leadership, Leadership::Remote(leads, _) if *leads == epoch);
            if is {
                *leadership = Leadership::Unknown;
            }
            is
        });
    }

    /// New calls wait from now on; calls in progress here have at most `longest` to end. Streams are not waited for.
    pub async fn drain(&self, longest: Duration) {
        let Leadership::Local(_, calls) = self.0.send_replace(Leadership::Unknown) else { return };
        calls.close();
        if tokio::time::timeout(longest, calls.wait()).await.is_err() {
            tracing::warn!(calls = calls.len(), "calls are cut off by the end of the lead");
        }
    }

    /// The epoch of the leader to which calls are forwarded; `None` while this controller leads or no leader is known.
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

/// The leadership as one call sees it, which may change while the call is in progress.
pub(crate) struct Route(watch::Receiver<Leadership>);

impl Route {
    /// Where the call goes; waits until a leader is known. `None`: the controller is ending.
    pub async fn target(&mut self) -> Option<Target> {
        loop {
            {
                // Counted while nobody can change the leadership: `drain` sees every call.
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

    /// Waits until the leadership has changed since [`Self::target`].
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
