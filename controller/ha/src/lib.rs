//! High availability: several controllers share a store, and one of them leads. A standby sees that the leader is there, takes
//! over on evidence that it is not, and hands calls on to it, so that clients may ask any controller.

mod beats;
mod caller;
mod contact;
mod door;
mod replica;
mod stand;

pub use replica::{HaError, LOOP_END, Observer, Replica, ReplicaConfig};
pub use stand::{Stands, stands};
