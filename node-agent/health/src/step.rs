//! The decision: what follows from one event.

use std::time::Duration;

use proto_model::Timestamp;

use crate::{
    board::{ActiveCondition, Change},
    condition::{Condition, DetectorResult, Evidence, Fact, Finding, Severity},
    counter_kind::CounterKind,
    judge::{
        rates::Gauge,
        slow::{Peer, compare},
    },
    port::Port,
    sample::{PortKey, ReadFailure, Sample},
    state::{JOBS_MAX, JobUse, State},
};

/// How long most rails must have been unfit before the server is: rails are drained first.
const NODE_SETTLE: Duration = Duration::from_secs(10);
/// A rule that two rails broke within this time they broke together.
const TOGETHER: Duration = Duration::from_secs(10);

static ABSENT: Fact = Fact {
    id: "Absent",
    what: "looks without the device",
    unit: "",
    source: "NVSentinel: 3",
    hint: "the device is not on its bus: look at the kernel's log, its power and its slot",
};
static FAILURES: Fact = Fact {
    id: "ReadFailures",
    what: "failures to read in a row",
    unit: "",
    source: "as for a device that is absent",
    hint: "its firmware does not answer its driver; it is asked less and less, at most every 5 minutes",
};
/// The facts that verdicts of this module can state.
pub(crate) const FACTS: [&Fact; 2] = [&ABSENT, &FAILURES];

/// What happens to the server's ports and jobs.
#[derive(Debug)]
pub enum Event<'a> {
    /// A port was read.
    Sample(Sample<'a>),
    /// A port could not be read.
    Failed {
        /// The port that could not be read.
        port: &'a PortKey,
        /// Why it could not be read.
        why: ReadFailure,
    },
    /// All ports that were to be read have been: now rails are compared, and verdicts follow.
    Round,
    /// Which jobs are on this server now, all of them.
    Jobs(Vec<JobUse>),
    /// Where a port's cable leads, said by somebody who knows the plan; agents know none, and controllers find such cables by themselves.
    Cabling {
        /// The port that the cable is at.
        port: &'a PortKey,
        /// The rail that is planned.
        planned: u32,
        /// The rail that was found at the cable's other end; `None` where none was.
        heard: Option<u32>,
    },
    /// A probe of a rail's whole path begins: counters of loss or damage must not rise until it has ended.
    Probing {
        /// The port whose rail is probed.
        port: &'a PortKey,
    },
    /// A probe of a rail's whole path ended. One that passed counts at once where there was no [`Event::Probing`], and else when
    /// counters have been read: [`Verdict::Probe`].
    Probed {
        /// The port whose rail was probed.
        port: &'a PortKey,
        /// Whether the probe passed.
        passed: bool,
    },
    /// The link of a port will go down and up: its configuration is being changed.
    Expected {
        /// The port whose configuration is being changed.
        port: &'a PortKey,
        /// The end of the time for which that is expected.
        until: Timestamp,
    },
}

/// What the agent should report, or do.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// One condition of one rail has changed.
    Rail(RailVerdict),
    /// Of the whole server: most of its rails are unfit, and have been drained before.
    Node {
        /// True: no new job should be placed here. False: it is fit again.
        drain: bool,
        /// Number of rails that are unfit.
        unfit: u32,
        /// Number of all rails of the server.
        rails: u32,
    },
    /// Counters have been read after a probe that passed.
    Probe {
        /// The port whose rail was probed.
        port: PortKey,
        /// It counts; or what rose while it lasted.
        outcome: Result<(), CounterKind>,
    },
}

/// What became of one condition of one rail.
#[derive(Debug, Clone, PartialEq)]
pub struct RailVerdict {
    /// The port that has the condition.
    pub port: PortKey,
    /// Name of the RDMA device, as it is now.
    pub device: String,
    /// Number of the rail that the port is on.
    pub rail: u32,
    /// The condition that has changed.
    pub condition: Condition,
    /// How the condition has changed.
    pub change: Change,
    /// The condition as it is, or was.
    pub held: ActiveCondition,
    /// True: no new job should use the rail.
    pub drain: bool,
}

