//! Notifications of ranks: from a local rank to the collective core, and from there to the rank that each is for.

use node_agent_collective::units::MAX_NOTIFICATIONS;
use node_agent_collective::{CallError, Notification};
use node_agent_ipc::{Failure as RankFailure, RailSpeed, Reply};
use tracing::debug;

use crate::config::RailConfig;
use crate::engine::Engine;
use crate::failure::of_failure;
use crate::ranks::SPARE_REPLIES;

impl Engine {
    /// From now on a rank is handed what others notify it of.
    pub(crate) fn subscribe(&mut self, token: usize) -> Result<Reply, RankFailure> {
        if let Some(failure) = self.machine.failure() {
            return Err(of_failure(failure, &self.config));
        }
        if let Some(connection) = self.ranks.connections.get_mut(&token) {
            connection.subscribed = true;
            connection.spare = SPARE_REPLIES + 2 * MAX_NOTIFICATIONS;
        }
        let speed = |rail: RailConfig| RailSpeed { rail: rail.rail, mbit: speed_of(&rail) };
        let rails = self.config.ordered_rails().into_iter().take(node_agent_ipc::MAX_RAILS);
        Ok(Reply::Subscribed { attempt: self.config.attempt, rails: rails.map(speed).collect() })
    }

    /// A rank notifies another one. What cannot be told it is expelled for: it is no call that could fail. Where there is no room it waits, and
    /// the rank behind it.
    pub(crate) fn notify(&mut self, token: usize, to: u32, words: [u64; 3]) {
        let Some(from) = self.ranks.connections.get(&token).and_then(|connection| connection.rank) else {
            return;
        };
        // Of a communicator that has failed the rank hears, or has heard.
        if self.machine.failure().is_some() || self.ending.draining.is_some() {
            return;
        }
        let notification = Notification { from, to, words };
        if notification.is_for_engine() {
            let error = CallError::NobodyThere { rank: to, world: self.machine.layout().world() };
            return self.expel(token, &error.to_string());
        }
        if !self.takes_more(to) {
            return self.hold_up(token, notification);
        }
        match self.machine.notify(notification) {
            // Those to ranks of this server, so that what waits for each is known.
            Ok(()) => self.hand_out_notifications(),
            Err(CallError::TooManyNotifications { .. }) => self.hold_up(token, notification),
            Err(error) => self.expel(token, &error.to_string()),
        }
    }

    /// Whether a rank of this server has not too many notifications to read already; those of other servers are their engines' affair.
    fn takes_more(&self, to: u32) -> bool {
        let connection = self.ranks.attached.get(&to).and_then(|token| self.ranks.connections.get(token));
        connection.is_none_or(|connection| connection.late.len() < MAX_NOTIFICATIONS / 2)
    }

    fn hold_up(&mut self, token: usize, notification: Notification) {
        if let Some(connection) = self.ranks.connections.get_mut(&token) {
            connection.stuck = Some(notification);
        }
    }

    /// Tries again what found no room, and goes on with the ranks that made it.
    pub(crate) fn retry_notifications(&mut self) {
        let stuck = self.ranks.connections.iter().filter(|(_, connection)| connection.stuck.is_some());
        let stuck: Vec<usize> = stuck.map(|(token, _)| *token).collect();
        for token in stuck {
            let connection = self.ranks.connections.get_mut(&token);
            let Some(Notification { to, words, .. }) = connection.and_then(|c| c.stuck.take()) else {
                continue;
            };
            self.notify(token, to, words);
            // What it sent meanwhile gives no event.
            self.serve_rank(token);
        }
    }

    /// Hands out what has come for local ranks. Who has not asked for it gets nothing.
    pub(crate) fn hand_out_notifications(&mut self) {
        while let Some(notification) = self.machine.poll_notification() {
            if notification.is_for_engine() {
                self.on_saying(notification);
                continue;
            }
            let Notification { from, to, words } = notification;
            let token = self.ranks.attached.get(&to).copied();
            let subscribed = |token: &usize| self.ranks.connections.get(token).is_some_and(|c| c.subscribed);
            match token.filter(subscribed) {
                Some(token) => self.reply(token, 0, &Reply::Notification { from, words }),
                None => debug!(from, to, "a notification for a rank that does not take any"),
            }
        }
    }

    /// Says to all that wait for notifications that none will come any more.
    pub(crate) fn end_notifications(&mut self, failure: &RankFailure) {
        self.end_agreements(failure);
        let subscribed = self.ranks.connections.iter().filter(|(_, connection)| connection.subscribed);
        let subscribed: Vec<usize> = subscribed.map(|(token, _)| *token).collect();
        for token in subscribed {
            self.reply(token, 0, &Reply::Failed(failure.clone()));
            // What waits for it still may: it reads the cause behind that.
            if let Some(connection) = self.ranks.connections.get_mut(&token) {
                connection.subscribed = false;
            }
        }
    }
}

/// Speed of a rail's port in Mbit/s as the kernel says it; 0 where it does not.
pub(super) fn speed_of(rail: &RailConfig) -> u32 {
    let Some(netdev) = rail.netdev.as_ref().filter(|name| !name.contains('/')) else { return 0 };
    let text = std::fs::read_to_string(format!("/sys/class/net/{netdev}/speed")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}
