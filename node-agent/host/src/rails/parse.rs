//! Rail rules as text.

use std::{fmt, str::FromStr};

use thiserror::Error;

use super::{RAILS_MOST, RailRule};

/// Why a text is not a rail rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RailRuleError {
    /// No kind of rule begins so.
    #[error(
        "'{0}' is not a rail rule; use auto, pci, pattern:NAME{{k}}, map:DEVICE=RAIL,..., subnet:10.0.{{k}}.0/24 or lldp:SWITCH{{k}}"
    )]
    Unknown(String),
    /// A pattern without its place for the number, or with two.
    #[error("'{0}' needs exactly one '{{k}}' where the rail's number stands, for example mlx5_{{k}}")]
    Pattern(String),
    /// An entry of a map that is not `DEVICE=RAIL`.
    #[error("'{0}' is not DEVICE=RAIL with a rail from 0 to 63")]
    Entry(String),
    /// Not a subnet with its rail.
    #[error(
        "'{0}' is not a subnet with one '{{k}}' for the rail (10.0.{{k}}.0/24), nor SUBNET=RAIL with a rail from 0 to 63"
    )]
    Subnet(String),
    /// Not a switch with its rail.
    #[error(
        "'{0}' is not a switch's name with one '{{k}}' for the rail and at most four '*' (leaf*-r{{k}}), nor SWITCH=RAIL with a rail from 0 to 63"
    )]
    Switch(String),
}

impl FromStr for RailRule {
    type Err = RailRuleError;

    fn from_str(text: &str) -> Result<Self, RailRuleError> {
        if let Some(pattern) = text.strip_prefix("pattern:") {
            if pattern.matches("{k}").count() != 1 {
                return Err(RailRuleError::Pattern(pattern.to_owned()));
            }
            return Ok(Self::Pattern(pattern.to_owned()));
        }
        if let Some(map) = text.strip_prefix("map:") {
            let entry = |entry: &str| {
                let parsed = entry.rsplit_once('=').and_then(|(device, rail)| {
                    let rail = rail.parse().ok().filter(|rail| *rail < RAILS_MOST)?;
                    (!device.is_empty()).then(|| (device.to_owned(), rail))
                });
                parsed.ok_or_else(|| RailRuleError::Entry(entry.to_owned()))
            };
            return map.split(',').map(entry).collect::<Result<_, _>>().map(Self::Map);
        }
        if let Some(subnets) = text.strip_prefix("subnet:") {
            return subnets.parse().map(Self::Subnet);
        }
        if let Some(switches) = text.strip_prefix("lldp:") {
            return switches.parse().map(Self::Lldp);
        }
        match text {
            "auto" => Ok(Self::Auto),
            "pci" => Ok(Self::PciOrder),
            other => Err(RailRuleError::Unknown(other.to_owned())),
        }
    }
}

impl fmt::Display for RailRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::PciOrder => f.write_str("pci"),
            Self::Pattern(pattern) => write!(f, "pattern:{pattern}"),
            Self::Map(map) => {
                let entries: Vec<String> =
                    map.iter().map(|(device, rail)| format!("{device}={rail}")).collect();
                write!(f, "map:{}", entries.join(","))
            }
            Self::Subnet(subnets) => write!(f, "subnet:{subnets}"),
            Self::Lldp(switches) => write!(f, "lldp:{switches}"),
        }
    }
}
