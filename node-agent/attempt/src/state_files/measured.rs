//! Certification as it is saved: what is to be measured, and what was.

use std::{net::Ipv6Addr, time::Duration};

use proto_model::{
    Certify, Measured, PairReport, PathMeasurement, PortGid, PortReport, PriorityBytes, RoundPart,
};

use super::{form::nanos, schema};
use crate::places::Flaw;

pub(super) fn save_certify(certify: &Certify) -> schema::Certify {
    let turn = |turn: &RoundPart| schema::Turn { round: turn.round, peer: turn.peer, first: turn.first };
    schema::Certify {
        series: certify.series,
        turns: certify.turns.iter().map(turn).collect(),
        limit_ns: nanos(certify.limit),
    }
}

pub(super) fn load_certify(saved: schema::Certify) -> Certify {
    let turn = |turn: schema::Turn| RoundPart { round: turn.round, peer: turn.peer, first: turn.first };
    Certify {
        series: saved.series,
        turns: saved.turns.into_iter().map(turn).collect(),
        limit: Duration::from_nanos(saved.limit_ns),
    }
}

pub(super) fn save(measured: &Measured) -> schema::Measured {
    schema::Measured {
        series: measured.series,
        pairs: measured.pairs.iter().map(save_pair).collect(),
        ports: measured.ports.iter().map(save_port).collect(),
        unable: measured.unable.clone(),
    }
}

pub(super) fn load(saved: schema::Measured) -> Result<Measured, Flaw> {
    Ok(Measured {
        series: saved.series,
        pairs: saved.pairs.into_iter().map(load_pair).collect::<Result<_, _>>()?,
        ports: saved.ports.into_iter().map(load_port).collect::<Result<_, _>>()?,
        unable: saved.unable,
    })
}

fn save_pair(pair: &PairReport) -> schema::Pair {
    schema::Pair {
        round: pair.round,
        peer: pair.peer,
        rail: pair.rail,
        there: Some(save_path(pair.there)),
        back: Some(save_path(pair.back)),
        rtt_us: pair.rtt_us,
        crossed: pair.crossed,
    }
}

fn load_pair(saved: schema::Pair) -> Result<PairReport, Flaw> {
    Ok(PairReport {
        round: saved.round,
        peer: saved.peer,
        rail: saved.rail,
        there: load_path(saved.there.unwrap_or_default())?,
        back: load_path(saved.back.unwrap_or_default())?,
        rtt_us: saved.rtt_us,
        crossed: saved.crossed,
    })
}

fn save_path(path: PathMeasurement) -> schema::Path {
    let PathMeasurement { sent, lost, mtu, dscp, mbps, at_least } = path;
    schema::Path { sent, lost, mtu, dscp: dscp.map(u32::from), mbps, at_least }
}

fn load_path(saved: schema::Path) -> Result<PathMeasurement, Flaw> {
    let schema::Path { sent, lost, mtu, dscp, mbps, at_least } = saved;
    Ok(PathMeasurement { sent, lost, mtu, dscp: load_dscp(dscp)?, mbps, at_least })
}

fn load_dscp(saved: Option<u32>) -> Result<Option<u8>, Flaw> {
    saved.map(|dscp| u8::try_from(dscp).map_err(|_| Flaw::field("a DSCP", dscp))).transpose()
}

fn save_port(port: &PortReport) -> schema::Port {
    let gid = |gid: PortGid| {
        let found = match gid {
            PortGid::Missing => None,
            PortGid::Found { index, gid } => Some(schema::FoundGid { index, gid: gid.octets().to_vec() }),
        };
        schema::Gid { found }
    };
    let bytes = |bytes: PriorityBytes| schema::PriorityBytes { right: bytes.right, wrong: bytes.wrong };
    schema::Port {
        rail: port.rail,
        mtu: port.mtu,
        dscp: port.dscp.map(u32::from),
        gid: port.gid.map(gid),
        priority_bytes: port.priority_bytes.map(bytes),
    }
}

fn load_port(saved: schema::Port) -> Result<PortReport, Flaw> {
    let gid = |gid: schema::Gid| {
        let Some(found) = gid.found else { return Ok(PortGid::Missing) };
        let bytes: Result<[u8; 16], _> = found.gid.as_slice().try_into();
        let bytes = bytes.map_err(|_| Flaw::field("a GID", format!("{} bytes long", found.gid.len())))?;
        Ok(PortGid::Found { index: found.index, gid: Ipv6Addr::from(bytes) })
    };
    let bytes = |bytes: schema::PriorityBytes| PriorityBytes { right: bytes.right, wrong: bytes.wrong };
    Ok(PortReport {
        rail: saved.rail,
        mtu: saved.mtu,
        dscp: load_dscp(saved.dscp)?,
        gid: saved.gid.map(gid).transpose()?,
        priority_bytes: saved.priority_bytes.map(bytes),
    })
}
