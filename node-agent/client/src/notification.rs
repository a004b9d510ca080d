//! What ranks notify each other of.

/// What another rank has notified this one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// The rank that made it.
    pub from: u32,
    /// What it says.
    pub words: [u64; 3],
}
