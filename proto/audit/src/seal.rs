//! Checkpoints: the head of the chain, and what was dropped before it, signed by the cluster's authority.

use crate::record::{Content, Hash, Record};

/// Begins every signed message, so that the same key never signs the same bytes for another purpose: a certificate's
/// content begins with 0x30.
const DOMAIN: &[u8] = b"railyard audit checkpoint 1\n";

/// What is to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The checkpoint's own number.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// The head: the hash of the record before.
    pub head: Hash,
    /// Who leads.
    pub epoch: u64,
    /// The oldest record that is kept from here on; what is older was dropped.
    pub oldest: u64,
    /// The hash of the record before the oldest one.
    pub anchor: Hash,
}

/// A signed claim, in a record that has the rest of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Who led.
    pub epoch: u64,
    /// The oldest record that is kept from here on; what is older was dropped.
    pub oldest: u64,
    /// The hash of the record before the oldest one.
    pub anchor: Hash,
    /// Of [`Claim::message`], ECDSA P-256 with SHA-256, ASN.1.
    pub signature: Vec<u8>,
}

impl Claim {
    /// The claim that a checkpoint's record makes; `None` for another record.
    #[must_use]
    pub fn of(record: &Record) -> Option<(Self, &[u8])> {
        let Content::Checkpoint(checkpoint) = &record.content else { return None };
        let Checkpoint { epoch, oldest, anchor, signature } = checkpoint;
        let (seq, time_ms, head) = (record.seq, record.time_ms, record.previous);
        Some((Self { seq, time_ms, head, epoch: *epoch, oldest: *oldest, anchor: *anchor }, signature))
    }

    /// The bytes that are signed: all fields have a fixed length.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        let mut message = DOMAIN.to_vec();
        for number in [self.seq, self.time_ms, self.epoch, self.oldest] {
            message.extend_from_slice(&number.to_be_bytes());
        }
        message.extend_from_slice(&self.head);
        message.extend_from_slice(&self.anchor);
        message
    }

    /// The record that makes the claim.
    #[must_use]
    pub fn record(&self, signature: Vec<u8>) -> Record {
        let Self { epoch, oldest, anchor, .. } = *self;
        let checkpoint = Checkpoint { epoch, oldest, anchor, signature };
        Record::new(self.seq, self.time_ms, self.head, Content::Checkpoint(checkpoint))
    }
}
