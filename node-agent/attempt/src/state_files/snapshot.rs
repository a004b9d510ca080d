//! What a supervisor knows of its attempt, as it is saved.

use std::time::Duration;

use node_agent_core::Snapshot;
use proto_model::{
    AlgorithmChoice, Named, Observed, RailBytes, RailReport, RailState, RankExit, RankUsage, Reason,
    ReasonCode, RunResult, TenantName, Timestamp,
};

use super::{
    form::{load_endpoints, nanos, save_endpoints},
    measured, schema,
};
use crate::places::Flaw;

const STATES: [(Observed, schema::Observed); 6] = [
    (Observed::Preparing, schema::Observed::Preparing),
    (Observed::Prepared, schema::Observed::Prepared),
    (Observed::Starting, schema::Observed::Starting),
    (Observed::Running, schema::Observed::Running),
    (Observed::Stopping, schema::Observed::Stopping),
    (Observed::Ended, schema::Observed::Ended),
];

const RAIL_STATES: [(Option<RailState>, schema::RailState); 6] = [
    (None, schema::RailState::Unspecified),
    (Some(RailState::Up), schema::RailState::Up),
    (Some(RailState::Draining), schema::RailState::Draining),
    (Some(RailState::Drained), schema::RailState::Drained),
    (Some(RailState::Down), schema::RailState::Down),
    (Some(RailState::Proving), schema::RailState::Proving),
];

/// What is saved for a value of a closed list; each list has all values, so that the default never shows.
fn saved<T: PartialEq, S: Copy + Default + Into<i32>>(list: &[(T, S)], value: &T) -> i32 {
    list.iter().find(|(one, _)| one == value).map_or_else(S::default, |(_, saved)| *saved).into()
}

fn loaded<T: Copy, S: Copy + Into<i32>>(list: &[(T, S)], saved: i32, name: &str) -> Result<T, Flaw> {
    let found = list.iter().find(|(_, one)| (*one).into() == saved).map(|(value, _)| *value);
    found.ok_or_else(|| Flaw::field(name, saved))
}

pub(super) fn save(snapshot: &Snapshot) -> schema::Snapshot {
    schema::Snapshot {
        state: saved(&STATES, &snapshot.state),
        endpoints: save_endpoints(&snapshot.endpoints),
        exits: snapshot.exits.iter().map(save_exit).collect(),
        cause: snapshot.cause.as_ref().map(save_reason),
        result: snapshot.result.as_ref().map(save_result),
        rails: save_bytes(&snapshot.rails),
        drained: snapshot
            .drained
            .as_ref()
            .map(|rails| schema::RailSet { rails: rails.iter().copied().collect() }),
        reports: snapshot.reports.iter().map(save_report).collect(),
        choices: snapshot.choices.iter().map(save_choice).collect(),
        measured: snapshot.measured.as_ref().map(measured::save),
    }
}

pub(super) fn load(from: schema::Snapshot) -> Result<Snapshot, Flaw> {
    Ok(Snapshot {
        state: loaded(&STATES, from.state, "the state of an attempt")?,
        endpoints: load_endpoints(from.endpoints)?,
        exits: from.exits.into_iter().map(load_exit).collect(),
        cause: from.cause.map(load_reason).transpose()?,
        result: from.result.map(load_result),
        rails: load_bytes(from.rails),
        drained: from.drained.map(|set| set.rails.into_iter().collect()),
        reports: from.reports.into_iter().map(load_report).collect::<Result<_, _>>()?,
        choices: from.choices.into_iter().map(load_choice).collect(),
        measured: from.measured.map(measured::load).transpose()?,
    })
}

fn save_exit(exit: &RankExit) -> schema::RankExit {
    schema::RankExit {
        rank: exit.rank,
        code: exit.code,
        signal: exit.signal,
        time_ms: exit.time.0,
        cpu_ns: exit.usage.cpu.map(nanos),
        memory_peak: exit.usage.memory_peak,
    }
}

fn load_exit(saved: schema::RankExit) -> RankExit {
    RankExit {
        rank: saved.rank,
        code: saved.code,
        signal: saved.signal,
        time: Timestamp(saved.time_ms),
        usage: RankUsage { cpu: saved.cpu_ns.map(Duration::from_nanos), memory_peak: saved.memory_peak },
    }
}

