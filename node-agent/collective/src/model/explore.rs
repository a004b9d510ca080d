//! The search: depth first, every state once.

use std::collections::BTreeSet;

use super::hosts::Hosts;
use super::world::{Event, World};

/// What the search found: how much it explored, and the first violation.
#[derive(Debug)]
pub struct Report {
    pub states: usize,
    pub transitions: usize,
    /// Number of events on the longest path.
    pub depth: usize,
    /// States in which all calls have ended.
    pub ends: usize,
    pub violation: Option<Violation>,
}

#[derive(Debug)]
pub struct Violation {
    pub what: String,
    pub trace: Vec<Event>,
}

/// Digests of the states that were met: open addressing, for tens of millions. Two states in ten million have the same with a probability
/// below 10^-5.
struct Seen {
    slots: Vec<u64>,
    len: usize,
}

impl Seen {
    fn new() -> Self {
        Seen { slots: vec![0; 1 << 16], len: 0 }
    }

    /// Whether it was not there.
    fn insert(&mut self, digest: u64) -> bool {
        if self.len * 4 > self.slots.len() * 3 {
            let larger = vec![0; self.slots.len() * 2];
            let old = std::mem::replace(&mut self.slots, larger);
            self.len = 0;
            old.into_iter().filter(|&d| d != 0).for_each(|d| _ = self.insert(d));
        }
        let (digest, mask) = (digest.max(1), self.slots.len() - 1);
        let mut at = digest as usize & mask;
        while self.slots[at] != 0 {
            if self.slots[at] == digest {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = digest;
        self.len += 1;
        true
    }
}

struct Step {
    world: World,
    digest: u64,
    /// Which of `events` is tried next.
    next: usize,
    events: Vec<Event>,
}

const STUCK: &str = "nothing can happen any more, and calls have not ended";

/// Visits every world that can follow from one, until one is wrong.
///
/// A state that was met again on the way to itself would be a circle. Faults are counted down, so a circle has none: it would
/// be a run that goes on for ever without getting anywhere. There must be none; and where nothing can happen any more,
/// all calls must have ended. So from every state, without more faults, all calls end, whatever the order.
pub fn explore(hosts: &mut Hosts, start: &World) -> Report {
    let mut report = Report { states: 0, transitions: 0, depth: 0, ends: 0, violation: None };
    let (mut seen, mut on_path) = (Seen::new(), BTreeSet::new());
    let mut path: Vec<Step> = Vec::new();
    let mut next = Ok(start.clone());
    loop {
        let entered = next.and_then(|world: World| {
            let digest = world.digest();
            if !seen.insert(digest) {
                let circle = on_path.contains(&digest);
                return if circle {
                    Err("a circle: nothing is gained by going on".to_owned())
                } else {
                    Ok(())
                };
            }
            report.states += 1;
            let mut events = world.events(hosts);
            if world.is_done(hosts) {
                report.ends += 1;
                events.retain(|e| *e != Event::Time);
            } else if events.is_empty() {
                return Err(STUCK.to_owned());
            }
            events.extend(world.faults(hosts));
            on_path.insert(digest);
            path.push(Step { world, digest, next: 0, events });
            Ok(())
        });
        report.depth = report.depth.max(path.len());
        if let Err(what) = entered {
            let trace = path.iter().map(|s| s.events[s.next - 1]).collect();
            report.violation = Some(Violation { what, trace });
            return report;
        }
        let event = loop {
            let Some(step) = path.last_mut() else { return report };
            if let Some(&event) = step.events.get(step.next) {
                step.next += 1;
                break event;
            }
            on_path.remove(&step.digest);
            path.pop();
        };
        report.transitions += 1;
        next = path.last().map_or(Ok(start.clone()), |step| step.world.after(hosts, event));
    }
}

/// A shorter trace with some violation: leaves out events as long as what is left still ends in one. What cannot happen any more is
/// skipped.
pub fn shorten(hosts: &mut Hosts, start: &World, violation: Violation) -> Violation {
    let mut best = replay(hosts, start, &violation.trace).unwrap_or(violation);
    loop {
        let shorter = (0..best.trace.len()).find_map(|at| {
            let mut trace = best.trace.clone();
            trace.remove(at);
            replay(hosts, start, &trace).filter(|v| v.trace.len() < best.trace.len())
        });
        match shorter {
            Some(violation) => best = violation,
            None => return best,
        }
    }
}

/// Follows a trace, then goes on without faults until something is wrong, or all calls have ended.
fn replay(hosts: &mut Hosts, start: &World, trace: &[Event]) -> Option<Violation> {
    let (mut world, mut done) = (start.clone(), Vec::new());
    let mut rest = trace.iter().copied();
    for _ in 0..1000 {
        let events = world.events(hosts);
        let event = match rest.find(|e| events.contains(e) || world.faults(hosts).contains(e)) {
            Some(event) => event,
            None if world.is_done(hosts) => return None,
            None => match events.first() {
                Some(&event) => event,
                None => return Some(Violation { what: STUCK.to_owned(), trace: done }),
            },
        };
        done.push(event);
        match world.after(hosts, event) {
            Ok(next) => world = next,
            Err(what) => return Some(Violation { what, trace: done }),
        }
    }
    while done.ends_with(&[Event::Time, Event::Time]) {
        done.pop();
    }
    Some(Violation { what: "time passes, and nothing comes of it".to_owned(), trace: done })
}
