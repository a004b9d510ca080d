//! One stored revocation.

use controller_store::KeyValue;
use proto_model::Timestamp;
use proto_rpc::Subject;

use crate::{codec, error::CorruptError, keys, records};

/// What was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// Whose credentials, or which certificate.
    pub subject: Subject,
    /// What was issued up to then is refused.
    pub at: Timestamp,
    /// The entry goes then.
    pub expires: Timestamp,
    /// The reason for the revocation, as text for people.
    pub reason: String,
    /// The identity that revoked it.
    pub by: String,
    /// The store's revision of it; 0 while it is being written.
    pub revision: u64,
}

pub(crate) fn decode(kv: &KeyValue) -> Result<Revocation, CorruptError> {
    let record: records::Revocation = codec::decode(kv)?;
    let name = String::from_utf8_lossy(&kv.key);
    let subject = name.strip_prefix(keys::REVOCATIONS).unwrap_or_default().parse();
    Ok(Revocation {
        subject: subject.map_err(|error| CorruptError::new(&kv.key, error))?,
        at: Timestamp(record.revoked_ms),
        expires: Timestamp(record.expires_ms),
        reason: record.reason,
        by: record.revoked_by,
        revision: kv.mod_revision,
    })
}

/// Whether a stored entry can be read; for whoever reads all that is stored.
pub(crate) fn check(kv: &KeyValue) -> Result<(), CorruptError> {
    decode(kv).map(drop)
}