fn save_reason(reason: &Reason) -> schema::Reason {
    let named = |named: &Named| schema::Named {
        to: named.to.iter().map(ToString::to_string).collect(),
        message: named.message.clone(),
        scope: named.scope.clone(),
    };
    schema::Reason {
        code: reason.code.to_string(),
        message: reason.message.clone(),
        count: reason.count,
        scope: reason.scope.clone(),
        since_ms: reason.since.map(|since| since.0),
        named: reason.named.as_deref().map(named),
    }
}

fn load_reason(saved: schema::Reason) -> Result<Reason, Flaw> {
    let named = |named: schema::Named| {
        let to = named.to.iter().map(TenantName::new);
        let to = to.collect::<Result<_, _>>().map_err(|error| Flaw::Broken(error.to_string()))?;
        Ok(Box::new(Named { to, message: named.message, scope: named.scope }))
    };
    Ok(Reason {
        code: ReasonCode::from_text(&saved.code),
        message: saved.message,
        count: saved.count,
        scope: saved.scope,
        since: saved.since_ms.map(Timestamp),
        named: saved.named.map(named).transpose()?,
    })
}

fn save_result(result: &RunResult) -> schema::RunResult {
    schema::RunResult {
        ranks: result.ranks,
        bytes: result.bytes,
        iterations: result.iterations,
        time_us_min: result.time_us_min,
        time_us_median: result.time_us_median,
        time_us_max: result.time_us_max,
        alg_bw_gbps: result.alg_bw_gbps,
        bus_bw_gbps: result.bus_bw_gbps,
        verified: result.verified,
        mismatches: result.mismatches,
        rails: save_bytes(&result.rails),
    }
}

fn load_result(saved: schema::RunResult) -> RunResult {
    RunResult {
        ranks: saved.ranks,
        bytes: saved.bytes,
        iterations: saved.iterations,
        time_us_min: saved.time_us_min,
        time_us_median: saved.time_us_median,
        time_us_max: saved.time_us_max,
        alg_bw_gbps: saved.alg_bw_gbps,
        bus_bw_gbps: saved.bus_bw_gbps,
        verified: saved.verified,
        mismatches: saved.mismatches,
        rails: load_bytes(saved.rails),
    }
}

fn save_bytes(rails: &[RailBytes]) -> Vec<schema::RailBytes> {
    let save = |r: &RailBytes| schema::RailBytes { rail: r.rail, tx_bytes: r.tx_bytes, rx_bytes: r.rx_bytes };
    rails.iter().map(save).collect()
}

fn load_bytes(saved: Vec<schema::RailBytes>) -> Vec<RailBytes> {
    let load = |r: schema::RailBytes| RailBytes { rail: r.rail, tx_bytes: r.tx_bytes, rx_bytes: r.rx_bytes };
    saved.into_iter().map(load).collect()
}

fn save_report(report: &RailReport) -> schema::RailReport {
    schema::RailReport {
        rail: report.rail,
        state: saved(&RAIL_STATES, &report.state),
        since_ms: report.since.0,
        tx_bytes: report.tx_bytes,
        rx_bytes: report.rx_bytes,
        tx_rate: report.tx_rate,
        rx_rate: report.rx_rate,
        flaps: report.flaps,
        cause: report.cause.clone(),
        peers: report.peers,
        peers_up: report.peers_up,
    }
}

fn load_report(saved: schema::RailReport) -> Result<RailReport, Flaw> {
    Ok(RailReport {
        rail: saved.rail,
        state: loaded(&RAIL_STATES, saved.state, "the state of a rail")?,
        since: Timestamp(saved.since_ms),
        tx_bytes: saved.tx_bytes,
        rx_bytes: saved.rx_bytes,
        tx_rate: saved.tx_rate,
        rx_rate: saved.rx_rate,
        flaps: saved.flaps,
        cause: saved.cause,
        peers: saved.peers,
        peers_up: saved.peers_up,
    })
}

fn save_choice(choice: &AlgorithmChoice) -> schema::AlgorithmChoice {
    let AlgorithmChoice { operation, bytes, algorithm, reasons } = choice.clone();
    schema::AlgorithmChoice { operation, bytes, algorithm, reasons }
}

fn load_choice(saved: schema::AlgorithmChoice) -> AlgorithmChoice {
    let schema::AlgorithmChoice { operation, bytes, algorithm, reasons } = saved;
    AlgorithmChoice { operation, bytes, algorithm, reasons }
}
