//! Bounds of rail rules, and why a text is none.

use thiserror::Error;

/// Rails are numbered below this.
pub const RAILS_MOST: u32 = 64;

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
