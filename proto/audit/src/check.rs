//! Checking both chains: record by record, each log's in order; the first that is wrong is named.

use thiserror::Error;

use crate::{
    record::{Content, Hash, Log, Record, START},
    seal::{Claim, Head},
};

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// It does not follow the one before.
    #[error("record {expected} is missing before it")]
    Missing {
        /// The number that should be here.
        expected: u64,
    },
    /// It is of before, or a second one.
    #[error("record {expected} should be here")]
    OutOfOrder {
        /// The number that should be here.
        expected: u64,
    },
    /// Its hash is not of what it says.
    #[error("what it says does not have its hash: it was changed")]
    Changed,
    /// It does not carry the hash of the one before.
    #[error("the record before it is not the one that it followed")]
    Unlinked,
    /// The chain was found broken by the controller itself.
    #[error("the chain was broken before it, and a controller noticed that: {cause}")]
    Resumed {
        /// What the controller found.
        cause: String,
    },
    /// The first record of all names one before it.
    #[error("it is the first record, and names one before it")]
    NotTheStart,
    /// No checkpoint says that what is missing before the first record was dropped.
    #[error("what came before it is missing, and no signed checkpoint says that it was dropped")]
    NotAnchored,
    /// The signature is not of the cluster's authority.
    #[error("the checkpoint's signature is not by the key of this certificate")]
    Forged,
    /// The other log's checkpoint tells of more records than there are.
    #[error("the other log has signed that this one reaches record {signed}: what came after it was cut off")]
    CutOff {
        /// Number of the last record that the other log has signed.
        signed: u64,
    },
    /// The other log's checkpoint tells of another record.
    #[error("the other log has signed another record of this number")]
    Exchanged,
    /// Records at the end are not signed.
    #[error("it and what follows to the end is not signed by a checkpoint: more may have been cut off")]
    Unsigned,
}

/// The first record that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: {fault}", called(*log, *seq))]
pub struct Broken {
    /// The log that the record is in.
    pub log: Log,
    /// Number of the record in its log.
    pub seq: u64,
    /// What is wrong with the record.
    pub fault: Fault,
}

fn called(log: Log, seq: u64) -> String {
    match log {
        Log::Changes => format!("record {seq}"),
        Log::Denials => format!("denial record {seq}"),
    }
}

/// What was checked of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Records, checkpoints among them.
    pub records: u64,
    /// Checkpoints among the records.
    pub checkpoints: u64,
    /// The first record's number.
    pub first: u64,
    /// The last record's number.
    pub last: u64,
    /// When the last one was made, in milliseconds since 1970.
    pub last_ms: u64,
    /// Records after the last checkpoint.
    pub unsigned: u64,
}

/// What was checked of both logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// What was checked of the log of changes.
    pub changes: Summary,
    /// Of the log of denials; without records where there never was one.
    pub denials: Summary,
}

impl Verified {
    /// Records of both logs, checkpoints among them.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.changes.records + self.denials.records
    }
}

/// The chain of one log while it is checked.
#[derive(Debug, Default)]
struct Chain {
    sum: Summary,
    head: Hash,
    /// What the first record has for the one before, until a checkpoint vouches for it.
    anchor: Option<Hash>,
    /// The first record after the last checkpoint.
    since: u64,
    /// What the last checkpoint says of the other log.
    beside: Option<Head>,
}

impl Chain {
    fn first(&mut self, record: &Record) -> Result<(), Fault> {
        self.sum.first = record.seq;
        if record.seq > 1 {
            self.anchor = Some(record.previous);
        } else if record.seq == 0 || record.previous != START {
            return Err(Fault::NotTheStart);
        }
        Ok(())
    }

    fn follows(&self, record: &Record) -> Result<(), Fault> {
        let expected = self.sum.last + 1;
        let linked = record.seq == expected && record.previous == self.head;
        match &record.content {
            Content::Resumed { cause } if !linked => Err(Fault::Resumed { cause: cause.clone() }),
            _ if record.seq > expected => Err(Fault::Missing { expected }),
            _ if record.seq < expected => Err(Fault::OutOfOrder { expected }),
            _ if !linked => Err(Fault::Unlinked),
            _ => Ok(()),
        }
    }

