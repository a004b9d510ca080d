//! The machines of all nodes of a job over a simulated network, in virtual time, against a naive reference.

#[cfg(test)]
mod algorithms;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod notifications;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reference;
#[cfg(test)]
#[allow(dead_code, reason = "the simulator of the engine, which shares this file, uses the rest")]
mod sim;
#[cfg(test)]
mod timed;
