//! The audit log: what a record says, how records are chained by hashes, and how anybody checks a chain.
//!
//! ```text
//! hash(n) = SHA-256(domain, hash(n - 1), seq, time, content)
//! ```
//! Every field goes in with its length, so that no two records have one encoding. A checkpoint is a record that carries a
//! signature of the chain's head by the cluster's authority; whoever has its certificate can check everything.
//!
//! There are two logs, each with a chain of its own: authorised changes, and denials. Anybody can cause denials, as many
//! as they like; so each log drops its oldest records for its own newer ones only. A checkpoint names the head of the other
//! log, so that neither can be left out of an export.
//!
//! No keys here: who signs and who checks signatures is an argument.

mod check;
mod record;
mod seal;
#[cfg(test)]
mod tests;

pub use check::{Broken, Fault, Summary, Verified, Verifier, verify};
pub use record::{ANONYMOUS, Actor, Change, Content, Denial, Hash, Log, Object, Record, START};
pub use seal::{Checkpoint, Claim, Head};
