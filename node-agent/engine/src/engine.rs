//! The progress loop: one thread, one poll, everything in turn.

mod agreements;
mod board;
mod callers;
mod calls;
mod certify;
mod gpus;
mod notify;
mod rails;
mod ranks;
mod supervisor;
mod wiring;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mio::Interest;
use node_agent_collective::shape::Tuning;
use node_agent_collective::units::Time;
use node_agent_collective::{Machine, Plan};
use node_agent_engine_transport::{Bridge, Clock, JobKey, TcpConfig, TcpRails, Transport, Waker, drive};
use tracing::{info, warn};

use crate::agreements::Agreements;
use crate::board::stopping;
use crate::calls::Calls;
use crate::carry::CarrySetup;
use crate::certify::Certifier;
use crate::config::Config;
use crate::control::last_words;
use crate::error::EngineError;
use crate::failure::{is_peer_lost, of_failure};
use crate::index::node_index;
use crate::memory::Operands;
use crate::rails::Watch;
use crate::ranks::Ranks;
use crate::supervisor::Supervisor;
use crate::tokens::{CONTROL_LISTENER, RANK_LISTENER, Tokens, watch};
use crate::wiring::Wires;

/// Longest sleep of the loop: a bound on everything that nobody wakes it for.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// How long a stopping engine goes on, so that its peers and ranks hear the reason before the connections close.
const DRAIN: Duration = Duration::from_millis(200);
/// How long an engine that lost a peer goes on, so that ranks which are between two calls hear the cause.
const LINGER: Duration = Duration::from_secs(2);
/// How long a connecting rail peer has to prove that it knows the job key.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Ends an engine from another thread.
#[derive(Debug, Clone)]
pub struct Stopper {
    reason: Arc<Mutex<Option<String>>>,
    waker: Waker,
}

impl Stopper {
    /// Makes the engine stop as if the supervisor had asked for it.
    pub fn stop(&self, reason: &str) {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
        self.waker.wake();
    }
}

/// How an engine ends.
#[derive(Debug)]
struct Ending {
    stopper: Stopper,
    /// Why this engine is ending, once it is.
    draining: Option<String>,
    /// When the engine ends; `None` while it is not ending.
    end: Option<Time>,
    /// The first failure has been logged.
    failure_seen: bool,
}

/// An engine that listens on its rails and sockets.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) local_ranks: Vec<u32>,
    pub(crate) clock: Clock,
    pub(crate) machine: Machine,
    pub(crate) memory: Operands,
    pub(crate) rails: TcpRails,
    pub(crate) ranks: Ranks,
    pub(crate) calls: Calls,
    pub(crate) supervisor: Supervisor,
    pub(crate) wires: Wires,
    pub(crate) certifier: Certifier,
    /// One for each rail, in the order that engines count them.
    pub(crate) watches: Vec<Watch>,
    pub(crate) tokens: Tokens,
    pub(crate) agreements: Agreements,
    ending: Ending,
}

impl Engine {
    /// Opens rails and sockets. Nothing happens on them before [`Engine::run`].
    ///
    /// # Errors
    /// The configuration cannot work, or a rail, the verbs or a socket cannot be opened.
    pub fn bind(config: Config, key: JobKey) -> Result<Self, EngineError> {
        config.check()?;
        let mut rails = TcpRails::bind(&tcp_config(&config, key.clone()))?;
        CarrySetup::of(&config).fulfil(&mut rails)?;
        let ranks = Ranks::bind(&config.socket, config.rank_uid)?;
        let supervisor = Supervisor::bind(&config.control).map_err(|source| EngineError::ControlSocket {
            path: config.control.display().to_string(),
            source,
        })?;
        let mut memory = Operands::default();
        let mut shape = machine_config(&config);
        shape.scratch = memory.take(shape.scratch_bytes());
        let mut machine = Machine::new(shape)?;
        machine.set_plan(Plan { reproducible: config.reproducible, ..Plan::default() });
        let tokens = Tokens::default();
        watch(&rails, &ranks.listener, RANK_LISTENER, Interest::READABLE)?;
        watch(&rails, &supervisor.listener, CONTROL_LISTENER, Interest::READABLE)?;
        let stopper = Stopper { reason: Arc::default(), waker: rails.waker() };
        Ok(Self {
            local_ranks: config.local_ranks(),
            wires: Wires::new(&config, &rails),
            certifier: Certifier::new(&config, &key, &rails),
            watches: vec![Watch::default(); config.rails.len()],
            clock: Clock::start(),
            calls: Calls::default(),
            ending: Ending { stopper, draining: None, end: None, failure_seen: false },
            config,
            machine,
            memory,
            rails,
            ranks,
            supervisor,
            tokens,
            agreements: Agreements::default(),
        })
    }

    /// Something that ends this engine from another thread.
    pub fn stopper(&self) -> Stopper {
        self.ending.stopper.clone()
    }

