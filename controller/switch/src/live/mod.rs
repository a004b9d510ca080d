//! What the ports of switches count, looked at while it happens: who started a pause storm ([`crate::storm`]), which server pauses its port,
//! what was lost, damaged or flapped within the last one to two minutes.
//!
//! Contracts:
//! 1. What was not read says nothing: a port without counters is neither well nor unwell.
//! 2. Times are those of the readings, by each switch's own clock; the way of a report does not bend what a port counts.

mod clock;
mod marks;
mod net;
mod rise;
mod symptom;

use std::collections::BTreeMap;

use clock::Clock;
use marks::Marks;
use net::Net;
use rise::Rise;
pub use symptom::Symptom;

use crate::{
    cluster::{Cluster, Finding, Problem},
    model::{Name, Peer},
    storm::{Both, Cause, Counter, Join, PortId, Reading, Verdict, Watch, join, judge},
};

/// What a port counts of the lossless priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lossless {
    /// Microseconds for which its peer had told it to pause.
    pub paused_us: u64,
    /// Bytes that its queue has sent; 0: not counted.
    pub sent_bytes: u64,
    /// Highest use of its queue since the reading before, in bytes.
    pub waiting_bytes: u64,
    /// Packets of its queue that were dropped.
    pub drops: u64,
    /// How often the PFC watchdog found a storm.
    pub storms: u64,
    /// Packets of its queue that left with ECN's congestion mark.
    pub marked: u64,
}

/// What a server says of its NIC on a rail; `None` where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NicReport {
    /// The server itself holds up the NIC (PCIe, memory).
    pub host_stalls: Option<bool>,
    /// Congestion notifications that it has sent, in the four minutes until some seconds ago (`np_cnp_sent`).
    pub sent: Option<u64>,
    /// Those that it has received within the last four minutes (`rp_cnp_handled`).
    pub received: Option<u64>,
}

/// What servers say of their NICs, by server and index of the rail.
pub type NicReports = BTreeMap<String, BTreeMap<u32, NicReport>>;

/// A reading of one port. Counters grow from the switch's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample<'a> {
    /// The port.
    pub port: &'a str,
    /// Its link is up.
    pub is_up: bool,
    /// Mbit/s; 0: not known.
    pub mbps: u64,
    /// Frames that arrived damaged: errors of its receiver, and what FEC could not mend.
    pub damaged: u64,
    /// How often the link came or went.
    pub link_changes: u64,
    /// Of the lossless priority; none where it counts nothing of it.
    pub lossless: Option<Lossless>,
}

/// The ports of all switches of a fabric, and what they last said.
#[derive(Debug)]
pub struct Live {
    net: Net,
    watch: Watch,
    /// By switch, in the order of the fabric's.
    clocks: Vec<Clock>,
    /// By port.
    rises: Vec<Rise>,
    /// By port.
    marks: Vec<Marks>,
}

impl Live {
    /// Nothing was read yet of the switches of this cluster.
    #[must_use]
    pub fn new(cluster: &Cluster<'_>) -> Self {
        let net = Net::of(cluster);
        let (switches, ports) = (net.switches.len(), net.ports.len());
        let (clocks, rises) = (vec![Clock::default(); switches], vec![Rise::default(); ports]);
        let marks = vec![Marks::default(); ports];
        Live { watch: Watch::new(&net.plane, 0), net, clocks, rises, marks }
    }

