//! Carries out a plan of faults between two steps of the network.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use turmoil::Sim;

use crate::{
    controller::{End, Posts},
    etcd::{Etcd, Mood},
    faults::{Fault, Hosts, What, cut_links, held_links},
    net,
    record::Record,
};

/// Longest that a controller may take to end in good order, before it is killed.
const PATIENCE_MS: u64 = 12_000;
/// Before a process that could not go on is started again.
const RESTART_MS: u64 = 300;

/// How a link is, from the host with the lower name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Link {
    cut_there: bool,
    cut_back: bool,
    held: bool,
}

/// The faults of a run at work.
pub struct Weather {
    hosts: Hosts,
    plan: std::vec::IntoIter<Fault>,
    next: Option<Fault>,
    active: Vec<Fault>,
    links: BTreeMap<(String, String), Link>,
    /// Hosts that are killed, each with the time at which it is started again.
    down: BTreeMap<String, u64>,
    /// Asked to end, and started again from the first time on; killed at the second.
    leaving: BTreeMap<String, (u64, u64)>,
    etcd: Arc<Etcd>,
    posts: Posts,
    record: Record,
    /// The number of faults that began.
    pub begun: u64,
}

impl Weather {
    /// Carries out this plan, from its first fault on.
    #[must_use]
    pub fn new(hosts: Hosts, plan: Vec<Fault>, etcd: Arc<Etcd>, posts: Posts, record: Record) -> Self {
        let mut plan = plan.into_iter();
        let next = plan.next();
        Self {
            hosts,
            plan,
            next,
            active: Vec::new(),
            links: BTreeMap::new(),
            down: BTreeMap::new(),
            leaving: BTreeMap::new(),
            etcd,
            posts,
            record,
            begun: 0,
        }
    }

    /// Begins what is due and ends what is over; true where a link has changed.
    pub fn turn(&mut self, sim: &mut Sim<'_>, now: u64) {
        let mut changed = false;
        while self.next.as_ref().is_some_and(|fault| fault.at_ms <= now) {
            let Some(fault) = std::mem::replace(&mut self.next, self.plan.next()) else { break };
            self.begun += 1;
            self.record.report(&format!("FAULT {:?} until {}", fault.what, fault.until_ms));
            self.begin(sim, &fault, now);
            self.active.push(fault);
            changed = true;
        }
        if self.active.iter().any(|fault| fault.until_ms <= now) {
            let over = self.active.extract_if(.., |fault| fault.until_ms <= now).collect::<Vec<_>>();
            for fault in over {
                self.record.report(&format!("over: {:?}", fault.what));
                self.end(sim, &fault);
            }
            changed = true;
        }
        changed |= self.processes(sim, now);
        if changed {
            self.set_links(sim);
        }
    }

    /// Ends all faults now, and lets no further one begin.
    pub fn heal(&mut self, sim: &mut Sim<'_>, now: u64) {
        self.next = None;
        self.plan = Vec::new().into_iter();
        self.active.iter_mut().for_each(|fault| fault.until_ms = now);
        self.down.values_mut().for_each(|until| *until = now);
        self.leaving.values_mut().for_each(|times| times.0 = now);
        self.turn(sim, now);
        self.etcd.inner().leaderless_until_ms = 0;
        self.etcd.stir();
        self.record.report("all is well from now on");
    }

    /// A process dies, and is started again at a time.
    pub fn kill(&mut self, sim: &mut Sim<'_>, host: &str, until: u64) {
        self.leaving.remove(host);
        let known = self.down.entry(host.to_owned()).or_insert(0);
        if *known == 0 {
            sim.crash(host);
            self.posts.with(host, |post| (post.leading, post.reader) = (None, None));
        }
        *known = until.max(*known);
    }

    /// Whether a process is dead now.
    #[must_use]
    pub fn is_down(&self, host: &str) -> bool {
        self.down.contains_key(host)
    }

    /// Whether a controller runs that nothing keeps from leading: neither the network nor etcd, nor that it is to end.
    #[must_use]
    pub fn somebody_could_lead(&self) -> bool {
        let of_controllers = |fault: &Fault| match &fault.what {
            What::Kill(host) => self.hosts.controllers.contains(host),
            What::KillLeader | What::HandOver(_) | What::Compact => true,
            _ => false,
        };
        let free = |host: &String| !self.down.contains_key(host) && !self.leaving.contains_key(host);
        self.active.iter().all(of_controllers) && self.hosts.controllers.iter().any(free)
    }

