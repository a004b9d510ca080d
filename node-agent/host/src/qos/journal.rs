//! What is kept of applies: for each NIC the last one, so that a half-made one is known as such after a crash and the last one can be taken
//! back; and a line for each on who asked for what, and what became of it.

use std::{collections::BTreeMap, io};

use node_agent_qos::{Device, Edit};
use serde::{Deserialize, Serialize};

/// How far an apply has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Some of its edits may have been made, not known which: the NIC is not in service.
    Applying,
    /// It is being taken back; the NIC is not in service.
    Undoing,
    /// All edits were made and read back.
    Applied,
    /// All edits were taken back and read back.
    Undone,
    /// Neither could be completed, for this reason; the NIC is not in service.
    Stuck(String),
}

impl State {
    /// Whether the NIC may serve jobs: it is wholly in one state.
    #[must_use]
    pub fn in_service(&self) -> bool {
        matches!(self, Self::Applied | Self::Undone)
    }
}

/// The last apply of a NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// What does not change with the device's name: its bus address, or its name where it has none.
    pub key: String,
    /// The name that it had.
    pub netdev: String,
    /// Name of the profile.
    pub profile: String,
    /// Who asked.
    pub who: String,
    /// Milliseconds since 1970, when it began.
    pub begun_ms: u64,
    /// In their order.
    pub edits: Vec<Edit>,
    /// How far it has come.
    pub state: State,
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
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Who asked: a person of the controller, a local user, or the agent itself for drift.
    pub who: String,
    /// Which NIC.
    pub netdev: String,
    /// Name of the profile.
    pub profile: String,
    /// `apply` or `rollback`.
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
    /// By key.
    pub records: BTreeMap<String, Record>,
    /// In their order.
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
