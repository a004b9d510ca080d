//! What a port should be: one profile for all NICs of a fabric, and for the switches between them.

use serde::{Deserialize, Serialize};

use crate::{
    check::{ProfileError, check},
    settings::{AppEntry, AppTable, Ets, Pause},
    spec::ProfileSpec,
    words::{Dscp, Ownership, Priority, Trust},
};

/// A profile that does not contradict itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ProfileSpec", into = "ProfileSpec")]
pub struct QosProfile(ProfileSpec);

impl QosProfile {
    /// Checks `spec`.
    ///
    /// # Errors
    /// [`ProfileError`] with every wrong field.
    pub fn new(spec: ProfileSpec) -> Result<Self, ProfileError> {
        let flaws = check(&spec);
        if flaws.is_empty() { Ok(Self(spec)) } else { Err(ProfileError(flaws)) }
    }

    /// The fields of the profile, which have been checked.
    #[must_use]
    pub const fn spec(&self) -> &ProfileSpec {
        &self.0
    }

    /// The priority of `dscp`.
    #[must_use]
    pub fn priority_of(&self, dscp: Dscp) -> Priority {
        self.0.priority_of(dscp)
    }

    /// The DSCP entries of the application table: all 64, or none where the VLAN tag is trusted.
    #[must_use]
    pub fn dscp_entries(&self) -> AppTable {
        if self.0.trust == Trust::Pcp {
            return AppTable::new();
        }
        Dscp::all().map(|dscp| AppEntry::dscp(dscp, self.priority_of(dscp))).collect()
    }

    /// Transmission selection. A port of ours is not willing: its peer does not change it.
    #[must_use]
    pub fn ets(&self) -> Ets {
        let ProfileSpec { tsa, bandwidth, prio_tc, .. } = self.0;
        Ets { willing: self.0.dcbx == Ownership::Firmware, tsa, bandwidth, prio_tc }
    }

    /// The global pause that the profile wants, in both directions alike.
    #[must_use]
    pub const fn pause(&self) -> Pause {
        if self.0.global_pause { Pause { autoneg: false, rx: true, tx: true } } else { Pause::OFF }
    }
}

impl Default for QosProfile {
    /// [`ProfileSpec::default`], which a test checks.
    fn default() -> Self {
        Self(ProfileSpec::default())
    }
}

impl TryFrom<ProfileSpec> for QosProfile {
    type Error = ProfileError;

    fn try_from(spec: ProfileSpec) -> Result<Self, ProfileError> {
        Self::new(spec)
    }
}

impl From<QosProfile> for ProfileSpec {
    fn from(profile: QosProfile) -> Self {
        profile.0
    }
}
