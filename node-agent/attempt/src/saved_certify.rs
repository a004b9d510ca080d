//! The forms in which certification passes between agent, supervisor and engine (JSON).

use std::{net::Ipv6Addr, time::Duration};

use proto_model::{
    Certify, Measured, PairReport, PathMeasurement, PortGid, PortReport, PriorityBytes, RoundPart,
};
use serde::{Deserialize, Serialize};

/// What is to be measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedCertify {
    /// 0, or 1 the second time.
    #[serde(default)]
    pub series: u32,
    /// In the order of rounds.
    pub turns: Vec<SavedTurn>,
    /// All of it ends after this.
    pub limit_ms: u64,
}

/// One turn of the series: with which node this node measures in a round.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SavedTurn {
    round: u32,
    peer: u32,
    first: bool,
}

/// What was measured, in the form that the engine reports it, too.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedMeasured {
    series: u32,
    pairs: Vec<SavedPair>,
    ports: Vec<SavedPort>,
    /// Why nothing was measured; empty where something was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unable: String,
    /// Why the engine refuses, in its own text.
    #[serde(skip_serializing)]
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SavedPair {
    round: u32,
    peer: u32,
    rail: u32,
    there: SavedWay,
    back: SavedWay,
    rtt_us: Option<u32>,
    crossed: Option<u32>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SavedWay {
    sent: u32,
    lost: u32,
    mtu: Option<u32>,
    dscp: Option<u8>,
    mbps: Option<u32>,
    #[serde(default)]
    at_least: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SavedPort {
    rail: u32,
    mtu: Option<u32>,
    #[serde(default)]
    dscp: Option<u8>,
    #[serde(default)]
    gid: Option<SavedGid>,
    #[serde(default)]
    priority_bytes: Option<(u64, u64)>,
}

/// Without a GID: there is none.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SavedGid {
    found: Option<(u32, Ipv6Addr)>,
}

impl From<PortGid> for SavedGid {
    fn from(gid: PortGid) -> Self {
        let found = match gid {
            PortGid::Missing => None,
            PortGid::Found { index, gid } => Some((index, gid)),
        };
        Self { found }
    }
}

impl From<SavedGid> for PortGid {
    fn from(saved: SavedGid) -> Self {
        saved.found.map_or(Self::Missing, |(index, gid)| Self::Found { index, gid })
    }
}

impl From<&Certify> for SavedCertify {
    fn from(certify: &Certify) -> Self {
        let turn = |turn: &RoundPart| SavedTurn { round: turn.round, peer: turn.peer, first: turn.first };
        Self {
            series: certify.series,
            turns: certify.turns.iter().map(turn).collect(),
            limit_ms: u64::try_from(certify.limit.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl From<SavedCertify> for Certify {
    fn from(saved: SavedCertify) -> Self {
        let turn = |turn: SavedTurn| RoundPart { round: turn.round, peer: turn.peer, first: turn.first };
        Self {
            series: saved.series,
            turns: saved.turns.into_iter().map(turn).collect(),
            limit: Duration::from_millis(saved.limit_ms),
        }
    }
}

impl From<PathMeasurement> for SavedWay {
    fn from(way: PathMeasurement) -> Self {
        let PathMeasurement { sent, lost, mtu, dscp, mbps, at_least } = way;
        Self { sent, lost, mtu, dscp, mbps, at_least }
    }
}

impl From<SavedWay> for PathMeasurement {
    fn from(way: SavedWay) -> Self {
        let SavedWay { sent, lost, mtu, dscp, mbps, at_least } = way;
        Self { sent, lost, mtu, dscp, mbps, at_least }
    }
}

impl From<&Measured> for SavedMeasured {
    fn from(measured: &Measured) -> Self {
        let pair = |pair: &PairReport| SavedPair {
            round: pair.round,
            peer: pair.peer,
            rail: pair.rail,
            there: pair.there.into(),
            back: pair.back.into(),
            rtt_us: pair.rtt_us,
            crossed: pair.crossed,
        };
        let port = |port: &PortReport| SavedPort {
            rail: port.rail,
            mtu: port.mtu,
            dscp: port.dscp,
            gid: port.gid.map(Into::into),
            priority_bytes: port
                .priority_bytes
                .map(|priority_bytes| (priority_bytes.right, priority_bytes.wrong)),
        };
        Self {
            series: measured.series,
            pairs: measured.pairs.iter().map(pair).collect(),
            ports: measured.ports.iter().map(port).collect(),
            unable: measured.unable.clone(),
            error: None,
        }
    }
}

impl From<SavedMeasured> for Measured {
    fn from(saved: SavedMeasured) -> Self {
        let pair = |pair: SavedPair| PairReport {
            round: pair.round,
            peer: pair.peer,
            rail: pair.rail,
            there: pair.there.into(),
            back: pair.back.into(),
            rtt_us: pair.rtt_us,
            crossed: pair.crossed,
        };
        let port = |port: SavedPort| PortReport {
            rail: port.rail,
            mtu: port.mtu,
            dscp: port.dscp,
            gid: port.gid.map(Into::into),
            priority_bytes: port.priority_bytes.map(|(right, wrong)| PriorityBytes { right, wrong }),
        };
        Self {
            series: saved.series,
            pairs: saved.pairs.into_iter().map(pair).collect(),
            ports: saved.ports.into_iter().map(port).collect(),
            unable: saved.error.unwrap_or(saved.unable),
        }
    }
}
