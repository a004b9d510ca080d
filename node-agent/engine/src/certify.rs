//! Certification: what this node measures with its partners before ranks start, on a thread of its own. Rails need not be
//! connected for it: one that is dead or swapped could never be, and this is how that is found.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use node_agent_probe::{Config as ProbeConfig, Limits, Peer as Peers, Prober, Rail, Report, Turn};
use node_agent_transport::{JobKey, TcpRails, Transport};
use tracing::{info, warn};

use crate::config::Config;
use crate::control::{Measured, PairView, Peer, PortView, Reply, TurnView, WayView};
use crate::engine::{Engine, node_index};

/// No certification takes longer, whatever is asked for.
const LONGEST: Duration = Duration::from_secs(60);
/// Partners are answered so long after all must be measured here.
const SERVE_ON: Duration = Duration::from_secs(2);
/// Turns of one node at most.
const MAX_TURNS: usize = 4096;

/// How far it is.
#[derive(Debug)]
pub(crate) enum Certifier {
    /// Sockets are open: what peers send waits there.
    Ready(Box<Prober>),
    /// The control connections that wait, and where the report comes from.
    Running(Vec<usize>, Receiver<Report>),
    Done(Measured),
    /// It cannot be done, and why.
    Unable(String),
}

impl Certifier {
    /// Each rail is probed from the address and the port number on which it listens for TCP, so that peers know where.
    pub(crate) fn new(config: &Config, key: &JobKey, rails: &TcpRails) -> Self {
        if config.nodes.len() < 2 || config.rails.is_empty() {
            return Self::Unable("the job has one node or no rail: there is nobody to measure with".into());
        }
        let ordered = config.ordered_rails();
        let rail = |(rail, address): (&crate::config::RailConfig, _)| Rail {
            rail: rail.rail,
            address,
            device: rail.own_device(),
        };
        let bound = Prober::bind(ProbeConfig {
            node: node_index(config.node),
            key: key.derive(b"rail probe"),
            job_uid: config.uid.clone(),
            attempt: config.attempt,
            traffic_class: config.verbs.traffic_class,
            rails: ordered.iter().zip(rails.endpoints()).map(rail).collect(),
            limits: Limits::default(),
        });
        match bound {
            Ok(prober) => Self::Ready(Box::new(prober)),
            Err(error) => {
                warn!(job = config.job, "{error}");
                Self::Unable(error.to_string())
            }
        }
    }
}

impl Certifier {
    /// Ranks have started: what was not asked for by now is not measured any more, and its sockets are closed.
    pub(crate) fn end(&mut self) {
        if matches!(self, Self::Ready(_)) {
            *self = Self::Unable("ranks have started: their rails are not measured any more".into());
        }
    }
}

impl Engine {
    /// Begins to measure. `Some` is the answer at once; `None` means that it follows.
    pub(crate) fn certify(
        &mut self,
        token: usize,
        peers: &[Peer],
        turns: Vec<TurnView>,
        limit_ms: u64,
    ) -> Option<Reply> {
        let error = |error: &str| Some(Reply::Error { error: format!("certify: {error}") });
        if turns.len() > MAX_TURNS {
            return error("too many turns");
        }
        if turns.iter().any(|turn| turn.peer >= self.config.nodes.len() || turn.peer == self.config.node) {
            return error("a turn is with no peer of this node");
        }
        let peers = match self.wires.addresses(&self.config, peers) {
            Ok(addresses) => addresses,
            Err(why) => return error(&why),
        };
        let peers: Vec<Peers> = peers.into_iter().map(|(node, rails)| Peers { node, rails }).collect();
        match &mut self.certifier {
            Certifier::Unable(why) => return error(&why.clone()),
            Certifier::Done(measured) => return Some(Reply::Measured(measured.clone())),
            Certifier::Running(waiting, _) => {
                waiting.push(token);
                return None;
            }
            Certifier::Ready(_) => {}
        }
        let (send, receive) = channel();
        let waker = self.rails.waker();
        let Certifier::Ready(mut prober) =
            std::mem::replace(&mut self.certifier, Certifier::Running(vec![token], receive))
        else {
            return error("it is not ready");
        };
        let turns: Vec<Turn> = turns.iter().map(turn).collect();
        let end = Instant::now() + Duration::from_millis(limit_ms).min(LONGEST);
        let measure = move || {
            // Who waits for it may be gone: then nobody needs it.
            let _ = send.send(prober.run(&peers, &turns, end));
            waker.wake();
            // Others may still have turns with this node, and may have begun later.
            prober.serve(end + SERVE_ON);
        };
        if let Err(why) = std::thread::Builder::new().name("certify".into()).spawn(measure) {
            let text = format!("cannot start a thread: {why}");
            self.certifier = Certifier::Unable(text.clone());
            return error(&text);
        }
        None
    }

    /// Answers those who wait once all is measured.
    pub(crate) fn check_certifier(&mut self) {
        let Certifier::Running(waiting, report) = &mut self.certifier else { return };
        let report = match report.try_recv() {
            Ok(report) => Ok(measured(&report)),
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => Err("the probe has ended without a result".to_owned()),
        };
        let waiting = std::mem::take(waiting);
        let (certifier, reply) = match report {
            Ok(measured) => {
                info!(job = self.config.job, pairs = measured.pairs.len(), "rails are measured");
                (Certifier::Done(measured.clone()), Reply::Measured(measured))
            }
            Err(why) => {
                warn!(job = self.config.job, "{why}");
                (Certifier::Unable(why.clone()), Reply::Error { error: format!("certify: {why}") })
            }
        };
        self.certifier = certifier;
        for token in waiting {
            self.answer_supervisor(token, &reply);
        }
    }
}

fn turn(view: &TurnView) -> Turn {
    Turn { round: view.round, peer: node_index(view.peer), first: view.first }
}

fn measured(report: &Report) -> Measured {
    let way = |way: node_agent_probe::Way| WayView {
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
