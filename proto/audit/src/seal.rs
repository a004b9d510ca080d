//! Checkpoints: the head of the chain, and what was dropped before it, signed by the cluster's authority.

use crate::record::{Content, Hash, Log, Record};

/// Begins every signed message, so that the same key never signs the same bytes for another purpose: a certificate's
/// content begins with 0x30.
const DOMAIN: &[u8] = b"railyard audit checkpoint 1\n";
/// The same of a checkpoint that tells of the other log too.
const PAIRED: &[u8] = b"railyard audit checkpoint 2\n";

/// The newest record of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its number; 0 where there is none.
    pub seq: u64,
    /// Hash of that record; zeros where there is none.
    pub hash: Hash,
}

/// What is to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The log that the checkpoint closes.
    pub log: Log,
    /// The checkpoint's own number.
    pub seq: u64,
    /// When it was signed, in milliseconds since 1970.
    pub time_ms: u64,
    /// The head: the hash of the record before.
    pub head: Hash,
    /// The epoch of the leader that writes it.
    pub epoch: u64,
    /// The oldest record that is kept from here on; what is older was dropped.
    pub oldest: u64,
    /// The hash of the record before the oldest one.
    pub anchor: Hash,
    /// The head of the other log, so that neither can be left out or cut alone; `None` in checkpoints of before there
    /// were two.
    pub beside: Option<Head>,
}

/// A signed claim, in a record that has the rest of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The epoch of the leader that wrote it.
    pub epoch: u64,
    /// The oldest record that is kept from here on; what is older was dropped.
    pub oldest: u64,
    /// The hash of the record before the oldest one.
    pub anchor: Hash,
    /// The head of the other log; `None` in checkpoints of before there were two.
    pub beside: Option<Head>,
    /// Of [`Claim::message`], ECDSA P-256 with SHA-256, ASN.1.
    pub signature: Vec<u8>,
}

impl Claim {
    /// The claim that a checkpoint's record makes; `None` for another record.
    #[must_use]
    pub fn of(record: &Record) -> Option<(Self, &[u8])> {
        let Content::Checkpoint(checkpoint) = &record.content else { return None };
        let Checkpoint { epoch, oldest, anchor, beside, signature } = checkpoint;
        let (log, seq, time_ms, head) = (record.log, record.seq, record.time_ms, record.previous);
        let (epoch, oldest, anchor, beside) = (*epoch, *oldest, *anchor, *beside);
        Some((Self { log, seq, time_ms, head, epoch, oldest, anchor, beside }, signature))
    }

    /// The bytes that are signed: all fields have a fixed length.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        let mut message = if self.beside.is_some() { PAIRED.to_vec() } else { DOMAIN.to_vec() };
        for number in [self.seq, self.time_ms, self.epoch, self.oldest] {
            message.extend_from_slice(&number.to_be_bytes());
        }
        message.extend_from_slice(&self.head);
        message.extend_from_slice(&self.anchor);
        if let Some(beside) = &self.beside {
            message.push(match self.log {
                Log::Changes => 1,
                Log::Denials => 2,
            });
            message.extend_from_slice(&beside.seq.to_be_bytes());
            message.extend_from_slice(&beside.hash);
        }
        message
    }

    /// The record that makes the claim.
    #[must_use]
    pub fn record(&self, signature: Vec<u8>) -> Record {
        let Self { epoch, oldest, anchor, beside, .. } = *self;
        let checkpoint = Checkpoint { epoch, oldest, anchor, beside, signature };
        Record::new(self.log, self.seq, self.time_ms, self.head, Content::Checkpoint(checkpoint))
    }
}
