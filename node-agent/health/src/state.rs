//! Everything that is known of a server's rails, and what was asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proto_model::{JobUid, Timestamp};

use crate::{
    board::ActiveCondition,
    condition::{Condition, Severity},
    config::Config,
    judge::priority::Wanted,
    port::Port,
    sample::PortKey,
};

/// More ports than any server has; of more, those that have been away longest are forgotten.
pub const PORTS_MAX: usize = 64;
/// Jobs on one server that are told apart.
pub const JOBS_MAX: usize = 64;

/// A job on this server; one whose rails differ in their priorities is several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobUse {
    /// Uid of the job.
    pub job: JobUid,
    /// The rails that it holds here.
    pub rails: BTreeSet<u32>,
    /// The priority of its data.
    pub lossless: u8,
    /// The priority of notifications of congestion.
    pub cnp: u8,
}

/// Everything that health is judged from.
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) config: Config,
    pub(crate) ports: BTreeMap<PortKey, Port>,
    /// `None` until somebody has said which jobs are here.
    pub(crate) jobs: Option<Vec<JobUse>>,
    /// Since when the whole server should not be used.
    pub(crate) node_bad: Option<Timestamp>,
    /// Since when most rails have been unfit.
    pub(crate) most_unfit: Option<Timestamp>,
}

impl State {
    /// A state in which no port has been seen yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, ports: BTreeMap::new(), jobs: None, node_bad: None, most_unfit: None }
    }

    /// All ports that were seen, by key.
    pub fn ports(&self) -> impl Iterator<Item = (&PortKey, &Port)> {
        self.ports.iter()
    }

    /// The port with this key; `None` where it was not seen.
    #[must_use]
    pub fn port(&self, key: &PortKey) -> Option<&Port> {
        self.ports.get(key)
    }

    /// How long this port is not to be read: its firmware does not answer.
    #[must_use]
    pub fn wait(&self, key: &PortKey, now: Timestamp) -> Duration {
        self.ports.get(key).map_or(Duration::ZERO, |port| port.backoff.until.since(now))
    }

    /// True while the whole server should not be used.
    #[must_use]
    pub fn is_node_unfit(&self) -> bool {
        self.node_bad.is_some()
    }

    /// True where no new job should use the rail of this port.
    #[must_use]
    pub fn is_unfit(&self, key: &PortKey) -> bool {
        self.ports.get(key).is_some_and(|port| port.board.worst() == Some(Severity::Drain))
    }

    /// All conditions that hold: what must outlive a restart of the agent.
    #[must_use]
    pub fn kept(&self) -> Vec<(PortKey, Condition, ActiveCondition)> {
        let of = |(key, port): (&PortKey, &Port)| {
            let each = port.board.held().map(|(condition, held)| (key.clone(), condition, *held));
            each.collect::<Vec<_>>()
        };
        self.ports.iter().flat_map(of).collect()
    }

    /// Takes over what held before a restart; it is over only after proof, as before. A clock that was ahead then is not believed: no proof
    /// would be later than what it said.
    pub fn restore(&mut self, kept: Vec<(PortKey, Condition, ActiveCondition)>, now: Timestamp) {
        for (key, condition, held) in kept {
            let held =
                ActiveCondition { since: held.since.min(now), last_sign: held.last_sign.min(now), ..held };
            if let Some(port) = self.port_mut(&key) {
                port.board.restore(condition, held);
            }
        }
    }

    /// Two keys turn out to be of one port: what holds of the first holds of the second, and the first is no more.
    pub fn join(&mut self, first: &PortKey, second: &PortKey) {
        let Some(port) = self.ports.remove(first) else { return };
        let Some(other) = self.port_mut(second) else { return };
        for (condition, held) in port.board.held() {
            if other.board.get(condition).is_none() {
                other.board.restore(condition, *held);
            }
        }
    }

    /// The port of this key, made if it is new; `None` if there are too many.
    pub(crate) fn port_mut(&mut self, key: &PortKey) -> Option<&mut Port> {
        if !self.ports.contains_key(key) {
            if self.ports.len() >= PORTS_MAX {
                let away = self.ports.iter().filter(|(_, port)| port.backoff.failures > 0);
                let oldest = away.min_by_key(|(_, port)| port.seen_at()).map(|(key, _)| key.clone())?;
                self.ports.remove(&oldest);
            }
            let mut port = Port::new(&self.config);
            port.excuse(self.config.booted.plus(self.config.limits.boot_grace));
            self.ports.insert(key.clone(), port);
        }
        self.ports.get_mut(key)
    }

    /// Which jobs use a rail, as bits of their places.
    pub(crate) fn jobs_of(&self, rail: u32) -> u64 {
        let jobs = self.jobs.as_deref().unwrap_or_default();
        let uses = jobs.iter().take(JOBS_MAX).enumerate().filter(|(_, job)| job.rails.contains(&rail));
        uses.fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// The priorities of the data on a rail, where a job uses it.
    pub(crate) fn wanted(&self, rail: u32) -> Option<Wanted> {
        let job = self.jobs.as_deref()?.iter().find(|job| job.rails.contains(&rail))?;
        Some(Wanted { lossless: job.lossless, cnp: job.cnp })
    }
}
