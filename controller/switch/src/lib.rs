//! Switches of a fabric: their desired state from one class-of-service profile and the fabric, the planners behind it, and the proofs on
//! what was read back. No IO: values in, values out.
//!
//! Contracts:
//! 1. Every value that is planned says where it comes from ([`source`]).
//! 2. What cannot be right is refused, with the numbers: headroom that does not fit, marking that never happens or comes too late.
//! 3. A [`model::Name`] cannot say anything but itself: nothing is escaped, because nothing needs to be.

pub mod asic;
pub mod bgp;
pub mod buffer;
pub mod change;
pub mod check;
pub mod cluster;
pub mod deadlock;
pub mod desired;
pub mod ecmp;
pub mod ecn;
pub mod explain;
pub mod fabric;
pub mod headroom;
pub mod live;
pub mod model;
pub mod mutate;
pub mod read;
pub mod render;
pub mod sample;
pub mod source;
pub mod state;
pub mod storm;
pub mod vectors;
pub mod words;

#[cfg(test)]
mod tests;
