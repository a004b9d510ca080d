//! Which links are wanted, when to dial next, and how far the wire-up is. No IO.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use node_agent_collective::shape::{Node, Rail};

use super::{Missing, Wiring};

/// First and greatest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));

/// What is to be dialed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub rail: Rail,
    pub peer: Node,
    pub endpoint: SocketAddr,
}

#[derive(Debug)]
struct Wanted {
    endpoint: SocketAddr,
    /// When to dial; `None` while a try runs, while the link is up, or if the peer is the one who dials.
    next: Option<Instant>,
    dials: bool,
    pause: Duration,
    ever_up: bool,
    error: Option<String>,
}

/// All wanted links.
#[derive(Debug, Default)]
pub struct Dial {
    wanted: BTreeMap<(Rail, Node), Wanted>,
    deadline: Option<Instant>,
}

impl Dial {
    /// Wants these links; dials those to lower nodes.
    pub fn start(
        &mut self,
        targets: impl Iterator<Item = ((Rail, Node), SocketAddr)>,
        own: Node,
        deadline: Instant,
    ) {
        let now = Instant::now();
        self.deadline = Some(deadline);
        for ((rail, peer), endpoint) in targets {
            let dials = peer < own;
            let next = dials.then_some(now);
            let fresh = Wanted { endpoint, next, dials, pause: PAUSES.0, ever_up: false, error: None };
            self.wanted.insert((rail, peer), fresh);
        }
    }

    /// Whether a peer has this address on a rail.
    pub fn knows(&self, rail: Rail, address: IpAddr) -> bool {
        self.wanted.iter().any(|((r, _), w)| *r == rail && w.endpoint.ip() == address)
    }

    /// Takes what is due.
    pub fn due(&mut self, now: Instant) -> Vec<Target> {
        let over = self.deadline.is_some_and(|d| d <= now);
        let mut due = Vec::new();
        for (&(rail, peer), wanted) in &mut self.wanted {
            if wanted.next.is_some_and(|next| next <= now) {
                wanted.next = None;
                if !over || wanted.ever_up {
                    due.push(Target { rail, peer, endpoint: wanted.endpoint });
                }
            }
        }
        due
    }

    /// When something is due, or the deadline passes.
    pub fn next(&self) -> Option<Instant> {
        let deadline =
            self.deadline.filter(|&d| d > Instant::now() && self.wanted.values().any(|w| !w.ever_up));
        self.wanted.values().filter_map(|w| w.next).chain(deadline).min()
    }

    /// A try failed.
    pub fn failed(&mut self, rail: Rail, peer: Node, why: &str, now: Instant) {
        if let Some(wanted) = self.wanted.get_mut(&(rail, peer)) {
            wanted.error = Some(why.to_owned());
            wanted.next = Some(now + wanted.pause);
            wanted.pause = (wanted.pause * 2).min(PAUSES.1);
        }
    }

    /// A link is up.
    pub fn up(&mut self, rail: Rail, peer: Node) {
        if let Some(wanted) = self.wanted.get_mut(&(rail, peer)) {
            (wanted.ever_up, wanted.next, wanted.pause, wanted.error) = (true, None, PAUSES.0, None);
        }
    }

    /// A link went down.
    pub fn down(&mut self, rail: Rail, peer: Node, now: Instant) {
        if let Some(wanted) = self.wanted.get_mut(&(rail, peer)) {
            wanted.next = wanted.dials.then_some(now + wanted.pause);
            wanted.pause = (wanted.pause * 2).min(PAUSES.1);
        }
    }

    /// How far the wire-up is.
    pub fn wiring(&self, now: Instant) -> Wiring {
        let Some(deadline) = self.deadline else { return Wiring::NotStarted };
        let missing: Vec<Missing> = self
            .wanted
            .iter()
            .filter(|(_, w)| !w.ever_up)
            .map(|(&(rail, node), w)| (rail, node, w.error.clone()))
            .collect();
        match (missing.is_empty(), now >= deadline) {
            (true, _) => Wiring::Done,
            (false, false) => Wiring::Waiting(missing),
            (false, true) => Wiring::Failed(missing),
        }
    }
}
