//! What separates a switch from its desired state, setting by setting, and what each change does to traffic: the plan before a rollout, and
//! drift after it. Tables of which nothing else may stand on the switch are named ([`tables::OWNED`]); the rest of what a switch has is its
//! own.

pub mod bench;
mod difference;
mod impact;
mod routing;
mod tables;

pub use difference::{CONFIG_DB, Change, FRR_CONF};
pub use impact::Impact;
pub use tables::{OWNED, merge};

use crate::{read, render::tables::ConfigDb, state::Routing};

/// What a switch is set to, or is to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// SONiC's tables; none where the switch is no SONiC.
    pub tables: Option<ConfigDb>,
    /// Its routing by FRR; none where FRR routes nothing.
    pub routing: Option<Routing>,
}

impl Settings {
    /// Reads files as they are rendered, and as a switch answers.
    ///
    /// # Errors
    /// What cannot be read, with its file and place.
    pub fn from_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut settings = Self::default();
        for (name, content) in files {
            match name {
                CONFIG_DB => {
                    let tables = ConfigDb::from_json(content);
                    settings.tables = Some(tables.map_err(|error| format!("{CONFIG_DB}: {error}"))?);
                }
                FRR_CONF => {
                    settings.routing =
                        read::routing(content).map_err(|error| format!("{FRR_CONF}: {error}"))?;
                }
                _ => {}
            }
        }
        Ok(settings)
    }
}

/// All that is to change on a switch that is set to `found`, from the least to the most that it does to traffic, then by place. None: it
/// is as desired. Of what is not desired at all (no tables, no routing) nothing is compared.
#[must_use]
pub fn changes(desired: &Settings, found: &Settings) -> Vec<Change> {
    let mut all = Vec::new();
    if let Some(own) = &desired.tables {
        let none = ConfigDb::default();
        tables::compare(own, found.tables.as_ref().unwrap_or(&none), &mut all);
    }
    if let Some(own) = &desired.routing {
        routing::compare(own, found.routing.as_ref(), &mut all);
    }
    all.sort();
    all
}

/// The most that any of them does to traffic; none where nothing changes.
#[must_use]
pub fn worst(changes: &[Change]) -> Option<Impact> {
    changes.iter().map(|change| change.impact).max()
}

#[cfg(test)]
mod tests;