    fn take(&mut self, record: &Record, signed: impl FnOnce(&[u8], &[u8]) -> bool) -> Result<(), Fault> {
        if self.sum.records == 0 { self.first(record) } else { self.follows(record) }?;
        if record.computed() != record.hash {
            return Err(Fault::Changed);
        }
        if let Some((claim, signature)) = Claim::of(record) {
            if !signed(&claim.message(), signature) {
                return Err(Fault::Forged);
            }
            if claim.oldest == self.sum.first && self.anchor == Some(claim.anchor) {
                self.anchor = None;
            }
            self.beside = claim.beside;
            self.sum.checkpoints += 1;
            self.sum.unsigned = 0;
        } else {
            if self.sum.unsigned == 0 {
                self.since = record.seq;
            }
            self.sum.unsigned += 1;
        }
        self.sum.records += 1;
        (self.sum.last, self.sum.last_ms, self.head) = (record.seq, record.time_ms, record.hash);
        Ok(())
    }
}

/// Checks one record after the other, of either log. `signed` says whether a message has a good signature.
pub struct Verifier<F> {
    signed: F,
    changes: Chain,
    denials: Chain,
}

impl<F: FnMut(&[u8], &[u8]) -> bool> Verifier<F> {
    /// A check that has seen no record yet.
    pub fn new(signed: F) -> Self {
        Self { signed, changes: Chain::default(), denials: Chain::default() }
    }

    /// The next record of its log.
    ///
    /// # Errors
    /// What is wrong with it; nothing that follows is worth a look then.
    pub fn take(&mut self, record: &Record) -> Result<(), Broken> {
        let broken = |fault| Broken { log: record.log, seq: record.seq, fault };
        let (chain, other) = match record.log {
            Log::Changes => (&mut self.changes, &self.denials),
            Log::Denials => (&mut self.denials, &self.changes),
        };
        chain.take(record, &mut self.signed).map_err(broken)?;
        match other.beside {
            Some(head) if head.seq == record.seq && head.hash != record.hash => Err(broken(Fault::Exchanged)),
            _ => Ok(()),
        }
    }

    /// What was checked so far.
    #[must_use]
    pub fn so_far(&self) -> Verified {
        Verified { changes: self.changes.sum, denials: self.denials.sum }
    }

    /// All was seen, and each log's end is to be a checkpoint, as that of every export is.
    ///
    /// # Errors
    /// The beginning or the end of a log is not vouched for by a checkpoint.
    pub fn finish(self) -> Result<Verified, Broken> {
        for (log, chain) in [(Log::Changes, &self.changes), (Log::Denials, &self.denials)] {
            if chain.sum.unsigned > 0 {
                return Err(Broken { log, seq: chain.since, fault: Fault::Unsigned });
            }
        }
        self.finish_open()
    }

    /// As `finish`, where the end need not be signed (yet).
    ///
    /// # Errors
    /// The beginning is not vouched for by a checkpoint, or one log has seen more of the other than there is.
    pub fn finish_open(self) -> Result<Verified, Broken> {
        let pairs =
            [(Log::Changes, &self.changes, &self.denials), (Log::Denials, &self.denials, &self.changes)];
        for (log, chain, other) in pairs {
            if chain.anchor.is_some() {
                return Err(Broken { log, seq: chain.sum.first, fault: Fault::NotAnchored });
            }
            let Some(head) = other.beside else { continue };
            let fault = if head.seq > chain.sum.last {
                Fault::CutOff { signed: head.seq }
            } else if head.seq == chain.sum.last && head.seq > 0 && head.hash != chain.head {
                Fault::Exchanged
            } else {
                continue;
            };
            return Err(Broken { log, seq: chain.sum.last, fault });
        }
        Ok(self.so_far())
    }
}

/// Checks an export as a whole.
///
/// # Errors
/// The first record that is wrong.
pub fn verify<'a>(
    records: impl IntoIterator<Item = &'a Record>,
    signed: impl FnMut(&[u8], &[u8]) -> bool,
) -> Result<Verified, Broken> {
    let mut verifier = Verifier::new(signed);
    records.into_iter().try_for_each(|record| verifier.take(record))?;
    verifier.finish()
}
