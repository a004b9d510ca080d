//! The audit log: what a record says, how records are chained by hashes, and how anybody checks a chain.
//!
//! ```text
//! hash(n) = SHA-256(domain, hash(n - 1), seq, time, content)
//! ```
//! Every field goes in with its length, so that no two records have one encoding. A checkpoint is a record that carries a
//! signature of the chain's head by the cluster's authority; whoever has its certificate can check everything.
//! No keys here: who signs and who checks signatures is an argument.

mod check;
mod record;
mod seal;
#[cfg(test)]
mod tests;

pub use check::{Broken, Fault, Summary, Verifier, verify};
pub use record::{Actor, Change, Content, Denial, Hash, Object, Record, START};
pub use seal::{Checkpoint, Claim};
