//! What goes wrong, and when: a plan drawn from the seed, carried out between two steps of the network.

use std::collections::BTreeSet;

use integration_sim::rng::Rng;

/// A fault, and how long it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// When it begins, in simulated milliseconds.
    pub at_ms: u64,
    /// When it is over.
    pub until_ms: u64,
    /// What goes wrong meanwhile.
    pub what: What,
}

/// Kinds of faults. Hosts are `c0`.. (controllers), `e0`.. (members of etcd), `u0`.. (clients).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Nothing passes between two hosts, and what was on its way is lost.
    Cut(String, String),
    /// Nothing passes from the first to the second.
    CutOneWay(String, String),
    /// What is sent between two hosts waits until the end, and then arrives.
    Hold(String, String),
    /// A host is alone.
    Isolate(String),
    /// A process is killed and started again at the end.
    Kill(String),
    /// Whoever leads is killed.
    KillLeader,
    /// A controller is asked to end, and started again.
    HandOver(String),
    /// A link is slow.
    Slow(String, String, u64),
    /// etcd has no leader.
    NoEtcdLeader,
    /// A member answers late, and loses calls and answers.
    SickMember(usize, u64, u64),
    /// All history is compacted now.
    Compact,
    /// Watches' events come late.
    WatchLag(u64),
    /// etcd's quota is used up.
    Full,
}

/// The hosts of a run.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// The names of the controllers' hosts.
    pub controllers: Vec<String>,
    /// The names of the hosts of etcd's members.
    pub members: Vec<String>,
    /// The names of the clients' hosts.
    pub clients: Vec<String>,
}

impl Hosts {
    /// The names of all hosts.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        [&self.controllers[..], &self.members, &self.clients].concat()
    }

    fn pair(&self, rng: &mut Rng) -> (String, String) {
        let one = pick(rng, &self.controllers);
        loop {
            let other = match rng.below(10) {
                0..5 => pick(rng, &self.members),
                5..8 => pick(rng, &self.controllers),
                _ => pick(rng, &self.clients),
            };
            if other != one {
                return if rng.chance(500) { (one, other) } else { (other, one) };
            }
        }
    }
}

fn pick(rng: &mut Rng, from: &[String]) -> String {
    from[rng.below(from.len())].clone()
}

/// The faults of a seed, by the time at which they begin.
#[must_use]
pub fn plan(rng: &mut Rng, hosts: &Hosts, count: u64, from_ms: u64, to_ms: u64) -> Vec<Fault> {
    let mut faults: Vec<Fault> = (0..count)
        .map(|_| {
            let at_ms = rng.range(from_ms..to_ms);
            let lasts = if rng.chance(700) { rng.range(50..900) } else { rng.range(900..3000) };
            Fault { at_ms, until_ms: at_ms + lasts, what: what(rng, hosts) }
        })
        .collect();
    faults.sort_by_key(|fault| fault.at_ms);
    faults
}

fn what(rng: &mut Rng, hosts: &Hosts) -> What {
    let (one, other) = hosts.pair(rng);
    match rng.below(20) {
        0..3 => What::Cut(one, other),
        3..5 => What::CutOneWay(one, other),
        5..7 => What::Hold(one, other),
        7 => What::Isolate(pick(rng, &hosts.controllers)),
        8..10 => What::KillLeader,
        10 => What::Kill(pick(rng, &hosts.controllers)),
        11 => What::Kill(pick(rng, &hosts.members)),
        12 => What::HandOver(pick(rng, &hosts.controllers)),
        13 => What::Slow(one, other, rng.range(50..400)),
        14..16 => What::NoEtcdLeader,
        16 => What::SickMember(rng.below(hosts.members.len()), rng.range(0..300), rng.range(50..500)),
        17 => What::Compact,
        18 => What::WatchLag(rng.range(20..400)),
        _ if rng.chance(300) => What::Full,
        _ => What::SickMember(rng.below(hosts.members.len()), 0, rng.range(20..200)),
    }
}

/// Links that are cut now, as (from, to).
#[must_use]
pub fn cut_links(active: &[Fault], hosts: &Hosts) -> BTreeSet<(String, String)> {
    let mut cut = BTreeSet::new();
    for fault in active {
        match &fault.what {
            What::Cut(a, b) => cut.extend([(a.clone(), b.clone()), (b.clone(), a.clone())]),
            What::CutOneWay(a, b) => _ = cut.insert((a.clone(), b.clone())),
            What::Isolate(host) => {
                for other in hosts.all().into_iter().filter(|other| other != host) {
                    cut.extend([(host.clone(), other.clone()), (other, host.clone())]);
                }
            }
            _ => {}
        }
    }
    cut
}

/// Links on which everything waits now.
#[must_use]
pub fn held_links(active: &[Fault]) -> BTreeSet<(String, String)> {
    let held = active.iter().filter_map(|fault| match &fault.what {
        What::Hold(a, b) => Some(if a < b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) }),
        _ => None,
    });
    held.collect()
}
