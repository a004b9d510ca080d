//! Notifications: a few words from one rank to another, which need no call of the other rank. Each arrives once, and those from one node
//! to another in the order in which they were made, whatever rails die meanwhile. They have no deadline: nobody waits for one.

use crate::error::{CallError, FrameError};
use crate::header::{Key, Kind};
use crate::machine::Machine;
use crate::machine::notification::Notification;
use crate::units::{MAX_NOTIFICATIONS, Node, Rank};

impl Machine {
    /// A local rank notifies another one, here or on a peer. A peer that has left gets nothing, and that is no error.
    ///
    /// # Errors
    /// A [`CallError`]: the ranks cannot be, the communicator has failed, or the first notification that the peer may not have is
    /// [`MAX_NOTIFICATIONS`] back: then there is room later.
    pub fn notify(&mut self, notification: Notification) -> Result<(), CallError> {
        let Notification { from, to: named, words } = notification;
        let to = notification.recipient();
        if self.job.layout.local_index(from).is_none() {
            return Err(CallError::NotLocal(from));
        }
        if from == to {
            return Err(CallError::ToItself(from));
        }
        let world = self.job.layout.world();
        let node = usize::try_from(to).ok().and_then(|to| self.job.layout.node_of.get(to)).copied();
        let node = node.ok_or(CallError::NobodyThere { rank: to, world })?;
        if let Some(failure) = &self.failure {
            return Err(CallError::Failed(failure.clone()));
        }
        let full = CallError::TooManyNotifications { rank: to, max: MAX_NOTIFICATIONS };
        if node == self.job.layout.node {
            if self.notifications.len() >= MAX_NOTIFICATIONS {
                return Err(full);
            }
            self.notifications.push_back(notification);
            return Ok(());
        }
        let peer = &mut self.peers[usize::from(node)];
        if peer.left {
            return Ok(());
        }
        if !peer.notifications.has_room() {
            return Err(full);
        }
        let value = peer.notifications.made;
        peer.notifications.made += 1;
        let header = self.control(Kind::Notify { from, to: named, words }, Key::Link, None);
        self.peers[usize::from(node)].control.push_back(crate::Header { value, ..header });
        Ok(())
    }

    /// Whether a peer has said that it goes: it gets nothing any more.
    #[must_use]
    pub fn has_left(&self, node: usize) -> bool {
        self.peers.get(node).is_some_and(|peer| peer.left)
    }

    /// The next notification of a local rank.
    pub fn poll_notification(&mut self) -> Option<Notification> {
        self.notifications.pop_front()
    }

    /// A peer's notification has come, over whichever rail.
    pub(super) fn notified(
        &mut self,
        peer: Node,
        notification: Notification,
        number: u64,
    ) -> Result<(), FrameError> {
        let sits = |rank: Rank, node: Node| self.job.layout.node_of.get(rank as usize) == Some(&node);
        if !sits(notification.from, peer) {
            return Err(FrameError::Rank(notification.from));
        }
        let to = notification.recipient();
        if !sits(to, self.job.layout.node) {
            return Err(FrameError::Rank(to));
        }
        // Those that wait to be handed out were acknowledged, so their makers do not count them: as many again may come.
        let most = MAX_NOTIFICATIONS * self.peers.len();
        let state = &mut self.peers[usize::from(peer)].notifications;
        let ahead = number.checked_sub(state.taken).filter(|ahead| *ahead < MAX_NOTIFICATIONS as u64);
        if ahead.is_none() || self.notifications.len() >= most {
            return Err(FrameError::Overrun);
        }
        if state.held.insert(number, notification).is_some() {
            return Err(FrameError::Field { field: "notification", value: number });
        }
        while let Some(next) = state.held.remove(&state.taken) {
            state.taken += 1;
            self.notifications.push_back(next);
        }
        Ok(())
    }
}
