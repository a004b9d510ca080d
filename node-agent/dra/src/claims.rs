//! What becomes of claims: which are prepared, who has which device, and what has to be done on disk for a change. [pure]
//!
//! A claim is prepared once its record is on disk, with what the container gets. Records are made first and go last, so that whatever is on disk
//! after an end in the middle belongs to a record, or is removed by the next start.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{devices::RailDevice, error::ClaimError, key::ClaimKey};

/// A claim as it was prepared. It does not change until it is unprepared, whatever becomes of the server's rails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of this form: 1.
    pub version: u32,
    /// The claim.
    pub key: ClaimKey,
    /// The pool that its devices are of.
    pub pool: String,
    /// What it was given.
    pub devices: Vec<Given>,
    /// What its containers find in their environment.
    pub environment: BTreeMap<String, String>,
    /// Character devices that they open besides those of the devices.
    pub files: Vec<String>,
}

/// The version of [`Record`] that is written.
pub const VERSION: u32 = 1;

/// One device of a prepared claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// What it is.
    pub device: RailDevice,
    /// The requests of the claim that it is for.
    pub requests: Vec<String>,
    /// Whether others may have it too.
    pub shared: bool,
    /// Character devices that a container opens it by.
    pub files: Vec<String>,
}

/// One thing to be done on disk, whole or not at all. Each may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write the record of a claim.
    Save(Record),
    /// Write what the container runtime reads for a claim.
    Expose(Record),
    /// Remove what the container runtime reads for the claim of this UID.
    Conceal(String),
    /// Remove the record of the claim of this UID.
    Forget(String),
}

/// How far a claim is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// What is on disk is not known: steps are being done, or have failed.
    Changing,
    /// All of it is on disk.
    Prepared,
}

/// What is understood of a record that is of another release: its claim keeps its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The claim.
    pub key: ClaimKey,
    /// Names of its devices that no other claim may have.
    pub devices: BTreeSet<String>,
}

/// The claims of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    all: BTreeMap<String, (Record, Phase)>,
    reserved: BTreeMap<String, Reserved>,
}

/// What a start has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Records that can be read.
    pub records: Vec<Record>,
    /// UIDs of records that cannot be read.
    pub unreadable: BTreeSet<String>,
    /// What is understood of some of these nevertheless.
    pub reserved: Vec<Reserved>,
    /// UIDs of what container runtimes are shown.
    pub exposed: BTreeSet<String>,
}

impl Claims {
    /// The claims that an earlier process has prepared, and what has to be done for the disk to be in step with them. What belongs to a record
    /// that cannot be read is left: a container may need it, and unpreparing removes it. Its devices stay the claim's as far as they are known.
    #[must_use]
    pub fn recover(found: Found) -> (Self, Vec<Step>) {
        let mut claims = Self::default();
        let mut steps = Vec::new();
        for record in found.records {
            let uid = record.key.uid.clone();
            // What is exposed may be of the time before a reboot, or not be there.
            steps.push(Step::Expose(record.clone()));
            claims.all.insert(uid, (record, Phase::Prepared));
        }
        claims.reserved = found.reserved.into_iter().map(|one| (one.key.uid.clone(), one)).collect();
        let stray = found.exposed.into_iter();
        let stray = stray.filter(|uid| !claims.all.contains_key(uid) && !found.unreadable.contains(uid));
        steps.extend(stray.map(Step::Conceal));
        (claims, steps)
    }

    /// What kubelet is answered where the claim is prepared already.
    #[must_use]
    pub fn prepared(&self, uid: &str) -> Option<&Record> {
        self.all.get(uid).filter(|(_, phase)| *phase == Phase::Prepared).map(|(record, _)| record)
    }

    /// All claims that are recorded, or may be.
    pub fn keys(&self) -> impl Iterator<Item = &ClaimKey> {
        let reserved = self.reserved.values().map(|one| &one.key);
        self.all.values().map(|(record, _)| &record.key).chain(reserved)
    }

    /// Begins to prepare a claim, of which nobody else may be at work; its devices are the claim's from now on. When the steps are done, call
    /// [`Claims::finish`]; where one fails, [`Claims::release`].
    ///
    /// # Errors
    /// [`ClaimError::InUse`] if another claim has one of its devices.
    pub fn begin(&mut self, record: Record) -> Result<Vec<Step>, ClaimError> {
        for given in record.devices.iter().filter(|given| !given.shared) {
            let has = |other: &Record| {
                let same = |theirs: &Given| !theirs.shared && theirs.device.name == given.device.name;
                other.key.uid != record.key.uid && other.devices.iter().any(same)
            };
            let reserves = |other: &&Reserved| {
                other.key.uid != record.key.uid && other.devices.contains(&given.device.name)
            };
            let other = self.all.values().map(|(other, _)| other).find(|other| has(other));
            let other = other.map(|other| &other.key);
            let other = other.or_else(|| self.reserved.values().find(reserves).map(|other| &other.key));
            if let Some(ClaimKey { uid, namespace, name }) = other {
                let owner = format!("{namespace}/{name} (UID {uid})");
                return Err(ClaimError::InUse { device: given.device.name.clone(), owner });
            }
        }
        self.reserved.remove(&record.key.uid);
        self.all.insert(record.key.uid.clone(), (record.clone(), Phase::Changing));
        Ok(vec![Step::Save(record.clone()), Step::Expose(record)])
    }

    /// The steps of [`Claims::begin`] are done.
    pub fn finish(&mut self, uid: &str) {
        if let Some((_, phase)) = self.all.get_mut(uid) {
            *phase = Phase::Prepared;
        }
    }

    /// Begins to remove a claim, also one that is not known: something of it may be on disk. When the steps are done, call [`Claims::removed`];
    /// where one fails, the claim keeps its devices, and this can be repeated.
    #[must_use]
    pub fn release(&mut self, uid: &str) -> Vec<Step> {
        if let Some((_, phase)) = self.all.get_mut(uid) {
            *phase = Phase::Changing;
        }
        vec![Step::Conceal(uid.to_owned()), Step::Forget(uid.to_owned())]
    }

    /// The steps of [`Claims::release`] are done.
    pub fn removed(&mut self, uid: &str) {
        self.all.remove(uid);
        self.reserved.remove(uid);
    }
}

#[cfg(test)]
mod tests;
