//! What a drill has found, for people and as JSON.

use std::{collections::BTreeMap, fmt, time::Duration};

use proto_model::human;
use serde::Serialize;

/// Keys that are named one by one.
const NAMED: usize = 20;

/// What a drill has found. Fields of what it did not come to are empty.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// A controller starts from the backup.
    pub starts: bool,
    /// Why none does.
    pub faults: Vec<String>,
    /// The file.
    pub backup: Backup,
    /// Of which version its rows are; 0 where that cannot be read.
    pub rows_version: u32,
    /// How many keys there are of each kind.
    pub holds: BTreeMap<&'static str, u64>,
    /// What is wrong with the audit log. A controller starts all the same.
    pub audit: Option<String>,
    /// The id of the key that its secret values are sealed with.
    pub sealed_with: Option<String>,
    /// The pin of the authority in the data folder.
    pub authority: Option<String>,
    /// What the controller of the drill answered when it led.
    pub led: Option<Led>,
    /// What a restore would do to the store that is there now.
    pub restore: Option<Change>,
    /// What was not looked at, and why.
    pub notes: Vec<String>,
}

/// The file.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// Its path.
    pub file: String,
    /// The SHA-256 of all before its last 32 bytes, in hex.
    pub sha256: String,
    /// How many keys it has.
    pub keys: u64,
    /// The store's revision that it shows.
    pub revision: u64,
    /// When it was begun.
    pub made: String,
    /// How long ago that is.
    pub age_seconds: u64,
}

/// A leader's state.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Led {
    /// Its epoch.
    pub epoch: u64,
    /// Jobs that it knows.
    pub jobs: usize,
    /// Nodes that it knows.
    pub nodes: usize,
    /// Tenants that it knows.
    pub tenants: usize,
}

/// What a restore would do to another store.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Which store.
    pub store: String,
    /// Its revision.
    pub revision: u64,
    /// Of each kind, where something changes.
    pub kinds: BTreeMap<&'static str, Counts>,
    /// Jobs, nodes, tenants and queues that would be lost: the first of them, by their keys.
    pub lost: Vec<String>,
}

/// What becomes of keys of one kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// The backup does not have them.
    pub lost: u64,
    /// The backup has another value.
    pub set_back: u64,
    /// Only the backup has them: they were deleted since.
    pub brought_back: u64,
}

impl Change {
    /// Notes a key that the backup does not have. `named`: it is one that people know by its name.
    pub fn note_lost(&mut self, kind: &'static str, key: &[u8], named: bool) {
        self.kinds.entry(kind).or_default().lost += 1;
        if named && self.lost.len() < NAMED {
            self.lost.push(key.escape_ascii().to_string());
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Backup { file, sha256, keys, revision, made, age_seconds } = &self.backup;
        if sha256.is_empty() {
            return Ok(());
        }
        let age = human(Duration::from_secs(*age_seconds));
        writeln!(f, "{file}: {keys} keys at revision {revision}, made {made}, {age} ago, SHA-256 {sha256}")?;
        for (kind, count) in &self.holds {
            writeln!(f, "{count:>10} {kind}")?;
        }
        if let Some(id) = &self.sealed_with {
            writeln!(f, "secret values are sealed with key {id}, which is here")?;
        }
        if let Some(pin) = &self.authority {
            writeln!(f, "the authority in the data folder is {pin}, and its key opens")?;
        }
        if let Some(cause) = &self.audit {
            writeln!(f, "the audit log is broken, and a controller goes on with a new segment: {cause}")?;
        }
        if let Some(change) = &self.restore {
            write!(f, "{change}")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        if let Some(Led { epoch, jobs, nodes, tenants }) = &self.led {
            let rows = self.rows_version;
            writeln!(
                f,
                "a controller starts from it (rows of version {rows}): it led with epoch {epoch} and knew {jobs} jobs, {nodes} nodes, {tenants} tenants"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, revision, kinds, lost } = self;
        if kinds.is_empty() {
            return writeln!(
                f,
                "{store}, at revision {revision}, holds the same: a restore would lose nothing"
            );
        }
        writeln!(f, "a restore in place of {store}, at revision {revision}:")?;
        for (kind, Counts { lost, set_back, brought_back }) in kinds {
            writeln!(f, "{lost:>10} lost, {set_back} set back, {brought_back} brought back: {kind}")?;
        }
        lost.iter().try_for_each(|key| writeln!(f, "           lost: {key}"))
    }
}