    fn begin(&mut self, sim: &mut Sim<'_>, fault: &Fault, now: u64) {
        match &fault.what {
            What::Kill(host) => self.kill(sim, host, fault.until_ms),
            What::KillLeader => {
                let leaders = self.posts.leaders();
                let leader = leaders.iter().max_by_key(|(_, handle)| handle.epoch());
                if let Some((host, _)) = leader {
                    self.record.report(&format!("it is {host}"));
                    self.kill(sim, host, fault.until_ms);
                }
            }
            What::HandOver(host) if !self.down.contains_key(host) && !self.leaving.contains_key(host) => {
                self.leaving.insert(host.clone(), (fault.until_ms, now + PATIENCE_MS));
                self.posts.with(host, |post| post.asked.cancel());
            }
            What::Slow(a, b, ms) => {
                sim.set_link_max_message_latency(
                    a.as_str(),
                    b.as_str(),
                    std::time::Duration::from_millis(*ms),
                );
            }
            What::NoEtcdLeader => {
                let mut inner = self.etcd.inner();
                inner.leaderless_until_ms = inner.leaderless_until_ms.max(fault.until_ms);
            }
            What::SickMember(at, slow_ms, lossy) => {
                self.etcd.inner().moods[*at] = Mood { slow_ms: *slow_ms, lossy: *lossy };
            }
            What::Compact => self.etcd.compact_all(),
            What::WatchLag(ms) => self.etcd.inner().watch_lag_ms = *ms,
            What::Full => self.etcd.inner().rows.brimming = true,
            _ => {}
        }
        self.etcd.stir();
    }

    fn end(&mut self, sim: &mut Sim<'_>, fault: &Fault) {
        match &fault.what {
            What::Slow(a, b, _) => {
                sim.set_link_max_message_latency(a.as_str(), b.as_str(), crate::world::LATENCY);
            }
            What::SickMember(at, ..) => self.etcd.inner().moods[*at] = Mood::default(),
            What::WatchLag(_) => self.etcd.inner().watch_lag_ms = 0,
            What::Full => self.etcd.inner().rows.brimming = false,
            _ => {}
        }
        self.etcd.stir();
    }

    /// Starts what was down for long enough.
    fn processes(&mut self, sim: &mut Sim<'_>, now: u64) -> bool {
        for host in self.hosts.controllers.clone() {
            if self.posts.with(&host, |post| post.end) == End::Failed {
                self.posts.with(&host, |post| post.end = End::Not);
                self.kill(sim, &host, now + RESTART_MS);
            }
        }
        let up: Vec<String> =
            self.down.iter().filter(|(_, until)| **until <= now).map(|(host, _)| host.clone()).collect();
        for host in &up {
            self.down.remove(host);
            self.record.report(&format!("{host} is started"));
            sim.bounce(host.as_str());
        }
        let mut ended = Vec::new();
        for (host, (from, kill)) in &self.leaving {
            let has_ended = self.posts.with(host, |post| post.end == End::InOrder);
            if (has_ended && *from <= now) || *kill <= now {
                ended.push((host.clone(), has_ended));
            }
        }
        for (host, in_order) in &ended {
            self.leaving.remove(host);
            if !in_order {
                self.record.fail(format!("{host} did not end in {PATIENCE_MS} ms after it was asked to"));
            }
            self.record.report(&format!("{host} is started again"));
            sim.bounce(host.as_str());
        }
        !up.is_empty() || !ended.is_empty()
    }

    /// Brings the network into the state that the faults at work make together.
    fn set_links(&mut self, sim: &mut Sim<'_>) {
        let (cut, held) = (cut_links(&self.active, &self.hosts), held_links(&self.active));
        let mut now: BTreeMap<(String, String), Link> = BTreeMap::new();
        for (from, to) in &cut {
            if from < to {
                now.entry((from.clone(), to.clone())).or_default().cut_there = true;
            } else {
                now.entry((to.clone(), from.clone())).or_default().cut_back = true;
            }
        }
        for pair in held {
            now.entry(pair).or_default().held = true;
        }
        let before = std::mem::replace(&mut self.links, now);
        let pairs: BTreeSet<&(String, String)> = before.keys().chain(self.links.keys()).collect();
        for pair in pairs {
            let (was, is) = (
                before.get(pair).copied().unwrap_or_default(),
                self.links.get(pair).copied().unwrap_or_default(),
            );
            if was == is {
                continue;
            }
            let (a, b) = (pair.0.as_str(), pair.1.as_str());
            sim.release(a, b);
            match (is.cut_there, is.cut_back) {
                (true, true) => sim.partition(a, b),
                (true, false) => sim.partition_oneway(a, b),
                (false, true) => sim.partition_oneway(b, a),
                (false, false) if is.held => sim.hold(a, b),
                (false, false) => {}
            }
        }
        let lonely: BTreeSet<String> = cut.into_iter().flat_map(|(from, to)| [from, to]).collect();
        net::set_weather(lonely, self.down.keys().cloned().collect());
    }
}
