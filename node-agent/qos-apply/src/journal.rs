//! What is kept of applies: for each NIC the last one, so that a half-made one is known as such after a crash and the last one can be taken
//! back; and a line for each on who asked for what, and what became of it.

use std::{collections::BTreeMap, io};

use node_agent_qos::{
    Device,
    journal::{Journal as Apply, Service, Stage},
};
use proto_model::Timestamp;
use serde::{Deserialize, Serialize};

/// The last apply of a NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// What does not change with the device's name: its bus address, or its name where it has none.
    pub key: String,
    /// Name of the profile.
    pub profile: String,
    /// Milliseconds since 1970, when it began.
    pub begun_ms: u64,
    /// Edits, what was before, who asked, and how far it has come.
    pub apply: Apply,
}

impl Record {
    /// The name that the NIC had.
    #[must_use]
    pub fn netdev(&self) -> &str {
        &self.apply.before.device.netdev
    }

    /// Whether the NIC is wholly in one state, and so may serve jobs.
    #[must_use]
    pub fn in_service(&self) -> bool {
        self.apply.service() != Service::No
    }

    /// Until when it waits to be confirmed, if it does.
    #[must_use]
    pub fn waits_until(&self) -> Option<Timestamp> {
        match self.apply.stage {
            Stage::AwaitConfirm { deadline } => Some(Timestamp(deadline)),
            _ => None,
        }
    }

    /// How far it has come, in words.
    #[must_use]
    pub fn state(&self) -> String {
        let edits = self.apply.edits.len();
        match &self.apply.stage {
            Stage::Planned => "planned".to_owned(),
            Stage::Applying { edit } => format!("edit {} of {edits} was begun and not completed", edit + 1),
            Stage::ReadBack => "made, and not yet read back".to_owned(),
            Stage::AwaitConfirm { .. } => "made; nobody has confirmed it yet".to_owned(),
            Stage::Confirmed => "applied".to_owned(),
            Stage::RollingBack { edit, why } => {
                format!("edit {} of {edits} is being taken back: {why}", edit + 1)
            }
            Stage::ReadBackUndone { why } => format!("taken back, and not yet read back: {why}"),
            Stage::RolledBack { why } => format!("taken back: {why}"),
            Stage::Stuck { reason } => reason.clone(),
        }
    }
}

/// The key of a NIC's record.
#[must_use]
pub fn key(device: &Device) -> String {
    device.pci.clone().unwrap_or_else(|| device.netdev.clone())
}

/// A line on what was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    /// Time of the entry, in milliseconds since 1970.
    pub time_ms: u64,
    /// Who asked: a person of the controller, a local user, or the agent itself for drift.
    pub who: String,
    /// Name of the NIC's network device.
    pub netdev: String,
    /// Name of the profile.
    pub profile: String,
    /// `apply`, `confirm`, `resume` (an apply that an agent had left) or `rollback`.
    pub action: String,
    /// What was changed, in commands that a network engineer knows.
    pub changes: Vec<String>,
    /// `done`, or why not.
    pub result: String,
}

/// Where records and lines are kept.
pub trait Journal: Send {
    /// All records.
    ///
    /// # Errors
    /// They cannot be read.
    fn load(&mut self) -> io::Result<Vec<Record>>;

    /// Records that are there and cannot be read, by the NIC's key, with what is wrong: of these NICs nobody knows what was under way.
    fn unreadable(&mut self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Keeps a record in place of the NIC's last one. When it returns, the record survives a power cut.
    ///
    /// # Errors
    /// It cannot be kept.
    fn save(&mut self, record: &Record) -> io::Result<()>;

    /// Adds a line.
    ///
    /// # Errors
    /// It cannot be kept.
    fn audit(&mut self, line: &AuditLine) -> io::Result<()>;
}

/// A journal in memory, for tests and for a plan that is only shown.
#[derive(Debug, Clone, Default)]
pub struct MemoryJournal {
    /// The records, each under its key.
    pub records: BTreeMap<String, Record>,
    /// The audit lines, the oldest first.
    pub lines: Vec<AuditLine>,
}

impl Journal for MemoryJournal {
    fn load(&mut self) -> io::Result<Vec<Record>> {
        Ok(self.records.values().cloned().collect())
    }

    fn save(&mut self, record: &Record) -> io::Result<()> {
        self.records.insert(record.key.clone(), record.clone());
        Ok(())
    }

    fn audit(&mut self, line: &AuditLine) -> io::Result<()> {
        self.lines.push(line.clone());
        Ok(())
    }
}
