//! What engines see of their rails. Reports are views, never decided from blindly: what is too long is cut, and a state
//! that this release does not know counts as not known.

use std::collections::BTreeSet;

use proto_model::{
    AlgorithmChoice, DesiredQos, Drain, RailProof, RailReport, RailState,
    rails::{MAX_CHOICE_REASONS, MAX_CHOICES, MAX_REPORTS, report_text},
};

use super::{FieldErrors, Fields, time_from_wire, time_to_wire};
use crate::v1::{self, rail_report::State};

const STATES: [(RailState, State); 5] = [
    (RailState::Up, State::Up),
    (RailState::Draining, State::Draining),
    (RailState::Drained, State::Drained),
    (RailState::Down, State::Down),
    (RailState::Proving, State::Proving),
];

impl From<RailState> for State {
    fn from(state: RailState) -> Self {
        STATES.iter().find(|(known, _)| *known == state).map_or(Self::Unspecified, |pair| pair.1)
    }
}

impl From<&RailReport> for v1::RailReport {
    fn from(report: &RailReport) -> Self {
        Self {
            rail: report.rail,
            state: report.state.map_or(State::Unspecified, State::from).into(),
            since: Some(time_to_wire(report.since)),
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

impl TryFrom<v1::RailReport> for RailReport {
    type Error = FieldErrors;

    fn try_from(wire: v1::RailReport) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let since = fields.nest("since", wire.since.map_or(Ok(Default::default()), time_from_wire));
        let state = STATES.iter().find(|(_, state)| *state as i32 == wire.state).map(|pair| pair.0);
        fields.finish(since.map(|since| Self {
            rail: wire.rail,
            state,
            since,
            tx_bytes: wire.tx_bytes,
            rx_bytes: wire.rx_bytes,
            tx_rate: wire.tx_rate,
            rx_rate: wire.rx_rate,
            flaps: wire.flaps,
            cause: report_text(wire.cause),
            peers: wire.peers,
            peers_up: wire.peers_up,
        }))
    }
}

impl From<&AlgorithmChoice> for v1::AlgorithmChoice {
    fn from(choice: &AlgorithmChoice) -> Self {
        Self {
            operation: choice.operation.clone(),
            bytes: choice.bytes,
            algorithm: choice.algorithm.clone(),
            reasons: choice.reasons.clone(),
        }
    }
}

impl From<v1::AlgorithmChoice> for AlgorithmChoice {
    fn from(wire: v1::AlgorithmChoice) -> Self {
        Self {
            operation: report_text(wire.operation),
            bytes: wire.bytes,
            algorithm: report_text(wire.algorithm),
            reasons: wire.reasons.into_iter().take(MAX_CHOICE_REASONS).map(report_text).collect(),
        }
    }
}

/// The rails of an observation, no more than a fabric may have.
pub(super) fn reports(fields: &mut Fields, wire: Vec<v1::RailReport>) -> Vec<RailReport> {
    fields.list("railReports", wire.into_iter().take(MAX_REPORTS).collect())
}

/// The choices of an observation, no more than are shown.
pub(super) fn choices(wire: Vec<v1::AlgorithmChoice>) -> Vec<AlgorithmChoice> {
    wire.into_iter().take(MAX_CHOICES).map(Into::into).collect()
}

/// A server's drained rails, the desired state of its class of service, and the probes that it takes part in, as a message.
#[must_use]
pub fn drained_to_wire(
    rails: &BTreeSet<u32>,
    qos: Option<&DesiredQos>,
    proofs: &[RailProof],
) -> v1::DrainedRails {
    let proofs = proofs.iter().map(Into::into).collect();
    v1::DrainedRails { rails: rails.iter().copied().collect(), qos: qos.map(Into::into), proofs }
}

impl From<&Drain> for v1::RailDrain {
    fn from(drain: &Drain) -> Self {
        Self {
            target: drain.target.to_string(),
            reason: drain.reason.clone(),
            by: drain.by.clone(),
            since: Some(time_to_wire(drain.since)),
        }
    }
}

impl TryFrom<v1::RailDrain> for Drain {
    type Error = FieldErrors;

    fn try_from(wire: v1::RailDrain) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let target = fields.take("target", wire.target.parse());
        let since = fields.present("since", wire.since);
        let since = since.and_then(|since| fields.nest("since", time_from_wire(since)));
        fields.finish(target.zip(since).map(|(target, since)| Self {
            target,
            reason: wire.reason,
            by: wire.by,
            since,
        }))
    }
}
