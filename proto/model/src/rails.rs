//! Rails in use: what engines see of them, and which of them an administrator has drained.

use std::{fmt, str::FromStr};

use crate::{NodeName, Timestamp};

/// Rails whose reports one observation carries, at most: as many as a fabric may have.
pub const MAX_REPORTS: usize = 64;
/// Choices of algorithms that one observation carries, at most.
pub const MAX_CHOICES: usize = 64;
/// Reasons of one choice, at most.
pub const MAX_CHOICE_REASONS: usize = 8;
/// Bytes of one text in a report or a choice, at most.
pub const MAX_REPORT_TEXT: usize = 256;

/// What an administrator takes out of use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DrainTarget {
    /// A rail, on every server.
    Rail(u32),
    /// A leaf switch: its rail, on every server that is cabled to it.
    Leaf(String),
    /// One server's port of a rail.
    Port {
        /// The server that the port is on.
        node: NodeName,
        /// The rail that the port is on, by number.
        rail: u32,
    },
}

impl fmt::Display for DrainTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rail(rail) => write!(f, "rail/{rail}"),
            Self::Leaf(leaf) => write!(f, "leaf/{leaf}"),
            Self::Port { node, rail } => write!(f, "node/{node}:{rail}"),
        }
    }
}

/// A text is no canonical name of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetError(String);

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not rail/NUMBER, leaf/NAME or node/NAME:NUMBER", self.0)
    }
}

impl std::error::Error for TargetError {}

impl FromStr for DrainTarget {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let wrong = || TargetError(text.to_owned());
        match text.split_once('/') {
            Some(("rail", rail)) => rail.parse().map(Self::Rail).map_err(|_| wrong()),
            Some(("leaf", leaf)) if !leaf.is_empty() => Ok(Self::Leaf(leaf.to_owned())),
            Some(("node", port)) => {
                let (node, rail) = port.rsplit_once(':').ok_or_else(wrong)?;
                let node = NodeName::new(node).map_err(|_| wrong())?;
                Ok(Self::Port { node, rail: rail.parse().map_err(|_| wrong())? })
            }
            _ => Err(wrong()),
        }
    }
}

/// Something is out of use until an administrator takes it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    /// What is out of use.
    pub target: DrainTarget,
    /// Why, in the administrator's words; may be empty.
    pub reason: String,
    /// Name of the administrator who drained it.
    pub by: String,
    /// Since when it is drained.
    pub since: Timestamp,
}

/// How an engine uses one rail of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RailState {
    /// The engine sends and receives on the rail.
    Up,
    /// Drained, and something of before is still on its way; or it is the last rail and used all the same.
    Draining,
    /// Drained, and nothing is on it.
    Drained,
    /// Its port, or every one of its links, is down.
    Down,
    /// It came back, and probes prove it before it is used.
    Proving,
}

impl RailState {
    /// All of them, with their words.
    pub const WORDS: [(Self, &'static str); 5] = [
        (Self::Up, "up"),
        (Self::Draining, "draining"),
        (Self::Drained, "drained"),
        (Self::Down, "down"),
        (Self::Proving, "proving"),
    ];

    /// Nothing moves on it and nothing will, unless it changes.
    #[must_use]
    pub fn is_off(self) -> bool {
        matches!(self, Self::Drained | Self::Down)
    }
}

impl fmt::Display for RailState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS.iter().find(|(state, _)| state == self).map_or("up", |(_, word)| word))
    }
}

/// What one engine says of one rail of its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailReport {
    /// Number of the rail.
    pub rail: u32,
    /// How it is used; `None` where nothing is known any more.
    pub state: Option<RailState>,
    /// Since when it is used so.
    pub since: Timestamp,
    /// Bytes that the engine has sent on the rail.
    pub tx_bytes: u64,
    /// Bytes that the engine has received on the rail.
    pub rx_bytes: u64,
    /// Bytes per second sent since the report before.
    pub tx_rate: u64,
    /// Bytes per second received since the report before.
    pub rx_rate: u64,
    /// How often a link of it was lost.
    pub flaps: u32,
    /// Of the last loss, in words; may be empty.
    pub cause: String,
    /// Other nodes of the job, whether or not they are reached.
    pub peers: u32,
    /// Those that are reached on it.
    pub peers_up: u32,
}

impl RailReport {
    /// The same but for what changes all the time.
    #[must_use]
    pub fn says_as(&self, other: &Self) -> bool {
        (self.rail, self.state, self.flaps, &self.cause, self.peers, self.peers_up)
            == (other.rail, other.state, other.flaps, &other.cause, other.peers, other.peers_up)
    }
}

/// How an engine carries out one kind of operation, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlgorithmChoice {
    /// Kind of the operation, for example `all-reduce`.
    pub operation: String,
    /// Greatest size of its class in bytes; a class spans a power of two.
    pub bytes: u64,
    /// Name of the algorithm, for example `direct`.
    pub algorithm: String,
    /// Every consideration, the deciding one first.
    pub reasons: Vec<String>,
}

/// A text cut to what reports may carry.
#[must_use]
pub fn report_text(mut text: String) -> String {
    if text.len() > MAX_REPORT_TEXT {
        let end = (0..=MAX_REPORT_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_survive_their_text() {
        let node = NodeName::new("n3.site").unwrap();
        for (target, text) in [
            (DrainTarget::Rail(7), "rail/7"),
            (DrainTarget::Leaf("a/b:1".into()), "leaf/a/b:1"),
            (DrainTarget::Port { node, rail: 2 }, "node/n3.site:2"),
        ] {
            assert_eq!(target.to_string(), text);
            assert_eq!(text.parse(), Ok(target));
        }
        for text in ["", "1", "rail/", "rail/-1", "leaf/", "node/n1", "node/:1", "node/n1:x", "nic/1"] {
            assert!(text.parse::<DrainTarget>().is_err(), "{text}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let cut = report_text("ä".repeat(200));
        assert_eq!(cut.len(), MAX_REPORT_TEXT);
        assert_eq!(report_text("x".repeat(300)).len(), MAX_REPORT_TEXT);
        assert_eq!(report_text("kurz".to_owned()), "kurz");
    }
}
