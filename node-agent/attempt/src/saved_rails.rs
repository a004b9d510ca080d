//! The forms in which reports of rails pass between supervisor and agent (JSON).

use proto_model::{AlgorithmChoice, RailReport, RailState, Timestamp};
use serde::{Deserialize, Serialize};

/// What the engine sees of one rail.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedReport {
    rail: u32,
    state: Option<String>,
    since_ms: u64,
    tx_bytes: u64,
    rx_bytes: u64,
    tx_rate: u64,
    rx_rate: u64,
    flaps: u32,
    cause: String,
    peers: u32,
    peers_up: u32,
}

/// How one kind of operation is carried out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedChoice {
    operation: String,
    bytes: u64,
    algorithm: String,
    reasons: Vec<String>,
}

impl From<&RailReport> for SavedReport {
    fn from(report: &RailReport) -> Self {
        Self {
            rail: report.rail,
            state: report.state.map(|state| state.to_string()),
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
}

impl From<SavedReport> for RailReport {
    fn from(saved: SavedReport) -> Self {
        let word = saved.state.unwrap_or_default();
        Self {
            rail: saved.rail,
            state: RailState::WORDS.iter().find(|(_, known)| *known == word).map(|pair| pair.0),
            since: Timestamp(saved.since_ms),
            tx_bytes: saved.tx_bytes,
            rx_bytes: saved.rx_bytes,
            tx_rate: saved.tx_rate,
            rx_rate: saved.rx_rate,
            flaps: saved.flaps,
            cause: saved.cause,
            peers: saved.peers,
            peers_up: saved.peers_up,
        }
    }
}

impl From<&AlgorithmChoice> for SavedChoice {
    fn from(choice: &AlgorithmChoice) -> Self {
        let AlgorithmChoice { operation, bytes, algorithm, reasons } = choice.clone();
        Self { operation, bytes, algorithm, reasons }
    }
}

impl From<SavedChoice> for AlgorithmChoice {
    fn from(saved: SavedChoice) -> Self {
        let SavedChoice { operation, bytes, algorithm, reasons } = saved;
        Self { operation, bytes, algorithm, reasons }
    }
}
