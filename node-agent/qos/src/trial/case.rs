//! A case of the trial.

use std::collections::BTreeSet;

use crate::{Observed, QosProfile, item::Item, vendor::Vendor};

/// A port, its profile, and what is wrong with it.
#[derive(Debug, Clone)]
pub struct Case {
    /// What was done to it, in words.
    pub name: String,
    /// The table of the port's driver.
    pub vendor: &'static Vendor,
    /// The profile that the port should have.
    pub profile: QosProfile,
    /// What is read of the port.
    pub observed: Observed,
    /// The settings that differ from the profile: exactly these must be found.
    pub wrong: BTreeSet<Item>,
}
