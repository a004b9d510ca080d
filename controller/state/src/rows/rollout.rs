//! A rollout that somebody asks for, and what of it is under way. Not stored: agents tell it again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proto_model::{NodeName, Timestamp};

/// What a NIC waits for that its agent may touch.
pub const CHANGES: &str = "its agent is to change it";

/// A rollout that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosOrder {
    /// The profile, as JSON.
    pub document: Arc<str>,
    /// Why, in the words of who asks; may be empty.
    pub reason: String,
    /// Who asks, as the audit log names them.
    pub by: String,
    /// The server that is to be first; else one that holds few jobs.
    pub canary: Option<NodeName>,
    /// How long a trial waits for its confirmation.
    pub confirm_within: Duration,
    /// How long it has to be well before.
    pub soak: Duration,
    /// NICs out of use at a time, at most.
    pub at_once: u32,
    /// Also where a job loses its last rail.
    pub force: bool,
}

/// What is out of use for a rollout: a NIC, or a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    /// Since when nobody uses it: from then on its agent may touch it.
    pub opened: Option<Timestamp>,
    /// Since when its agent says that it is on trial.
    pub trial: Option<Timestamp>,
    /// The trial went well: it is to be kept.
    pub kept: bool,
    /// Since when it is to be taken back.
    pub leaving: Option<Timestamp>,
    /// Since when its agent is not heard.
    pub away: Option<Timestamp>,
    /// What it waits for.
    pub note: String,
}

impl Active {
    /// One that jobs are to leave.
    pub fn begun() -> Self {
        let note = "jobs move off it".to_owned();
        Self { opened: None, trial: None, kept: false, leaving: None, away: None, note }
    }

    /// One that is on trial already, so it is out of use already.
    pub fn on_trial(now: Timestamp) -> Self {
        Self { opened: Some(now), trial: Some(now), note: "it is on trial".to_owned(), ..Self::begun() }
    }

    /// Its agent is heard again: what it has time for begins anew.
    pub fn is_back(&mut self, now: Timestamp) {
        if self.away.take().is_some() {
            (self.opened, self.leaving) = (self.opened.map(|_| now), self.leaving.map(|_| now));
            self.trial = None;
            self.note = CHANGES.to_owned();
        }
    }
}

/// A server's NIC, by its rail.
pub type NicKey = (NodeName, u32);

/// What is under way. Not stored: agents report it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run<K> {
    /// What is out of use.
    pub units: BTreeMap<K, Active>,
    /// Those whose turn it is, and why it is not yet.
    pub waits: BTreeMap<K, String>,
}

impl<K> Default for Run<K> {
    fn default() -> Self {
        Self { units: BTreeMap::new(), waits: BTreeMap::new() }
    }
}

impl<K> Run<K> {
    /// Another rollout: what one before it has found good is tried again.
    pub fn begins_anew(&mut self) {
        for active in self.units.values_mut() {
            (active.trial, active.kept) = (None, false);
        }
    }
}
