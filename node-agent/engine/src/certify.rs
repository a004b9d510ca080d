//! Certification: what this node measures with its partners before ranks start, on a thread of its own. Rails need not be
//! connected for it: one that is dead or swapped could never be, and this is how that is found.

use std::cmp::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use node_agent_engine_transport::{JobKey, TcpRails, Waker};
use node_agent_probe::{Config as ProbeConfig, Limits, Peer as Peers, Prober, Rail, Report, RoundPart};
use tracing::warn;

use crate::config::Config;
use crate::control::{Measured, Reply};
use crate::index::node_index;

/// No certification takes longer, whatever is asked for.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);
/// Partners are answered this long after all must be measured here.
pub(crate) const SERVE_ON: Duration = Duration::from_secs(2);
/// While it answers partners, the thread looks so often whether another series is asked for.
pub(crate) const CHECK: Duration = Duration::from_millis(5);

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
    pub(crate) ask: SyncSender<Series>,
    pub(crate) reports: Receiver<Report>,
    /// The series that is under way, or the last one.
    pub(crate) series: u32,
    /// The control connections that wait for it.
    pub(crate) waiting: Vec<usize>,
    /// What it showed, once it is over.
    pub(crate) done: Option<Measured>,
    /// Ranks have started meanwhile.
    pub(crate) last: bool,
}

/// What the thread is to measure.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) number: u32,
    pub(crate) peers: Vec<Peers>,
    pub(crate) turns: Vec<RoundPart>,
    pub(crate) end: Instant,
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
    pub(crate) fn begin(&mut self, token: usize, series: Series, waker: Waker) -> Result<(), String> {
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
pub(crate) fn measure(
    mut prober: Prober,
    asked: &Receiver<Series>,
    reports: &SyncSender<Report>,
    waker: &Waker,
) {
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

impl Thread {
    /// The answer for a series that is not the next one: at once, or later (`Some(None)`). `None`: it is to be measured.
    pub(crate) fn known(&mut self, token: usize, number: u32) -> Option<Option<Reply>> {
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
