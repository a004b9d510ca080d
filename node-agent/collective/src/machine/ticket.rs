//! What callers and transports know a call and a payload by.

use crate::memory::Region;

/// Names one call of one local rank until it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Where the payload of a frame that is coming in goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// The next bytes go into this region (which may be shorter than the rest of the payload).
    Into(Region),
    /// Nowhere: read the rest and throw it away.
    Discard,
}
