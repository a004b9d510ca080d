//! Which link a flow takes where there are several, and how to choose so that no two elephants share one.
//!
//! A switch hashes fields of a packet and takes the result modulo the number of links (ECMP, RFC 2992). RoCEv2 has one destination port, so
//! that what tells flows apart is the UDP source port, which follows from the flow label of a queue pair ([`udp`]), and in switches that read it
//! the queue pair number of the receiver. By chance 64 flows on 64 links put four on one; whoever knows the hash gives each its own:
//! [`choose()`] colours the flows of a placement with links, exactly (König, 1916), and finds a source port for each colour.
//!
//! The hashes of switches are linear: another seed only exchanges links for each other, and flows that met in one tier meet in the next
//! (Zhang et al., "Hashing Linearity Enables Relative Path Control in Data Centers", USENIX ATC 2021). [`plan`] therefore gives tiers
//! other bits of the hash, or another polynomial, and [`reached`] measures what comes of it.

mod bench;
mod choose;
mod colour;
mod hash;
#[cfg(test)]
mod tests;
mod tiers;
pub mod udp;

pub use bench::{Spread, spread};
pub use choose::{BadChoice, Choice, Demand, Fanout, Loads, by_chance, choose};
pub use hash::{Algorithm, Family, Fields, Flow, Hash};
pub use tiers::{plan, reached};