    /// Takes what a switch has read of its ports. `read_ms` is the time of that by the switch's clock, 0 where it does not say; `now_ms` is when
    /// it is heard. Ports that the fabric document has not are left out.
    pub fn take<'a>(
        &mut self,
        switch: &str,
        read_ms: u64,
        now_ms: u64,
        samples: impl IntoIterator<Item = Sample<'a>>,
    ) {
        let Some(own) = self.net.index(switch) else { return };
        let at = self.clocks[own].heard(read_ms, now_ms);
        if self.clocks[own].has_jumped() {
            self.net.of_switch(own).for_each(|port| self.marks[port.0 as usize].forget());
        }
        for sample in samples {
            let Some(port) = self.net.port(own, sample.port) else { continue };
            let counted = sample.lossless.unwrap_or_default();
            let totals = [sample.damaged, sample.link_changes, counted.drops, counted.storms];
            self.rises[port.0 as usize].take(at, sample.is_up, totals);
            // A counter that is not there, or not yet, is 0; counting from that, all marks of its life would be new.
            if counted.marked > 0 {
                self.marks[port.0 as usize].take(at, counted.marked);
            }
            if sample.mbps > 0 {
                self.watch.set_rate(port, sample.mbps);
            }
            // A queue of which nobody counts the bytes cannot be told from one that stands still.
            if let Some(lossless) =
                sample.lossless.filter(|lossless| lossless.sent_bytes > 0 && sample.mbps > 0)
            {
                let counter = |value| Counter { value, bits: 64 };
                let (paused, sent) = (counter(lossless.paused_us), counter(lossless.sent_bytes));
                self.watch.take(port, Reading { at, paused, sent, is_queued: lossless.waiting_bytes > 0 });
            }
        }
    }

    /// Ports of a switch whose link is up, of those that were read lately.
    #[must_use]
    pub fn up(&self, switch: &str, now_ms: u64) -> (usize, usize) {
        let Some(own) = self.net.index(switch) else { return (0, 0) };
        let read = self.net.of_switch(own).filter_map(|port| self.rises[port.0 as usize].is_up(now_ms));
        read.fold((0, 0), |(up, all), is_up| (up + usize::from(is_up), all + 1))
    }

    /// What is wrong by the counters of ports, by switch, and by what `nics` say of their end.
    #[must_use]
    pub fn findings(&self, now_ms: u64, nics: &NicReports) -> BTreeMap<String, Vec<Finding>> {
        let mut found: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
        let mut add = |switch: &str, port: Option<&str>, symptom: Symptom| {
            let problem = Problem::Port(symptom);
            let finding = match port {
                Some(port) => Finding::of_port(switch, port, problem),
                None => Finding::of(switch, problem),
            };
            found.entry(switch.to_owned()).or_default().push(finding);
        };
        for verdict in judge(&self.net.plane, &self.watch, now_ms) {
            let (switch, port, symptom) = self.storm(&verdict, now_ms);
            add(switch, port, symptom);
        }
        let received = self.received(nics);
        for port in self.net.plane.ports() {
            let (switch, name) = self.net.name(port);
            for symptom in self.rises[port.0 as usize].symptoms(now_ms) {
                add(switch, Some(name), symptom);
            }
            for symptom in self.joined(port, now_ms, nics, received) {
                add(switch, Some(name), symptom);
            }
        }
        found
    }

    /// A port of the switch stands still, as far as is known.
    #[must_use]
    pub fn is_stopped(&self, switch: &str, now_ms: u64) -> bool {
        let Some(own) = self.net.index(switch) else { return false };
        self.net.of_switch(own).any(|port| self.watch.stopped_for(port, now_ms) > 0)
    }

    /// Storms that there are now: the port or switch where each began, and what is seen.
    #[must_use]
    pub fn storms(&self, now_ms: u64) -> Vec<(String, Symptom)> {
        let said = |verdict: &Verdict| {
            let (switch, port, symptom) = self.storm(verdict, now_ms);
            (port.map_or_else(|| switch.to_owned(), |port| format!("{switch}/{port}")), symptom)
        };
        judge(&self.net.plane, &self.watch, now_ms).iter().map(said).collect()
    }

    fn storm(&self, verdict: &Verdict, now_ms: u64) -> (&str, Option<&str>, Symptom) {
        let stopped = verdict.stopped;
        let place = |port: &PortId| {
            let (switch, name) = self.net.name(*port);
            format!("{switch}/{name}")
        };
        match &verdict.cause {
            Cause::Nic { port, .. } => {
                let (switch, name) = self.net.name(*port);
                let seconds = self.watch.stopped_for(*port, now_ms) / 1000;
                let peer = self.nic(*port).map(|(server, nic, _)| (server.to_string(), nic.to_string()));
                let (server, nic) = peer.unwrap_or_default();
                (switch, Some(name), Symptom::Storm { server, nic, seconds, stopped })
            }
            Cause::Switch { switch, port } => {
                (self.net.switch(*switch), None, Symptom::SwitchStorm { port: place(port), stopped })
            }
            Cause::Deadlock { ports } => {
                let (switch, name) = ports.first().map(|port| self.net.name(*port)).unwrap_or_default();
                let ports: Vec<String> = ports.iter().map(place).collect();
                (switch, Some(name), Symptom::Deadlock { ports: ports.join(", ") })
            }
            Cause::Unread { switch } => (self.net.switch(*switch), None, Symptom::StormBeyond { stopped }),
        }
    }

    fn nic(&self, port: PortId) -> Option<(&Name, &Name, u32)> {
        match &self.net.ports[port.0 as usize].peer {
            Peer::Nic { server, nic, rail } => Some((server, nic, *rail)),
            Peer::Switch { .. } => None,
        }
    }

    /// Congestion notifications that arrived at all NICs together, since a leaf may serve several rails; none where one of them does not say.
    fn received(&self, nics: &NicReports) -> Option<u64> {
        let ports = self.net.plane.ports().filter_map(|port| self.nic(port));
        let mut each = ports.map(|(server, _, rail)| report(nics, server, rail).received);
        each.try_fold(0_u64, |all, own| Some(all.saturating_add(own?)))
    }

    /// What a leaf's port and the NIC behind it show together.
    fn joined(&self, port: PortId, now_ms: u64, nics: &NicReports, received: Option<u64>) -> Vec<Symptom> {
        let Some((server, nic, rail)) = self.nic(port) else { return Vec::new() };
        let said = report(nics, server, rail);
        let interval = self.watch.last(port, now_ms).filter(|interval| !interval.is_stopped);
        let both = Both {
            port_paused: interval.map_or(0, |interval| interval.paused),
            host_stalls: said.host_stalls.map(u64::from),
            marked: self.marks[port.0 as usize].settled(now_ms),
            notified: said.sent,
            handled: received,
        };
        let percent = (both.port_paused + 5) / 10;
        let marked = both.marked;
        let sent = said.sent.unwrap_or_default();
        let symptom = |join| {
            let (server, nic) = (server.to_string(), nic.to_string());
            match join {
                Join::HostMemory => Symptom::Paused { percent, server, nic, by_host: true },
                Join::SlowReceiver => Symptom::Paused { percent, server, nic, by_host: false },
                Join::MarksUnanswered => Symptom::MarksUnanswered { marked, server, nic },
                Join::NotificationsLost => Symptom::NotificationsLost { marked, server, nic, sent },
            }
        };
        join(&both).into_iter().map(symptom).collect()
    }
}

fn report(nics: &NicReports, server: &Name, rail: u32) -> NicReport {
    nics.get(server.as_str()).and_then(|rails| rails.get(&rail)).copied().unwrap_or_default()
}
