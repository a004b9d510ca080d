//! High availability: several controllers share a store, and one of them leads. A standby sees that the leader is there, takes
//! over on evidence that it is not, and hands calls on to it, so that clients may ask any controller.

mod caller;
mod door;
mod heartbeats;
mod leadership;
mod monitor;
mod repeat;
mod replica;

pub use leadership::LeadershipWatch;
pub use replica::{HaError, LOOP_END, MakeRoutes, Observer, Replica, ReplicaConfig};
