//! The health of every rail: a thread that reads counters once a second, and what it reports.
//!
//! A thread of its own, because reading a counter may wait for a NIC's firmware; nothing else of the agent does.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use node_agent_attempt::places::Places;
use node_agent_health::{
    ActiveCondition, Condition, Config, CounterKind, Event, JobUse, PortKey, State, Verdict,
    conditions_score, counter_kind::PerWord, score, step,
};
use node_agent_host::{
    counters::{FolderStatistics, KernelStatistics, OpenStatistics, Poller},
    sysfs::Tree,
};
use node_agent_netlink::RealKernel;
use node_agent_qos_apply::{flaps::Flaps, keep::Faults};
use proto_model::{
    Nic, NicCondition, NicConditionCode, NicHealth, NicProbe, ProbeOutcome, Severity, Timestamp,
};
use tokio::sync::watch;

use super::{
    metrics::AgentMetrics,
    notifications::{Counted, Notifications, Totals},
};
use crate::saved_health;

/// How often counters are read.
const EVERY: Duration = Duration::from_secs(1);
/// How often series for Prometheus are brought up to date: it asks every 15 s or so.
const REPORT: u32 = 5;
/// A port that was read longer ago, in milliseconds, cannot be read now.
const READ: u64 = 5_000;
/// The condition of a NIC whose class of service is not as its profile says.
static CLASS_OF_SERVICE: NicConditionCode = NicConditionCode::ClassOfService;
/// Notes that wait for the thread.
const NOTES: usize = 16;

/// What the agent sends to the thread.
#[derive(Debug)]
pub enum Note {
    /// The NICs of this server, all of them.
    Nics(Vec<Nic>),
    /// The jobs of this server, all of them.
    Jobs(Vec<JobUse>),
    /// A probe of this NIC's path begins.
    Probing(String),
    /// The outcome of a probe of this NIC.
    Probed(String, NicProbe),
}

/// Where counters are, and what is kept.
#[derive(Debug, Clone)]
pub struct CounterPaths {
    /// Below it lies `sys`; `/`, or a recorded server.
    pub root: PathBuf,
    /// Conditions that outlive the agent.
    pub kept: Places,
    /// What is wrong with the class of service of NICs, where somebody keeps it.
    pub faults: watch::Receiver<Faults>,
    /// Links that somebody here takes down.
    pub flaps: watch::Receiver<Flaps>,
}

/// The connection to the health thread: what it is sent, and what it reports.
#[derive(Debug)]
pub struct Watcher {
    notes: SyncSender<Note>,
    /// The NICs of this server, where they could not be sent to the thread because it was behind.
    due: Option<Vec<Nic>>,
    /// What is wrong with NICs, by device; changes only with a verdict.
    pub reported: watch::Receiver<Vec<NicHealth>>,
    /// Congestion notifications of each rail's NIC, every few seconds.
    pub notifications: watch::Receiver<Counted>,
}

impl Watcher {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn start(place: CounterPaths, nics: &[Nic], metrics: AgentMetrics) -> std::io::Result<Self> {
        let (notes, received) = sync_channel(NOTES);
        let (notify, reported) = watch::channel(Vec::new());
        let (notified, notifications) = watch::channel((Instant::now(), Vec::new()));
        let mut watching = Watching::new(place, metrics, notify, notified);
        watching.poller.watch(nics);
        // What was wrong before a restart still is: the first registration says so.
        watching.notify.send_replace(watching.report());
        thread::Builder::new().name("health".to_owned()).spawn(move || watching.run(&received))?;
        Ok(Self { notes, due: None, reported, notifications })
    }

    /// A way to the thread for one that may wait for it.
    pub fn notes(&self) -> SyncSender<Note> {
        self.notes.clone()
    }

    /// Sends it to the thread; false if the thread is behind, and it should be sent again later.
    pub fn note(&self, note: Note) -> bool {
        !matches!(self.notes.try_send(note), Err(TrySendError::Full(_)))
    }

    /// Tells the thread which NICs there are; if it is behind, [`Watcher::repeat`] does.
    pub fn nics(&mut self, nics: &[Nic]) {
        let reported = self.note(Note::Nics(nics.to_vec()));
        self.due = (!reported).then(|| nics.to_vec());
    }

