//! What a gang measures before its ranks start.

use proto_model::{
    Certify, Measured, PairReport, PathMeasurement, PortGid, PortReport, PriorityBytes, RoundPart,
};

use super::{Fields, duration_from_wire, duration_to_wire};
use crate::v1;

/// Pairs and rails that one server tells at most; what is beyond is dropped.
const PAIRS_MAX: usize = 1 << 16;
/// Ports that one server tells at most.
const PORTS_MAX: usize = 256;
/// Turns that one server is given at most.
const TURNS_MAX: usize = 4096;

impl From<&Certify> for v1::Certification {
    fn from(certify: &Certify) -> Self {
        let turn = |turn: &RoundPart| v1::CertificationTurn {
            round: turn.round,
            peer: turn.peer,
            first: turn.first,
        };
        Self {
            turns: certify.turns.iter().map(turn).collect(),
            limit: Some(duration_to_wire(certify.limit)),
            series: certify.series,
        }
    }
}

/// `None` only with a wrong field.
pub(super) fn certify(fields: &mut Fields, wire: v1::Certification) -> Option<Certify> {
    let limit = fields.nest("limit", duration_from_wire(wire.limit.unwrap_or_default()))?;
    let turn =
        |turn: v1::CertificationTurn| RoundPart { round: turn.round, peer: turn.peer, first: turn.first };
    let turns = wire.turns.into_iter().take(TURNS_MAX).map(turn).collect();
    Some(Certify { series: wire.series, turns, limit })
}

impl From<&Measured> for v1::Measured {
    fn from(measured: &Measured) -> Self {
        let way = |way: PathMeasurement| v1::MeasuredWay {
            packets_sent: way.sent,
            packets_lost: way.lost,
            mtu: way.mtu,
            dscp: way.dscp.map(u32::from),
            mbps: way.mbps,
            at_least: way.at_least,
        };
        let pair = |pair: &PairReport| v1::MeasuredPair {
            round: pair.round,
            peer: pair.peer,
            rail: pair.rail,
            there: Some(way(pair.there)),
            back: Some(way(pair.back)),
            rtt_us: pair.rtt_us,
            crossed: pair.crossed,
        };
        let port = |port: &PortReport| {
            let (gid_index, gid_value) = match port.gid {
                Some(PortGid::Found { index, gid }) => (index, gid.to_string()),
                _ => (0, String::new()),
            };
            v1::MeasuredPort {
                rail: port.rail,
                mtu: port.mtu,
                dscp: port.dscp.map(u32::from),
                gid: port.gid.map(|gid| gid != PortGid::Missing),
                gid_index,
                gid_value,
                right_bytes: port.priority_bytes.map(|priority_bytes| priority_bytes.right),
                wrong_bytes: port.priority_bytes.map(|priority_bytes| priority_bytes.wrong),
            }
        };
        Self {
            series: measured.series,
            pairs: measured.pairs.iter().map(pair).collect(),
            ports: measured.ports.iter().map(port).collect(),
            unable: measured.unable.clone(),
        }
    }
}

impl From<v1::Measured> for Measured {
    fn from(wire: v1::Measured) -> Self {
        let way = |way: Option<v1::MeasuredWay>| {
            let way = way.unwrap_or_default();
            PathMeasurement {
                sent: way.packets_sent,
                lost: way.packets_lost,
                mtu: way.mtu,
                dscp: way.dscp.and_then(|dscp| u8::try_from(dscp).ok()),
                mbps: way.mbps,
                at_least: way.at_least,
            }
        };
        let pair = |pair: v1::MeasuredPair| PairReport {
            round: pair.round,
            peer: pair.peer,
            rail: pair.rail,
            there: way(pair.there),
            back: way(pair.back),
            rtt_us: pair.rtt_us,
            crossed: pair.crossed,
        };
        let port = |port: v1::MeasuredPort| PortReport {
            rail: port.rail,
            mtu: port.mtu,
            dscp: port.dscp.and_then(|dscp| u8::try_from(dscp).ok()),
            gid: match port.gid {
                Some(false) => Some(PortGid::Missing),
                // Of a kind that is no GID nothing is known.
                Some(true) => {
                    port.gid_value.parse().ok().map(|gid| PortGid::Found { index: port.gid_index, gid })
                }
                None => None,
            },
            priority_bytes: port
                .right_bytes
                .zip(port.wrong_bytes)
                .map(|(right, wrong)| PriorityBytes { right, wrong }),
        };
        Self {
            series: wire.series,
            pairs: wire.pairs.into_iter().take(PAIRS_MAX).map(pair).collect(),
            ports: wire.ports.into_iter().take(PORTS_MAX).map(port).collect(),
            unable: wire.unable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_comes_back() {
        let way = PathMeasurement {
            sent: 9,
            lost: 1,
            mtu: Some(9000),
            dscp: Some(26),
            mbps: Some(7),
            at_least: true,
        };
        let pair = PairReport {
            round: 1,
            peer: 2,
            rail: 3,
            there: way,
            back: PathMeasurement::default(),
            rtt_us: Some(4),
            crossed: Some(0),
        };
        let ports = [
            PortReport { rail: 0, mtu: None, dscp: None, gid: None, priority_bytes: None },
            PortReport {
                rail: 1,
                mtu: Some(1500),
                dscp: Some(24),
                gid: Some(PortGid::Missing),
                priority_bytes: Some(PriorityBytes { right: 0, wrong: 7 }),
            },
            PortReport {
                rail: 2,
                mtu: None,
                dscp: Some(0),
                gid: Some(PortGid::Found { index: 5, gid: "::ffff:10.0.0.1".parse().unwrap() }),
                priority_bytes: None,
            },
        ];
        let measured = Measured { series: 1, pairs: vec![pair], ports: ports.to_vec(), unable: "x".into() };
        assert_eq!(Measured::from(v1::Measured::from(&measured)), measured);
    }
}
