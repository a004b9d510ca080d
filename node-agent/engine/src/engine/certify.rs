//! What the supervisor is told of measurements.

use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use node_agent_engine_transport::Transport;
use node_agent_probe::{Peer as Peers, Report, RoundPart, SERIES_ROUNDS};
use tracing::{info, warn};

use crate::certify::{Certifier, LONGEST, Series};
use crate::control::{Measured, PairView, Peer, PortView, Reply, TurnView, WayView};
use crate::engine::Engine;
use crate::index::node_index;

/// Turns of one node at most.
const MAX_TURNS: usize = 4096;

impl Engine {
    /// Begins to measure. `Some` is the answer at once; `None` means that it follows.
    pub(crate) fn certify(
        &mut self,
        token: usize,
        number: u32,
        peers: &[Peer],
        turns: &[TurnView],
        limit: Duration,
    ) -> Option<Reply> {
        let error = |error: &str| Some(Reply::Error { error: format!("certify: {error}") });
        if turns.len() > MAX_TURNS {
            return error("too many turns");
        }
        if turns.iter().any(|turn| turn.peer >= self.config.nodes.len() || turn.peer == self.config.node) {
            return error("a turn is with no peer of this node");
        }
        if turns.iter().any(|turn| turn.round / SERIES_ROUNDS != number) {
            return error("a turn is in a round of another series");
        }
        let peers = match self.wires.addresses(&self.config, peers) {
            Ok(addresses) => addresses,
            Err(why) => return error(&why),
        };
        if let Certifier::Open(thread) = &mut self.certifier
            && let Some(reply) = thread.known(token, number)
        {
            return reply;
        }
        let peers: Vec<Peers> = peers.into_iter().map(|(node, rails)| Peers { node, rails }).collect();
        let end = Instant::now() + limit.min(LONGEST);
        let series = Series { number, peers, turns: turns.iter().map(turn).collect(), end };
        match self.certifier.begin(token, series, self.rails.waker()) {
            Ok(()) => None,
            Err(why) => error(&why),
        }
    }

    /// Answers those who wait once all is measured.
    pub(crate) fn check_certifier(&mut self) {
        let Certifier::Open(thread) = &mut self.certifier else { return };
        let reply = match thread.reports.try_recv() {
            Ok(report) => {
                let measured = measured(&report);
                info!(
                    job = self.config.job,
                    series = thread.series,
                    pairs = measured.pairs.len(),
                    "rails are measured"
                );
                thread.done = Some(measured.clone());
                Reply::Measured(measured)
            }
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => {
                let why = "the probe has ended without a result";
                warn!(job = self.config.job, "{why}");
                Reply::Error { error: format!("certify: {why}") }
            }
        };
        let (waiting, last) = (std::mem::take(&mut thread.waiting), thread.last);
        if let Reply::Error { error } = &reply {
            self.certifier = Certifier::Unable(error.clone());
        } else if last {
            self.certifier.end();
        }
        for token in waiting {
            self.answer_supervisor(token, &reply);
        }
    }
}

fn turn(view: &TurnView) -> RoundPart {
    RoundPart { round: view.round, peer: node_index(view.peer), first: view.first }
}

fn measured(report: &Report) -> Measured {
    let way = |way: node_agent_probe::PathMeasurement| WayView {
        sent: way.sent,
        lost: way.lost,
        mtu: way.mtu,
        dscp: way.dscp,
        mbps: way.mbps,
        at_least: way.at_least,
    };
    let pair = |pair: &node_agent_probe::PairReport| PairView {
        round: pair.round,
        peer: pair.peer.into(),
        rail: pair.rail,
        there: way(pair.there),
        back: way(pair.back),
        rtt_us: pair.rtt_us,
        crossed: pair.crossed,
    };
    let port = |port: &node_agent_probe::PortReport| PortView { rail: port.rail, mtu: port.mtu };
    Measured {
        pairs: report.pairs.iter().map(pair).collect(),
        ports: report.ports.iter().map(port).collect(),
    }
}