/// What follows from `event`. Deterministic and total; verdicts come with [`Event::Round`] and [`Event::Jobs`] only.
pub fn step(state: &mut State, event: &Event<'_>, now: Timestamp) -> Vec<Verdict> {
    match event {
        Event::Sample(sample) => {
            let wanted = state.wanted(sample.rail);
            let State { config, ports, .. } = state;
            // The common case needs no copy of anything.
            if let Some(port) = ports.get_mut(sample.port) {
                port.take(sample, wanted, config);
            } else if state.port_mut(sample.port).is_some() {
                return step(state, event, now);
            }
        }
        Event::Failed { port, why } => failed(state, port, *why, now),
        Event::Round => return round(state, now),
        Event::Jobs(jobs) => return assign(state, jobs),
        Event::Cabling { port, planned, heard } => {
            if let Some(port) = state.port_mut(port) {
                port.detectors.swap.on_report(*planned, *heard, now);
            }
        }
        Event::Probing { port } => {
            if let Some(port) = state.port_mut(port) {
                port.probing();
            }
        }
        Event::Probed { port, passed } => {
            if let Some(port) = state.port_mut(port) {
                if *passed { port.probed(now) } else { port.probe_failed() }
            }
        }
        Event::Expected { port, until } => {
            if let Some(port) = state.port_mut(port) {
                port.excuse(*until);
            }
        }
    }
    Vec::new()
}

fn failed(state: &mut State, key: &PortKey, why: ReadFailure, now: Timestamp) {
    let limits = (state.config.limits.absent, state.config.limits.failures);
    let Some(port) = state.port_mut(key) else { return };
    let (fact, condition, severity, limit) = if why == ReadFailure::Absent {
        port.backoff.absent();
        (&ABSENT, Condition::Gone, Severity::Drain, limits.0)
    } else {
        port.backoff.failed(now);
        (&FAILURES, Condition::Unreadable, Severity::Degraded, limits.1)
    };
    port.detectors.load.forget();
    let failures = port.backoff.failures;
    if failures >= limit {
        let (value, limit) = (f64::from(failures), f64::from(limit) - 1.0);
        let evidence = Evidence { fact, value, limit, over: Duration::ZERO };
        port.say(condition, DetectorResult::Bad(Finding { severity, evidence }));
    }
}

/// Other jobs: what only a job can have is over where it has gone, and no comparison goes on.
fn assign(state: &mut State, jobs: &[JobUse]) -> Vec<Verdict> {
    let jobs: Vec<JobUse> = jobs.iter().take(JOBS_MAX).cloned().collect();
    if state.jobs.as_ref() == Some(&jobs) {
        return Vec::new();
    }
    state.jobs = Some(jobs);
    let idle: Vec<PortKey> = state
        .ports
        .iter()
        .filter(|(_, port)| state.wanted(port.rail).is_none())
        .map(|(key, _)| key.clone())
        .collect();
    let mut verdicts = Vec::new();
    for (key, port) in &mut state.ports {
        port.detectors.slow = crate::judge::slow::Slow::default();
        port.detectors.load.forget();
        if idle.contains(key)
            && let Some(change) = port.board.drop_of(Condition::WrongPriority)
        {
            verdicts.push(verdict(key, port, Condition::WrongPriority, change));
        }
    }
    verdicts
}

fn round(state: &mut State, now: Timestamp) -> Vec<Verdict> {
    compare_rails(state);
    on_shared(state, now);
    on_cables(state, now);
    let State { config, ports, .. } = state;
    let mut verdicts = Vec::new();
    for (key, port) in ports {
        if let Some(outcome) = port.judge_probe(now) {
            verdicts.push(Verdict::Probe { port: key.clone(), outcome });
        }
        let (covered, checks) = (std::mem::take(&mut port.covered), std::mem::take(&mut port.checks));
        for (condition, check) in Condition::ALL.into_iter().zip(checks) {
            if let Some(change) = port.board.take(condition, check, covered, now, &config.limits) {
                verdicts.push(verdict(key, port, condition, change));
            }
        }
    }
    verdicts.extend(judge_node(state, now));
    verdicts
}

fn verdict(
    key: &PortKey,
    port: &Port,
    condition: Condition,
    (change, held): (Change, ActiveCondition),
) -> Verdict {
    Verdict::Rail(RailVerdict {
        port: key.clone(),
        device: port.device.clone(),
        rail: port.rail,
        condition,
        change,
        held,
        drain: port.board.worst() == Some(Severity::Drain),
    })
}

