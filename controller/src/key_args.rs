//! What protects secret files: a passphrase for the authority's key, a provider for it and for the store's keys.

use std::{path::PathBuf, time::Duration};

use controller_keys::{Guards, KeyError, ProviderSpec, read_passphrase};

use crate::arg_values::duration;

/// The passphrase itself; not an option, because options can be seen by everybody on the machine.
const PASSPHRASE: &str = "RAIL_CONTROLLER_CA_PASSPHRASE";

/// Keys.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Keys")]
pub struct KeyArgs {
    /// Who wraps the store's keys and, where there is no passphrase, the authority's: file:PATH (a key of 64 hex digits),
    /// passphrase-file:PATH, or exec:PROGRAM (a program of yours that asks a KMS or a TPM; docs/keys.md).
    #[arg(long, env = "RAIL_CONTROLLER_KEY_PROVIDER")]
    pub key_provider: Option<ProviderSpec>,
    /// A file with the passphrase of the authority's key in its first line; or RAIL_CONTROLLER_CA_PASSPHRASE in the environment.
    #[arg(long, env = "RAIL_CONTROLLER_CA_PASSPHRASE_FILE")]
    pub ca_passphrase_file: Option<PathBuf>,
}

impl KeyArgs {
    /// What is given.
    ///
    /// # Errors
    /// A file cannot be read or can be read by others, or a passphrase is too short.
    pub fn guards(&self) -> Result<Guards, KeyError> {
        let provider = self.key_provider.as_ref().map(ProviderSpec::open).transpose()?;
        let guards = Guards::default().with_provider(provider);
        match (&self.ca_passphrase_file, std::env::var(PASSPHRASE)) {
            (Some(file), _) => guards.with_passphrase(&read_passphrase(file)?, &file.display().to_string()),
            (None, Ok(text)) => guards.with_passphrase(&text, PASSPHRASE),
            (None, Err(_)) => Ok(guards),
        }
    }
}

/// How nodes follow when another authority issues.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct CaRenewals {
    /// When another authority issues (`ca activate`), nodes renew their certificates within this time, each at a moment of
    /// its own.
    #[arg(long, env = "RAIL_CONTROLLER_CA_RENEW_WITHIN", default_value = "5m", value_parser = duration)]
    pub ca_renew_within: Duration,
}

/// How long an authority lives that is made now.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct CaLife {
    /// How long the authority lives, in days, where it is made now; certificates end with it at the latest.
    #[arg(long, env = "RAIL_CONTROLLER_CA_DAYS", default_value_t = 3650,
          value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub ca_days: u32,
}

impl CaLife {
    /// How long the authority lives, as a duration.
    #[must_use]
    pub fn lifetime(self) -> Duration {
        Duration::from_secs(u64::from(self.ca_days) * 86_400)
    }
}
