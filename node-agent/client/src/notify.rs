//! Notifications: a few words from one rank to another, which need no call of the other rank.

use node_agent_ipc::{RailModel, RailSpeed, Reply, Request};

use crate::notification::Notification;
use crate::{Client, Error};

/// What the engine says to a rank that takes notifications.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Attempt of the job, from 1.
    pub attempt: u32,
    /// The rails of this server, ascending.
    pub rails: Vec<RailSpeed>,
}

impl Client {
    /// From now on the engine hands this rank what others notify it of. Where the job fails, every later call of this client fails with the
    /// cause, for who waits for a notification has no call that would.
    ///
    /// # Errors
    /// The job has failed, the engine does not know notifications, is gone or does not answer in time.
    pub fn subscribe(&self) -> Result<Subscription, Error> {
        let id = self.link.submit(&Request::Subscribe)?;
        match self.link.wait(id, "subscribe", self.link.control_timeout())?.reply {
            Reply::Subscribed { attempt, rails } => Ok(Subscription { attempt, rails }),
            _ => Err(Error::Engine { cause: "subscribed, got something else".into() }),
        }
    }

    /// Notifies rank `to`, be it subscribed or not. All notifications of this rank to another one arrive once, in order. `false` says that the
    /// engine takes nothing at the moment, because too many are under way or wait for that rank to take them: try again later.
    /// Only a rank of this server holds up who notifies it like that. One of another server that never reads is given up by its engine, and the job
    /// fails with it, when more wait for it than may: 131,072, and its calls.
    ///
    /// # Errors
    /// The job has failed, or the engine is gone.
    pub fn notify(&self, to: u32, words: [u64; 3]) -> Result<bool, Error> {
        self.link.notify(to, words)
    }

    /// What rails between servers cost. All ranks of the job that ask with the same key are told the same, whenever they do: what the engine of the
    /// first node had measured when it was asked first. It remembers some thousands of keys. Waits for engines, for no other rank.
    ///
    /// # Errors
    /// The job has failed, the engine is gone, that of the first node has left, or nobody answers in time.
    pub fn agree(&self, key: u64) -> Result<RailModel, Error> {
        let id = self.link.submit(&Request::Agree { key })?;
        match self.link.wait(id, "agree", self.link.control_timeout())?.reply {
            Reply::Agreed(model) => Ok(model),
            _ => Err(Error::Engine { cause: "asked what rails cost, got something else".into() }),
        }
    }

    /// The oldest notification that nobody has taken, without waiting.
    ///
    /// # Errors
    /// The job has failed, or the engine is gone, and nothing is left to be taken.
    pub fn poll_notification(&self) -> Result<Option<Notification>, Error> {
        self.link.poll_notification()
    }
}
