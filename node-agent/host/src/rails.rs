//! Which rail a NIC serves: by an explicit map, by its name, or by its place on the PCI bus.

use std::{collections::BTreeMap, fmt, str::FromStr};

use thiserror::Error;

use crate::host::Finding;

/// The rule of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RailRule {
    /// Network devices called `rail0`, `rail1`, ... if there are any; else [`RailRule::PciOrder`].
    #[default]
    Auto,
    /// The fastest RDMA devices, numbered by PCI address. Slower ones (storage, management) serve no rail.
    PciOrder,
    /// Devices or network devices whose name is the pattern with a number in place of `{k}`.
    Pattern(String),
    /// Device, network device or PCI address -> rail.
    Map(BTreeMap<String, u32>),
}

/// Why a text is not a rail rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RailRuleError {
    /// No kind of rule begins so.
    #[error("'{0}' is not a rail rule; use auto, pci, pattern:NAME{{k}} or map:DEVICE=RAIL,...")]
    Unknown(String),
    /// A pattern without its place for the number, or with two.
    #[error("'{0}' needs exactly one '{{k}}' where the rail's number stands, for example mlx5_{{k}}")]
    Pattern(String),
    /// An entry of a map that is not `DEVICE=RAIL`.
    #[error("'{0}' is not DEVICE=RAIL with a rail from 0 to 63")]
    Entry(String),
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
                    let rail = rail.parse().ok().filter(|rail| *rail < 64)?;
                    (!device.is_empty()).then(|| (device.to_owned(), rail))
                });
                parsed.ok_or_else(|| RailRuleError::Entry(entry.to_owned()))
            };
            return map.split(',').map(entry).collect::<Result<_, _>>().map(Self::Map);
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
        }
    }
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// RDMA device, or the network device.
    pub device: &'a str,
    /// Network device.
    pub netdev: &'a str,
    /// Empty if not known.
    pub pci_address: &'a str,
    /// It has an RDMA device.
    pub rdma: bool,
    /// 0 if not known.
    pub speed_mbps: u64,
}

impl RailRule {
    /// The rail of each candidate, in their order; none for a NIC that serves no rail. What the rule asks for and
    /// is not there, and two NICs on one rail, are findings.
    pub fn assign(&self, candidates: &[Candidate<'_>], findings: &mut Vec<Finding>) -> Vec<Option<u32>> {
        let rails = match self {
            Self::Auto => {
                let by_name = by_pattern("rail{k}", candidates);
                if by_name.iter().any(Option::is_some) { by_name } else { by_pci(candidates) }
            }
            Self::PciOrder => by_pci(candidates),
            Self::Pattern(pattern) => by_pattern(pattern, candidates),
            Self::Map(map) => by_map(map, candidates, findings),
        };
        let mut owners: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for (candidate, rail) in candidates.iter().zip(&rails) {
            if let Some(rail) = rail {
                owners.entry(*rail).or_default().push(candidate.device);
            }
        }
        for (rail, devices) in owners.iter().filter(|(_, devices)| devices.len() > 1) {
            let text = format!("{} all serve rail {rail}; a job uses one of them", devices.join(", "));
            findings.push(Finding::new(devices[0], text));
        }
        rails
    }
}

fn by_pattern(pattern: &str, candidates: &[Candidate<'_>]) -> Vec<Option<u32>> {
    let Some((before, after)) = pattern.split_once("{k}") else { return vec![None; candidates.len()] };
    let number = |name: &str| -> Option<u32> {
        let digits = name.strip_prefix(before)?.strip_suffix(after)?;
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten().filter(|rail| *rail < 64)
    };
    candidates.iter().map(|one| number(one.device).or_else(|| number(one.netdev))).collect()
}

fn by_pci(candidates: &[Candidate<'_>]) -> Vec<Option<u32>> {
    let fastest = candidates.iter().filter(|one| one.rdma).map(|one| one.speed_mbps).max().unwrap_or(0);
    let mut order: Vec<usize> = (0..candidates.len())
        .filter(|at| candidates[*at].rdma && candidates[*at].speed_mbps == fastest)
        .collect();
    order.sort_by_key(|at| (candidates[*at].pci_address, candidates[*at].device));
    let mut rails = vec![None; candidates.len()];
    for (rail, at) in (0..64).zip(order) {
        rails[at] = Some(rail);
    }
    rails
}

fn by_map(
    map: &BTreeMap<String, u32>,
    candidates: &[Candidate<'_>],
    findings: &mut Vec<Finding>,
) -> Vec<Option<u32>> {
    let is = |one: &Candidate<'_>, name: &str| [one.device, one.netdev, one.pci_address].contains(&name);
    for name in map.keys().filter(|name| !candidates.iter().any(|one| is(one, name))) {
        findings.push(Finding::new(name, "the rail map names it, but this server has no such NIC"));
    }
    let rail =
        |one: &Candidate<'_>| map.iter().find(|(name, _)| is(one, name.as_str())).map(|(_, rail)| *rail);
    candidates.iter().map(rail).collect()
}