/// Compares rails that the same jobs use.
fn compare_rails(state: &mut State) {
    let limits = &state.config.limits;
    let second = Duration::from_millis(500);
    let known = state.jobs.is_some();
    let mut all: Vec<(u64, &PortKey, Peer)> = Vec::with_capacity(state.ports.len());
    for (key, port) in &state.ports {
        let jobs = state.jobs_of(port.rail);
        let carries = port.covered.0 > 0 && port.link != Some(false) && !port.detectors.load.is_silent();
        let fresh = carries && (jobs != 0 || !known);
        let rates = fresh
            .then(|| port.detectors.load.rate(second).zip(port.detectors.load.rate(limits.slow_over)))
            .flatten();
        let line = port.speed_mbps as f64 * 125_000.0;
        if let Some((now, mean)) = rates {
            all.push((jobs, key, Peer { now, mean, line, cnps: port.detectors.load.cnps() }));
        }
    }
    let mut shares = Vec::with_capacity(all.len());
    let mut groups: Vec<u64> = all.iter().map(|(jobs, ..)| *jobs).collect();
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        let members = all.iter().filter(|(jobs, ..)| *jobs == group);
        let (keys, peers): (Vec<&PortKey>, Vec<Peer>) = members.map(|(_, key, peer)| (*key, *peer)).unzip();
        compare(&peers, known, limits, |at, share| shares.push((keys[at].clone(), share)));
    }
    let State { config, ports, .. } = state;
    // A sample without the counters does not end what the others have shown.
    let checked = |port: &Port| port.covered.0 > 0 && !port.detectors.load.is_silent();
    for (key, port) in ports.iter_mut().filter(|(_, port)| checked(port)) {
        let share = shares.iter().find(|(other, _)| other == key).map(|(_, share)| *share);
        let check = port.detectors.slow.check(share, port.covered.0, &config.limits);
        port.say(Condition::Slow, check);
    }
}

/// Says what rails have shown alone; where most rails of the same jobs show it, it is no rail's doing.
fn on_shared(state: &mut State, now: Timestamp) {
    let broken = |port: &Port| {
        port.detectors.gauges.iter().any(|gauge| gauge.rule.shared && gauge.broken_since.is_some())
    };
    if !state.ports.values().any(broken) {
        return;
    }
    let settle = state.config.limits.settle;
    let jobs: Vec<u64> = state.ports.values().map(|port| state.jobs_of(port.rail)).collect();
    for (rule, _) in state.config.rules.iter().filter(|(rule, _)| rule.shared) {
        let gauge = |port: &Port| {
            let gauge = port.detectors.gauges.iter().find(|gauge| std::ptr::eq(gauge.rule, *rule))?;
            Some((gauge.broken?, gauge.broken_since))
        };
        let lately: Vec<bool> = state
            .ports
            .values()
            .map(|port| gauge(port).is_some_and(|((at, _), _)| now.since(at) <= TOGETHER))
            .collect();
        for (at, port) in state.ports.values_mut().enumerate() {
            let peers = (0..jobs.len()).filter(|other| jobs[at] == 0 || jobs[*other] == jobs[at]);
            let (all, together) =
                peers.fold((0, 0), |(all, same), other| (all + 1, same + usize::from(lately[other])));
            let alone = together < 2 || together * 2 < all;
            let Some(((_, finding), Some(since))) = gauge(port) else { continue };
            if now.since(since) < settle {
                continue;
            }
            if alone {
                port.say(rule.condition, DetectorResult::Bad(finding));
            }
            port.detectors
                .gauges
                .iter_mut()
                .filter(|gauge| std::ptr::eq(gauge.rule, *rule))
                .for_each(Gauge::decided);
        }
    }
}

/// Says where cables lead; two that lead to each other's rail are exchanged.
fn on_cables(state: &mut State, now: Timestamp) {
    let heard: Vec<(u32, u32)> = state.ports.values().filter_map(|port| port.detectors.swap.heard).collect();
    let State { config, ports, .. } = state;
    for port in ports.values_mut() {
        let exchanged =
            port.detectors.swap.heard.is_some_and(|(rail, planned)| heard.contains(&(planned, rail)));
        let check = port.detectors.swap.check(exchanged, now, &config.limits);
        port.say(Condition::Swapped, check);
    }
}

/// The server itself is unfit where all of its rails are, or half of them by the host's own doing, and were drained
/// before.
fn judge_node(state: &mut State, now: Timestamp) -> Option<Verdict> {
    let count = |by: &dyn Fn(Condition) -> bool| {
        let unfit = |port: &&Port| {
            port.board.held().any(|(condition, held)| held.severity == Severity::Drain && by(condition))
        };
        state.ports.values().filter(unfit).count()
    };
    let (rails, unfit) = (state.ports.len(), count(&|_| true));
    let of_host = count(&Condition::is_of_host);
    let bad = rails > 0 && (unfit == rails || of_host >= 2 && of_host * 2 >= rails);
    let report = |drain| {
        let number = |n| u32::try_from(n).unwrap_or(u32::MAX);
        Some(Verdict::Node { drain, unfit: number(unfit), rails: number(rails) })
    };
    if !bad {
        state.most_unfit = None;
        return state.node_bad.take().and_then(|_| report(false));
    }
    let since = *state.most_unfit.get_or_insert(now);
    if state.node_bad.is_none() && now.since(since) >= NODE_SETTLE {
        state.node_bad = Some(now);
        return report(true);
    }
    None
}
