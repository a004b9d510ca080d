//! The controller's shell: an inbox, batches, transactions, and only then replies and pushes. It can crash anywhere.

mod events;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use controller_core::{Certification, Config as CoreConfig, Event as Core, Key, Output, State, Write};
use controller_election::{lead::Candidate, mirror::Mirror};

use crate::{audit::Kind, calls::Cut, config::Config, etcd::Body};

/// Who waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// A client's request: the client, and the number of the request.
    Client(usize, u64),
    /// An agent's stream, by number.
    Agent(u64),
    /// A timer: nobody waits for an answer.
    Timer,
}

/// An event on its way into the core.
#[derive(Debug, Clone)]
pub struct Inbound {
    /// The event for the core.
    pub event: Core,
    /// Who waits for the answer to it.
    pub from: From,
}

/// A step that waits for its transaction.
pub(crate) struct Stepped {
    /// What agents said is said again if it cannot be stored.
    again: Option<Core>,
    pub(crate) from: From,
    pub(crate) out: Output,
    /// The number of the call in the audit log, and what it asks for.
    pub(crate) call: u64,
    pub(crate) kind: Kind,
}

struct Batch {
    number: u64,
    steps: Vec<Stepped>,
    body: Arc<Body>,
}

/// One life of a controller's process.
pub struct Controller {
    /// Its place among the processes.
    pub slot: usize,
    /// Whether this life of the process goes on.
    pub alive: bool,
    /// Its epoch, once it has led.
    pub epoch: u64,
    /// Its memory while it leads.
    pub state: Option<Box<State>>,
    /// Whom it believes to lead.
    pub candidate: Candidate,
    /// The leader that it follows.
    pub follows: u64,
    /// The candidate's question under way.
    pub asked: Option<u64>,
    /// It has the leader key, and waits until its copy is complete.
    pub won: Option<u64>,
    /// What it knows of the store while it does not lead.
    pub mirror: Mirror<Key, Write>,
    /// Its watch, and what that has delivered.
    pub watch: Option<u64>,
    /// The watch has something to deliver.
    pub watch_due: bool,
    /// The list under way.
    pub listing: Option<u64>,
    /// Its watch lags until this time.
    pub lag_until: u64,
    /// It does not reach etcd until this time.
    pub cut_until: u64,
    /// The direction in which it is cut off from etcd until then.
    pub cut: Cut,
    /// Its clock: what it shows beyond the world's, less an hour; its pace in a thousandth; since when.
    pub clock: (u64, u64, u64),
    inbox: VecDeque<Inbound>,
    scheduled: bool,
    busy: Option<Batch>,
    tick_at: Option<u64>,
    ticking: bool,
    /// Its process is stopped until this time.
    pub frozen_until: u64,
    /// It could not write; it tries again then.
    pause_until: u64,
    /// It crashes at its next transaction: before it is sent, or after it was done and before anybody has an answer.
    pub crash_at_commit: Option<bool>,
    /// For a planted bug: the head of the audit log that was not stored.
    pub(crate) lost_head: Option<proto_audit::Hash>,
}

impl Controller {
    /// A process that has just started.
    #[must_use]
    pub fn new(slot: usize, candidate: Candidate, clock: (u64, u64, u64)) -> Self {
        Self {
            slot,
            alive: true,
            epoch: 0,
            state: None,
            candidate,
            follows: 0,
            asked: None,
            won: None,
            mirror: Mirror::default(),
            watch: None,
            watch_due: false,
            listing: None,
            lag_until: 0,
            cut_until: 0,
            cut: Cut::default(),
            clock,
            inbox: VecDeque::new(),
            scheduled: false,
            busy: None,
            tick_at: None,
            ticking: false,
            frozen_until: 0,
            pause_until: 0,
            crash_at_commit: None,
            lost_head: None,
        }
    }

    /// Whether it has nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inbox.is_empty() && self.busy.is_none()
    }

    /// The transaction under way.
    #[must_use]
    pub fn commits(&self) -> Option<u64> {
        self.busy.as_ref().map(|batch| batch.number)
    }
}

/// How the core is configured here.
#[must_use]
pub fn core_config(config: &Config) -> CoreConfig {
    let certification = if config.certifies() { Certification::Require } else { Certification::Off };
    CoreConfig {
        heartbeat_interval: Duration::from_secs(30),
        heartbeat_limit: Duration::from_secs(75),
        prepare_timeout: Duration::from_secs(20),
        start_timeout: Duration::from_secs(20),
        certification,
        // Small, so that passes are cut and continued.
        pass_limit: 5,
        pass_places: 2,
        reason_writes: 2,
        due_limit: 3,
        resize_after: Some(Duration::from_secs(2)),
        max_audit: 40,
        max_denials: 40,
        seal_every: 15,
        ..CoreConfig::default()
    }
}