    /// Serves ranks, peers and supervisor until it is asked to stop, or until a peer that ranks needed is lost.
    ///
    /// # Errors
    /// A peer that ranks needed is lost, or waiting for events failed.
    pub fn run(mut self) -> Result<(), EngineError> {
        let mut ready = Vec::new();
        loop {
            if let Some(reason) = self.asked_to_stop() {
                self.begin_drain(reason);
            }
            let now = self.clock.now();
            if self.is_over(now) {
                return self.finish();
            }
            let sleep =
                self.next_deadline().map_or(LONGEST_SLEEP, |at| at.saturating_sub(now).min(LONGEST_SLEEP));
            let (machine, memory, clock) = (&mut self.machine, &mut self.memory, self.clock);
            let mut bridge =
                Bridge { machine, memory, clock, external: &mut ready, callers: &self.ranks.callers };
            drive(&mut bridge, &mut self.rails, sleep)?;
            for token in ready.drain(..) {
                self.serve(token);
            }
            self.serve_queues();
            self.complete_calls();
            self.hand_out_notifications();
            self.retry_notifications();
            self.retry_agreements();
            self.pass_time();
        }
    }

    /// Begins the orderly end: calls under way fail with the reason, and the loop goes on for a moment to deliver that.
    pub(crate) fn begin_drain(&mut self, reason: String) {
        if self.ending.draining.is_some() {
            return;
        }
        info!(job = self.config.job, reason, "engine stops");
        let now = self.clock.now();
        if self.calls.is_empty() {
            self.machine.leave();
        } else {
            self.machine.stop(&reason, now);
        }
        self.ranks.shared.end(stopping(&reason));
        self.end_notifications(&stopping(&reason));
        self.ending.draining = Some(reason);
        let end = now + DRAIN;
        self.ending.end = Some(self.ending.end.map_or(end, |earlier| earlier.min(end)));
        self.complete_calls();
    }

    /// Whether everything is said and done.
    fn is_over(&self, now: Time) -> bool {
        let drained = self.ending.draining.is_some() && self.machine.is_quiet() && self.supervisor.is_quiet();
        drained || self.ending.end.is_some_and(|end| end <= now)
    }

    fn finish(mut self) -> Result<(), EngineError> {
        self.rails.end_reading(Instant::now());
        self.complete_calls();
        match (&self.ending.draining, self.machine.failure()) {
            (None, Some(failure)) => {
                let peer = is_peer_lost(failure);
                self.leave_last_words();
                Err(EngineError::Lost { peer, text: format!("job {}: {failure}", self.config.job) })
            }
            _ => Ok(()),
        }
    }

    /// For the supervisor, which cannot ask any more. Without them it knows what ended the engine, but not which peer was lost.
    fn leave_last_words(&self) {
        let path = last_words(&self.config.control);
        let written = serde_json::to_vec(&self.status()).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|text| std::fs::write(&path, text)) {
            warn!(job = self.config.job, "cannot write {}: {error}", path.display());
        }
    }

    fn asked_to_stop(&self) -> Option<String> {
        self.ending.stopper.reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn serve(&mut self, token: usize) {
        match token {
            RANK_LISTENER => self.accept_ranks(),
            CONTROL_LISTENER => self.accept_supervisors(),
            token if self.ranks.connections.contains_key(&token) => self.serve_rank(token),
            token => self.serve_supervisor(token),
        }
    }

    /// When the loop must go on without being woken.
    fn next_deadline(&self) -> Option<Time> {
        let (hello, late) = (self.ranks.next_deadline(), self.ranks.next_try(self.clock.now()));
        [self.ending.end, hello, late, self.calls.next_deadline(), self.wires.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// What is due by time or by a change that the last turn brought.
    fn pass_time(&mut self) {
        let now = self.clock.now();
        self.send_late(now);
        self.expire_ranks(now);
        self.expire_calls(now);
        self.check_wiring();
        self.check_certifier();
        self.note_failure(now);
    }

    /// Logs the first failure. A lost peer or rail ends the engine once a rank has been hurt by it: nothing that a rank
    /// still could ask for can succeed.
    fn note_failure(&mut self, now: Time) {
        let Some(failure) = self.machine.failure() else { return };
        if !self.ending.failure_seen {
            self.ending.failure_seen = true;
            warn!(job = self.config.job, "{failure}");
            let cause = self.with_lost_rank(of_failure(failure, &self.config));
            self.end_notifications(&cause);
        }
        let Some(failure) = self.machine.failure() else { return };
        if is_peer_lost(failure) && self.calls.hurt() && self.ending.end.is_none() {
            self.ending.end = Some(now + LINGER);
        }
    }
}

fn tcp_config(config: &Config, key: JobKey) -> TcpConfig {
    TcpConfig {
        node: node_index(config.node),
        nodes: config.nodes.len(),
        rails: config.ordered_rails().iter().map(|rail| rail.address).collect(),
        devices: match config.bound {
            true => config.ordered_rails().iter().map(crate::config::RailConfig::own_device).collect(),
            false => Vec::new(),
        },
        job_uid: config.uid.clone(),
        attempt: config.attempt,
        epoch: config.epoch,
        key,
        handshake_timeout: HANDSHAKE_TIMEOUT,
        protection: config.protection.into(),
    }
}

fn machine_config(config: &Config) -> node_agent_collective::Config {
    node_agent_collective::Config {
        node: node_index(config.node),
        nodes: config.nodes.len(),
        ranks: config.ranks.iter().map(|node| node_index(*node)).collect(),
        rails: config.rails.len().max(1),
        chunk_bytes: config.chunk_bytes,
        op_timeout: config.op_timeout(),
        // The handshake compares the whole number; frames carry its low half.
        epoch: (config.epoch & u64::from(u32::MAX)) as u32,
        scratch: node_agent_collective::Region::EMPTY,
        checksum: config.checksum,
        tuning: Tuning { algorithm: config.algorithm, ..Tuning::default() },
    }
}
