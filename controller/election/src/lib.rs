//! Leader election among controllers that share a store. No clock, no IO: each module is a state machine that a shell drives.
//!
//! - `lead`: how a controller takes the leader key, and how it takes it again;
//! - `witness`: whether the leader that a standby follows is gone;
//! - `assurance`: how recently a leader has confirmed that it leads, and the answers that wait for a confirmation;
//! - `mirror`: a standby's copy of the stored rows.

pub mod assurance;
pub mod lead;
pub mod mirror;
pub mod witness;