    /// Sends what could not be sent before.
    pub fn repeat(&mut self) {
        if let Some(nics) = self.due.take() {
            self.nics(&nics);
        }
    }
}

struct Watching {
    state: State,
    poller: Poller,
    place: CounterPaths,
    metrics: AgentMetrics,
    notify: watch::Sender<Vec<NicHealth>>,
    notifications: Notifications,
    notified: watch::Sender<Counted>,
    /// Wall clock at the start, and the clock that never steps.
    begun: (u64, Instant),
    /// What has been counted in the series already.
    counted: BTreeMap<PortKey, PerWord<u64>>,
    /// What is wrong with the class of service, by network device, and since when.
    faults: BTreeMap<String, (Severity, String, Timestamp)>,
    /// The last probe of each port.
    probes: BTreeMap<PortKey, NicProbe>,
    /// Probes that passed, until counters have been read.
    passed: BTreeMap<PortKey, NicProbe>,
    /// What a probe would end, as was reported.
    wanted: Vec<(PortKey, Condition)>,
}

impl Watching {
    fn new(
        place: CounterPaths,
        metrics: AgentMetrics,
        notify: watch::Sender<Vec<NicHealth>>,
        notified: watch::Sender<Counted>,
    ) -> Self {
        let real = place.root.as_os_str() == "/";
        let statistics: Box<dyn OpenStatistics> = if real {
            Box::new(KernelStatistics::new(Arc::new(RealKernel::new())))
        } else {
            Box::new(FolderStatistics::new(&place.root))
        };
        let poller = Poller::new(Tree::new(&place.root), statistics);
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let begun = (u64::try_from(wall.as_millis()).unwrap_or(0), Instant::now());
        let uptime = uptime(&Tree::new("/")).unwrap_or(Duration::MAX);
        let booted = Timestamp(begun.0.saturating_sub(u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX)));
        let mut state = State::new(Config { booted, ..Config::default() });
        match saved_health::read(&place.kept) {
            Ok(Some(held)) => state.restore(held, Timestamp(begun.0)),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "what was wrong with NICs is not known any more"),
        }
        Self {
            state,
            poller,
            place,
            metrics,
            notify,
            notifications: Notifications::default(),
            notified,
            begun,
            counted: BTreeMap::new(),
            faults: BTreeMap::new(),
            probes: BTreeMap::new(),
            passed: BTreeMap::new(),
            wanted: Vec::new(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp(
            self.begun
                .0
                .saturating_add(u64::try_from(self.begun.1.elapsed().as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// Until the agent ends.
    fn run(mut self, notes: &Receiver<Note>) {
        let (mut next, mut checks) = (Instant::now(), 0_u32);
        loop {
            match notes.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Note::Nics(nics)) => self.poller.watch(&nics),
                Ok(Note::Jobs(jobs)) => {
                    let now = self.now();
                    let verdicts = step(&mut self.state, &Event::Jobs(jobs), now);
                    self.judge(&verdicts);
                }
                Ok(Note::Probing(device)) => self.probing(&device),
                Ok(Note::Probed(device, probe)) => self.probed(&device, probe),
                Err(RecvTimeoutError::Timeout) => {
                    self.check(self.now());
                    if checks.is_multiple_of(REPORT) {
                        self.count();
                        self.count_notifications(self.now());
                    }
                    checks = checks.wrapping_add(1);
                    // A check that took long is not made up for.
                    next = (next + EVERY).max(Instant::now());
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn check(&mut self, now: Timestamp) {
        self.on_flaps(now);
        let verdicts = self.poller.check(&mut self.state, now);
        let wanted = self.wanted();
        let news = self.on_faults(now) | (wanted != self.wanted);
        self.wanted = wanted;
        if news && verdicts.is_empty() {
            self.report_all();
        }
        self.judge(&verdicts);
    }

    /// What a probe that passes now would end.
    fn wanted(&self) -> Vec<(PortKey, Condition)> {
        let held =
            self.state.ports().flat_map(|(key, port)| port.board.held().map(move |one| (key, port, one.0)));
        let wanted = held.filter(|(_, port, condition)| port.board.wants_probe(*condition));
        wanted.map(|(key, _, condition)| (key.clone(), condition)).collect()
    }

    fn key_of(&self, device: &str) -> Option<PortKey> {
        self.poller.ports().find(|(nic, _)| nic.device == device).map(|(_, key)| key.clone())
    }

    fn probing(&mut self, device: &str) {
        let Some(port) = self.key_of(device) else { return };
        let now = self.now();
        step(&mut self.state, &Event::Probing { port: &port }, now);
    }

    /// A probe ended. That it passed is reported once counters have been read.
    fn probed(&mut self, device: &str, probe: NicProbe) {
        let Some(port) = self.key_of(device) else { return };
        let (now, passed) = (self.now(), probe.outcome == ProbeOutcome::Passed);
        step(&mut self.state, &Event::Probed { port: &port, passed }, now);
        if passed {
            self.passed.insert(port, probe);
        } else {
            self.passed.remove(&port);
            self.report_probe(port, probe);
            self.report_all();
        }
    }

    fn report_probe(&mut self, port: PortKey, probe: NicProbe) {
        let NicProbe { peer, outcome, message, .. } = &probe;
        let device = self.state.port(&port).map_or("", |port| port.device.as_str());
        tracing::info!(device, %peer, %outcome, "probe of a rail that is out of use: {message}");
        self.metrics.nic_probes.inc([device, outcome.as_str()]);
        self.probes.insert(port, probe);
    }

    fn judge(&mut self, verdicts: &[Verdict]) {
        if verdicts.is_empty() {
            return;
        }
        for verdict in verdicts {
            match verdict {
                Verdict::Rail(one) => {
                    let (device, rail, drain) = (&one.device, one.rail, one.drain);
                    let (condition, severity) = (one.condition.code(), one.held.severity.name());
                    tracing::warn!(
                        device, rail, condition, severity, drain, change = ?one.change, "{}", one.held.evidence
                    );
                }
                Verdict::Node { drain, unfit, rails } => {
                    tracing::warn!(drain, unfit, rails, "rails of this server that are unfit");
                }
                Verdict::Probe { port, outcome } => {
                    let Some(mut probe) = self.passed.remove(port) else { continue };
                    if let Err(word) = outcome {
                        probe.outcome = ProbeOutcome::Failed;
                        probe.message = format!("{}, but its NIC counted {word} meanwhile", probe.message);
                    }
                    self.report_probe(port.clone(), probe);
                }
            }
        }
        self.report_all();
    }

    /// Links that are taken down here are no sign of their cable.
    fn on_flaps(&mut self, now: Timestamp) {
        if !self.place.flaps.has_changed().unwrap_or(false) {
            return;
        }
        let flaps = self.place.flaps.borrow_and_update().clone();
        for (netdev, until) in flaps {
            let Some((_, port)) = self.poller.ports().find(|(nic, _)| nic.netdev == netdev) else { continue };
            let until = now.plus(until.saturating_duration_since(Instant::now()));
            step(&mut self.state, &Event::Expected { port, until }, now);
        }
    }

    /// Whether what is wrong with the class of service is other than it was.
    fn on_faults(&mut self, now: Timestamp) -> bool {
        if !self.place.faults.has_changed().unwrap_or(false) {
            return false;
        }
        let heard = self.place.faults.borrow_and_update().clone();
        let old = std::mem::take(&mut self.faults);
        let since = |netdev: &String| old.get(netdev).map_or(now, |(_, _, since)| *since);
        let entry = |(netdev, (severity, text)): (String, (Severity, String))| {
            let since = since(&netdev);
            (netdev, (severity, text, since))
        };
        self.faults = heard.into_iter().map(entry).collect();
        true
    }

    fn report_all(&mut self) {
        // A probe belongs to what it was to prove.
        let state = &self.state;
        self.probes.retain(|key, _| state.port(key).is_some_and(|port| port.board.held().next().is_some()));
        let reported = self.report();
        if *self.notify.borrow() == reported {
            return;
        }
        if let Err(error) = saved_health::write(&self.place.kept, self.state.kept()) {
            tracing::warn!(%error, "what is wrong with NICs would be forgotten by a restart");
        }
        self.notify.send_replace(reported);
        self.count();
    }

    /// What is wrong, by device; scores are those of the conditions, so that they change only with them.
    fn report(&self) -> Vec<NicHealth> {
        let mut all: Vec<NicHealth> = self
            .poller
            .ports()
            .filter_map(|(nic, key)| {
                let port = self.state.port(key);
                let condition = |(condition, held): (Condition, &ActiveCondition)| NicCondition {
                    code: condition.into(),
                    severity: held.severity,
                    message: held.reported(condition),
                    since: held.since,
                    probe: port.is_some_and(|port| port.board.wants_probe(condition)),
                };
                // Notes come and go with what applications do; the agent's metrics have them.
                let held = port.into_iter().flat_map(|port| port.board.held());
                let hurts = held.filter(|(_, held)| held.severity > Severity::Note);
                let mut conditions: Vec<NicCondition> = hurts.map(condition).collect();
                let mut score = port.map_or(100, conditions_score);
                if let Some((severity, message, since)) = self.faults.get(&nic.netdev) {
                    score = if *severity == Severity::Drain { 0 } else { score };
                    let (code, message) = (CLASS_OF_SERVICE.clone(), message.clone());
                    let (severity, since) = (*severity, *since);
                    conditions.push(NicCondition { code, severity, message, since, probe: false });
                }
                let (device, probe) = (nic.device.clone(), self.probes.get(key).cloned());
                (!conditions.is_empty()).then_some(NicHealth { device, score, conditions, probe })
            })
            .collect();
        all.sort_by(|a, b| a.device.cmp(&b.device));
        all
    }

    fn count(&mut self) {
        let metrics = &self.metrics;
        metrics.nic_score.clear();
        metrics.nic_unfit.clear();
        metrics.nic_condition.clear();
        for (key, port) in self.state.ports().filter(|(_, port)| !port.device.is_empty()) {
            let rail = port.rail.to_string();
            let of = [port.device.as_str(), rail.as_str()];
            let nic = self.poller.ports().find(|(_, other)| *other == key).map(|(nic, _)| nic);
            let fault = nic.and_then(|nic| self.faults.get(&nic.netdev)).map(|(severity, ..)| *severity);
            let worst = port.board.worst().max(fault);
            let value = if fault == Some(Severity::Drain) { 0 } else { score(port).value };
            metrics.nic_score.set(of, i64::from(value));
            metrics.nic_unfit.set(of, i64::from(worst == Some(Severity::Drain)));
            let held = port.board.held().map(|(condition, held)| (condition.code(), held.severity));
            for (code, severity) in held.chain(fault.map(|severity| (CLASS_OF_SERVICE.as_str(), severity))) {
                let severity = match severity {
                    Severity::Note => 1,
                    Severity::Degraded => 2,
                    Severity::Drain => 3,
                };
                metrics.nic_condition.set([of[0], of[1], code], severity);
            }
            let counted = self.counted.entry(key.clone()).or_default();
            for word in CounterKind::ALL {
                let more = port.totals[word].saturating_sub(counted[word]);
                // Also 0, so that a series is there before its first event.
                metrics.nic_events.inc_by([of[0], of[1], word.name()], more);
            }
            *counted = port.totals;
        }
        self.counted.retain(|key, _| self.state.port(key).is_some());
    }

    /// What each rail's NIC has counted of congestion; of two on one rail, both together.
    fn count_notifications(&mut self, now: Timestamp) {
        let mut rails: BTreeMap<u32, Totals> = BTreeMap::new();
        for (_, port) in self.state.ports().filter(|(_, port)| !port.device.is_empty()) {
            // Of one that cannot be read now, what it counted before says nothing.
            let is_read = now.0.saturating_sub(port.seen_at().0) <= READ;
            let total = |kind| (is_read && port.counts(kind)).then(|| port.totals[kind]);
            let own = Totals { sent: total(CounterKind::CnpSent), received: total(CounterKind::CnpGot) };
            let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
            rails
                .entry(port.rail)
                .and_modify(|all| {
                    *all =
                        Totals { sent: both(all.sent, own.sent), received: both(all.received, own.received) };
                })
                .or_insert(own);
        }
        let at = u64::try_from(self.begun.1.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.notifications.take(at, &rails);
        self.notified.send_replace((Instant::now(), self.notifications.report()));
    }
}

/// How long the server has been up.
fn uptime(tree: &Tree) -> Option<Duration> {
    let text = tree.text("proc/uptime")?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests;
