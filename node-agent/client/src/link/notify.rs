//! Notifications on the link: out without an answer, in until somebody takes them.

use node_agent_collective::units::MAX_NOTIFICATIONS;
use node_agent_ipc::{Request, SocketError};

use super::{Link, State};
use crate::Error;
use crate::notification::Notification;

impl Link {
    /// Notifies a rank; `false` where the engine takes nothing at the moment.
    pub(crate) fn notify(&self, to: u32, words: [u64; 3]) -> Result<bool, Error> {
        let mut state = self.lock();
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        match self.channel.send(&Request::Notify { to, words }.encode(0), None) {
            Ok(()) => Ok(true),
            Err(SocketError::Full) => Ok(false),
            Err(error) => {
                // The engine may have said why before it closed.
                self.take_waiting(&mut state);
                let error = Error::from_socket(&error, std::time::Duration::ZERO);
                Err(state.broken.get_or_insert(error).clone())
            }
        }
    }

    /// The oldest notification that nobody has taken, without waiting.
    pub(crate) fn poll_notification(&self) -> Result<Option<Notification>, Error> {
        let mut state = self.lock();
        if state.notifications.is_empty() && !state.reading {
            self.take_waiting(&mut state);
            self.changed.notify_all();
        }
        match (state.notifications.pop_front(), &state.broken) {
            (None, Some(error)) => Err(error.clone()),
            (found, _) => Ok(found),
        }
    }
}

impl State {
    /// Another rank has notified this one.
    pub(super) fn notified(&mut self, notification: Notification) {
        if self.notifications.len() >= MAX_NOTIFICATIONS {
            let cause = format!("more than {MAX_NOTIFICATIONS} notifications, which nobody took");
            self.broken = Some(Error::Engine { cause });
            return;
        }
        self.notifications.push_back(notification);
    }
}
