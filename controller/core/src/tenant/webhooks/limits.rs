//! How many webhooks and deliveries there may be.

/// Webhooks of one tenant at most.
pub const MAX_OF_TENANT: usize = 16;
/// Webhooks at most.
pub const MAX_WEBHOOKS: usize = 4096;
/// Deliveries of one webhook that wait, at most; the oldest one makes room.
pub const QUEUE: usize = 256;
/// Deliveries that one step adds, at most: they share the transaction of what they tell. What is beyond is dropped, and counted.
pub const STEP: usize = 256;
/// Deliveries that go with their tenant at most: a transaction has bounds.
pub(crate) const WITH_TENANT: usize = 1024;
