//! The handle of a listener: 128 bytes that NCCL carries from the receiver's rank to the sender's.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | magic |
//! | 8..10 | version |
//! | 10..16 | zero |
//! | 16..24 | job: a digest of its uid |
//! | 24..28 | attempt |
//! | 28..32 | rank |
//! | 32..36 | listener |
//! | 36..40 | zero |
//! | 40..48 | cookie of the listener, so that a later one with the same number is not taken for it |
//! | 48..56 | digest of bytes 0..48 |
//! | 56..120 | zero |
//! | 120..128 | the connecting rank's own note: which connection it has begun with this handle; 0 for none |

/// Bytes of a handle.
pub const HANDLE_BYTES: usize = 128;
/// First bytes of every handle.
const MAGIC: [u8; 8] = *b"RAILNCCL";
/// Version of the layout, and of the protocol behind it.
const VERSION: u16 = 2;
/// Where the digest is, and where the connecting rank's note is.
const DIGEST_AT: usize = 48;
const NOTE_AT: usize = 120;

/// What a handle says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    /// Digest of the job's uid.
    pub job: u64,
    /// Attempt of the job, from 1.
    pub attempt: u32,
    /// The rank that listens.
    pub rank: u32,
    /// Number of its listener.
    pub listener: u32,
    /// The listener's cookie.
    pub cookie: u64,
}

/// Bytes that are no handle of this plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// It does not begin as a handle does.
    #[error(
        "the handle was not made by this plugin: do all ranks load librail_nccl_net.so (NCCL_NET_PLUGIN)?"
    )]
    Magic,
    /// It is of another version.
    #[error(
        "the handle has version {0}, this plugin has {VERSION}: all ranks must load the same librail_nccl_net.so"
    )]
    Version(u16),
    /// Its bytes were changed on their way.
    #[error("the handle is damaged: its digest does not fit its bytes")]
    Digest,
}

impl Handle {
    /// The handle as it travels, without a note.
    #[must_use]
    pub fn encode(&self) -> [u8; HANDLE_BYTES] {
        let mut out = [0; HANDLE_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(16, &self.job.to_le_bytes());
        put(24, &self.attempt.to_le_bytes());
        put(28, &self.rank.to_le_bytes());
        put(32, &self.listener.to_le_bytes());
        put(40, &self.cookie.to_le_bytes());
        let digest = digest(&out[..DIGEST_AT]);
        out[DIGEST_AT..DIGEST_AT + 8].copy_from_slice(&digest.to_le_bytes());
        out
    }

    /// Reads a handle.
    ///
    /// # Errors
    /// [`HandleError`] where the bytes are no handle of this version.
    pub fn decode(bytes: &[u8; HANDLE_BYTES]) -> Result<Self, HandleError> {
        if bytes[..8] != MAGIC {
            return Err(HandleError::Magic);
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return Err(HandleError::Version(version));
        }
        if u64_at(bytes, DIGEST_AT) != digest(&bytes[..DIGEST_AT]) {
            return Err(HandleError::Digest);
        }
        Ok(Self {
            job: u64_at(bytes, 16),
            attempt: u32_at(bytes, 24),
            rank: u32_at(bytes, 28),
            listener: u32_at(bytes, 32),
            cookie: u64_at(bytes, 40),
        })
    }
}

/// The connecting rank's note in a handle.
#[must_use]
pub fn note(bytes: &[u8; HANDLE_BYTES]) -> u64 {
    u64_at(bytes, NOTE_AT)
}

/// Leaves a note in a handle.
pub fn set_note(bytes: &mut [u8; HANDLE_BYTES], note: u64) {
    bytes[NOTE_AT..].copy_from_slice(&note.to_le_bytes());
}

/// A digest that tells accidents, not attackers, from what was written (FNV-1a).
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn u32_at(bytes: &[u8; HANDLE_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8; HANDLE_BYTES], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
