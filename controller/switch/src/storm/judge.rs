//! From ports that are stopped to the one that started it.

use std::collections::BTreeMap;

use super::interval::Watch;
use super::{Peer, Plane, PortId};

/// So long a port is stopped before it is asked why, in milliseconds: with a reading every second that is the first whole second, so that
/// a storm is named two seconds after it began at the latest.
const ASKED: u64 = 900;
/// More NICs of one leaf are not isolated on their own: two rails of a server may be among them, or it is the leaf.
const AT_ONCE: usize = 1;

/// What is at the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A NIC pauses its port without end.
    Nic {
        /// The NIC.
        nic: u32,
        /// The port of its leaf.
        port: PortId,
    },
    /// A switch pauses this port of another one, and nothing pauses the switch: its buffers, or what runs it.
    Switch {
        /// The switch.
        switch: u32,
        /// The port that it pauses.
        port: PortId,
    },
    /// Ports that wait for each other.
    Deadlock {
        /// The ports, in their order.
        ports: Vec<PortId>,
    },
    /// What stops these ports lies beyond a switch that could not be read.
    Unread {
        /// The switch.
        switch: u32,
    },
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Let this port drop what is lossless, and ignore its pauses: its server loses this rail, and nothing else.
    Isolate(PortId),
    /// Somebody has to look.
    Notify,
}

/// A cause and what comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What started it.
    pub cause: Cause,
    /// What to do.
    pub action: Action,
    /// A way of pauses, from a port that is stopped to the root.
    pub path: Vec<PortId>,
    /// How many ports are stopped by it.
    pub stopped: usize,
}

/// Names what started each storm that there is now, in the order of causes. `now` is in milliseconds.
#[must_use]
pub fn judge(plane: &Plane, watch: &Watch, now: u64) -> Vec<Verdict> {
    let mut found: BTreeMap<Cause, (Vec<PortId>, usize)> = BTreeMap::new();
    for port in plane.ports().filter(|port| watch.stopped_for(*port, now) >= ASKED) {
        let (cause, path) = root(plane, watch, port, now);
        let entry = found.entry(cause).or_insert_with(|| (path.clone(), 0));
        entry.1 += 1;
        if path.len() > entry.0.len() {
            entry.0 = path;
        }
    }
    let mut nics: BTreeMap<u32, usize> = BTreeMap::new();
    for cause in found.keys() {
        if let Cause::Nic { port, .. } = cause {
            *nics.entry(plane.switch(*port)).or_default() += 1;
        }
    }
    let verdict = |(cause, (path, stopped)): (Cause, (Vec<PortId>, usize))| {
        let action = match &cause {
            Cause::Nic { port, .. } if nics[&plane.switch(*port)] <= AT_ONCE => Action::Isolate(*port),
            Cause::Deadlock { ports } => {
                ports.iter().min().map_or(Action::Notify, |port| Action::Isolate(*port))
            }
            Cause::Nic { .. } | Cause::Switch { .. } | Cause::Unread { .. } => Action::Notify,
        };
        Verdict { cause, action, path, stopped }
    };
    found.into_iter().map(verdict).collect()
}

/// Follows what pauses a port: a NIC is a root; a switch is one if none of its own ports is stopped.
fn root(plane: &Plane, watch: &Watch, from: PortId, now: u64) -> (Cause, Vec<PortId>) {
    let mut path = vec![from];
    let since = now.saturating_sub(watch.stopped_for(from, now));
    loop {
        let port = path[path.len() - 1];
        let there = match plane.peer(port) {
            Peer::Nic(nic) => return (Cause::Nic { nic, port }, path),
            Peer::Port(there) => there,
        };
        let others = || plane.beside(there).iter().copied().filter(|other| *other != there);
        // What comes from above goes down: only where nothing below is stopped it can be that a route goes up again. Beyond that, whoever is
        // stopped for longest was stopped first.
        let valley = |other: PortId| plane.is_up(there) && plane.is_up(other);
        let next = others()
            .filter(|other| watch.last(*other, now).is_some_and(|interval| interval.is_stopped))
            .max_by_key(|other| (!valley(*other), watch.stopped_for(*other, now), std::cmp::Reverse(*other)));
        let switch = plane.switch(there);
        match next {
            Some(next) => {
                if let Some(met) = path.iter().position(|port| *port == next) {
                    let mut ports = path[met..].to_vec();
                    // The same cycle from wherever it is entered.
                    let first =
                        ports.iter().enumerate().min_by_key(|(_, port)| **port).map_or(0, |(first, _)| first);
                    ports.rotate_left(first);
                    return (Cause::Deadlock { ports }, path);
                }
                path.push(next);
            }
            // What is known of the time before says nothing of what holds up this port now.
            None if others().any(|other| watch.known_since(other, now).is_none_or(|known| known < since)) => {
                return (Cause::Unread { switch }, path);
            }
            None => return (Cause::Switch { switch, port }, path),
        }
    }
}
