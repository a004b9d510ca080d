//! Class-of-service profiles: what NICs and the switches between them should be, in one document that does not contradict itself.
//!
//! [`QosProfile::new`] names every wrong field at once; [`from_json`] reads documents, strictly.

mod check;
mod document;
mod profile;
pub mod settings;
mod spec;
mod switch;
mod switch_check;
pub mod words;

pub use check::{Flaw, ProfileError};
pub use document::{ProfileDocumentError, from_json};
pub use profile::QosProfile;
pub use spec::{Dcqcn, ProfileSpec};
pub use switch::{Class, EcnThresholds, Purpose, SwitchEnd, VXLAN_BYTES, Watchdog, WatchdogAction};
pub use switch_check::{SwitchFlaw, ecn_flaws};
#[cfg(test)]
mod tests;
