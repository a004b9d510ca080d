//! Rail rules as text.

use std::{fmt, str::FromStr};

use super::{
    error::{RAILS_MOST, RailRuleError},
    rule::RailRule,
};

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
