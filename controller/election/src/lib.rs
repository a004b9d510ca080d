//! Who leads among controllers that share a store. No clock, no IO: each module is a state machine that a shell drives.
//!
//! - `lead`: how a controller takes the leader key, and how it takes it anew;
//! - `witness`: whether the leader that a standby follows is gone;
//! - `assurance`: how sure a leader is that it still leads, and which answers wait for that;
//! - `mirror`: a standby's copy of what is stored.

pub mod assurance;
pub mod lead;
pub mod mirror;
pub mod witness;
