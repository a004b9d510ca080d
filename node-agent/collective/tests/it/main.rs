//! The machines of all nodes of a job over a simulated network, in virtual time, against a naive reference.

mod failures;
mod properties;
mod reference;
mod sim;
