//! What the site says. [pure]

use std::time::Duration;

use thiserror::Error;

use crate::names::LONGEST_PREFIX;

/// What becomes of workloads while no controller of Railyard answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenAway {
    /// They wait.
    #[default]
    Closed,
    /// They are admitted without Railyard, once nobody has answered for [`Policy::away_after`].
    Open,
}

/// What decisions follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Names of holds begin so. Each cluster of Kubernetes whose credentials see the same tenants has another one: what has this prefix and no workload
    /// is given back.
    pub prefix: String,
    /// The tenant of namespaces that name none; absent: that of the credentials. An administrator's credentials see all tenants, so give one with these:
    /// without it, it cannot be told whose an allocation is.
    pub tenant: Option<String>,
    /// The tenant's queue, for workloads that name none.
    pub queue: Option<String>,
    /// Resources of pods that are GPUs.
    pub gpu_resources: Vec<String>,
    /// Workloads have their servers alone.
    pub exclusive: bool,
    /// While nobody answers.
    pub when_away: WhenAway,
    /// Nobody has answered for so long: Railyard is away. In seconds.
    pub away_after: u64,
    /// A hold that has no servers after so long is given up. In seconds.
    pub place_within: u64,
    /// A hold whose servers are not prepared after so long is given up. In seconds.
    pub prepare_within: u64,
    /// The first pause before a workload that does not fit is tried again, doubled each time. In seconds.
    pub retry_first: u32,
    /// The longest of these pauses. In seconds.
    pub retry_longest: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            prefix: "kueue-".to_owned(),
            tenant: None,
            queue: None,
            gpu_resources: vec!["nvidia.com/gpu".to_owned(), "amd.com/gpu".to_owned()],
            exclusive: false,
            when_away: WhenAway::Closed,
            away_after: 10,
            place_within: 10,
            prepare_within: 180,
            retry_first: 10,
            retry_longest: 300,
        }
    }
}

/// Settings of [`crate::run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What decisions follow.
    pub policy: Policy,
    /// Name of the Topology and the ResourceFlavor that are kept as the fabric is; absent: none are.
    pub topology: Option<String>,
    /// Label and value of the nodes that the ResourceFlavor is for.
    pub flavor_label: (String, String),
    /// Workloads that are worked on at a time.
    pub workers: usize,
    /// How often all is compared again, and the fabric asked for.
    pub every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            topology: Some("railyard".to_owned()),
            flavor_label: ("railyard.io/rails".to_owned(), "true".to_owned()),
            workers: 8,
            every: Duration::from_secs(300),
        }
    }
}

/// A setting that cannot be.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SettingsError {
    /// Names of jobs could not begin so.
    #[error(
        "the prefix of holds is {0:?}: it is up to 18 lower-case letters, digits and '-', and begins with a letter"
    )]
    Prefix(String),
    /// Nothing would be done.
    #[error("there are no workers for workloads: give at least 1")]
    NoWorkers,
}

impl Settings {
    /// Looks for what cannot be.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn check(&self) -> Result<(), SettingsError> {
        let prefix = &self.policy.prefix;
        let is_name =
            prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let begins = prefix.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        if !is_name || !begins || prefix.len() > LONGEST_PREFIX {
            return Err(SettingsError::Prefix(prefix.clone()));
        }
        if self.workers == 0 {
            return Err(SettingsError::NoWorkers);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_good_and_wrong_prefixes_are_named() {
        assert_eq!(Settings::default().check(), Ok(()));
        for prefix in ["", "Kueue-", "-a", "4-", "a-very-long-prefix-of-a-name"] {
            let policy = Policy { prefix: prefix.into(), ..Policy::default() };
            let settings = Settings { policy, ..Settings::default() };
            assert_eq!(settings.check(), Err(SettingsError::Prefix(prefix.into())));
        }
        assert_eq!(Settings { workers: 0, ..Settings::default() }.check(), Err(SettingsError::NoWorkers));
    }
}
