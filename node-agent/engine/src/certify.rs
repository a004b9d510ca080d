//! Certification: what this node measures with its partners before ranks start, on a thread of its own. Rails need not be
//! connected for it: one that is dead or swapped could never be, and this is how that is found.

use std::cmp::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use node_agent_engine_transport::{JobKey, TcpRails, Transport, Waker};
use node_agent_probe::{
    Config as ProbeConfig, Limits, Peer as Peers, Prober, Rail, Report, RoundPart, SERIES_ROUNDS,
};
use tracing::{info, warn};

use crate::config::Config;
use crate::control::{Measured, PairView, Peer, PortView, Reply, TurnView, WayView};
use crate::engine::{Engine, node_index};

/// No certification takes longer, whatever is asked for.
const LONGEST: Duration = Duration::from_secs(60);
/// Partners are answered this long after all must be measured here.
const SERVE_ON: Duration = Duration::from_secs(2);
/// While it answers partners, the thread looks so often whether another series is asked for.
const CHECK: Duration = Duration::from_millis(5);
/// Turns of one node at most.
const MAX_TURNS: usize = 4096;

/// The state of measuring the rails before ranks start.
#[derive(Debug)]
pub(crate) enum Certifier {
    /// Sockets are open: what peers send waits there.
    Ready(Box<Prober>),
    /// A series is measured, or was, and there may be another one.
    Open(Thread),
    /// It cannot be done, and why.
    Unable(String),
}

/// The thread that measures. It ends, and its sockets with it, when this is dropped and no series is under way.
#[derive(Debug)]
pub(crate) struct Thread {
    ask: SyncSender<Series>,
    reports: Receiver<Report>,
    /// The series that is under way, or the last one.
    series: u32,
    /// The control connections that wait for it.
    waiting: Vec<usize>,
    /// What it showed, once it is over.
    done: Option<Measured>,
    /// Ranks have started meanwhile.
    last: bool,
}

/// What the thread is to measure.
#[derive(Debug)]
struct Series {
    number: u32,
    peers: Vec<Peers>,
    turns: Vec<RoundPart>,
    end: Instant,
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

    /// Ranks have started: what was not asked for by now is not measured any more, and its sockets are closed.
    pub(crate) fn end(&mut self) {
        match self {
            Self::Open(thread) if thread.done.is_none() => thread.last = true,
            Self::Ready(_) | Self::Open(_) => {
                *self = Self::Unable("ranks have started: their rails are not measured any more".into());
            }
            Self::Unable(_) => {}
        }
    }

    /// Begins a series, or says why it cannot be.
    fn begin(&mut self, token: usize, series: Series, waker: Waker) -> Result<(), String> {
        if let Self::Ready(_) = self
            && let Self::Ready(prober) = std::mem::replace(self, Self::Unable("it is being opened".into()))
        {
            // One at a time, and its report.
            let (ask, asked) = sync_channel(1);
            let (send, reports) = sync_channel(1);
            let thread = std::thread::Builder::new().name("certify".into());
            let thread = thread.spawn(move || measure(*prober, &asked, &send, &waker));
            *self = match thread {
                Ok(_) => {
                    let series = series.number;
                    Self::Open(Thread { ask, reports, series, waiting: Vec::new(), done: None, last: false })
                }
                Err(why) => Self::Unable(format!("cannot start a thread: {why}")),
            };
        }
        match self {
            Self::Open(thread) => {
                let number = series.number;
                thread.ask.try_send(series).map_err(|error| match error {
                    TrySendError::Full(_) => "a series is under way".to_owned(),
                    TrySendError::Disconnected(_) => "the probe has ended".to_owned(),
                })?;
                (thread.series, thread.done) = (number, None);
                thread.waiting.push(token);
                Ok(())
            }
            Self::Unable(why) => Err(why.clone()),
            Self::Ready(_) => Err("it is not ready".into()),
        }
    }
}

/// Measures one series after the other, and answers partners in between.
fn measure(mut prober: Prober, asked: &Receiver<Series>, reports: &SyncSender<Report>, waker: &Waker) {
    let mut next = asked.recv().ok();
    while let Some(Series { number, peers, turns, end }) = next.take() {
        if reports.send(prober.run(number, &peers, &turns, end)).is_err() {
            return;
        }
        waker.wake();
        // Others may still have turns with this node, and may have begun later.
        while next.is_none() && Instant::now() < end + SERVE_ON {
            prober.serve(Instant::now() + CHECK);
            match asked.try_recv() {
                Ok(series) => next = Some(series),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
        }
        if next.is_none() {
            // What peers send waits in the sockets until this node is to measure, too.
            next = asked.recv().ok();
        }
    }
}

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

impl Thread {
    /// The answer for a series that is not the next one: at once, or later (`Some(None)`). `None`: it is to be measured.
    fn known(&mut self, token: usize, number: u32) -> Option<Option<Reply>> {
        let refuse = |why: String| Some(Some(Reply::Error { error: format!("certify: {why}") }));
        match (&self.done, number.cmp(&self.series)) {
            (_, Ordering::Less) => refuse(format!("series {number} is over")),
            (Some(measured), Ordering::Equal) => Some(Some(Reply::Measured(measured.clone()))),
            (None, Ordering::Equal) => {
                self.waiting.push(token);
                Some(None)
            }
            (None, Ordering::Greater) => refuse(format!("series {} is under way", self.series)),
            (Some(_), Ordering::Greater) => None,
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
