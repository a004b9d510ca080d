//! Nodes: their agents come, speak and fall silent (`agents`), what they report is taken apart before it is believed (`claims`), those that fail
//! jobs are quarantined (`quarantine`), and what administrators change of them (`changes`).

mod agents;
mod changes;
pub(crate) mod claims;
pub mod quarantine;
