//! What the ports of switches count, looked at while it happens: who started a pause storm ([`crate::storm`]), which server pauses its port,
//! what was lost, damaged or flapped within the last one to two minutes.
//!
//! Contracts:
//! 1. What was not read says nothing: a port without counters is neither well nor unwell.
//! 2. Times are those of the readings, by each switch's own clock; the way of a report does not bend what a port counts.

mod clock;
mod net;
mod rise;
mod symptom;

use std::collections::BTreeMap;

use clock::Clock;
use net::Net;
use rise::Rise;
pub use symptom::Symptom;

use crate::{
    cluster::{Cluster, Finding, Problem},
    model::Peer,
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
}

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
}

impl Live {
    /// Nothing was read yet of the switches of this cluster.
    #[must_use]
    pub fn new(cluster: &Cluster<'_>) -> Self {
        let net = Net::of(cluster);
        let (clocks, rises) =
            (vec![Clock::default(); net.switches.len()], vec![Rise::default(); net.ports.len()]);
        Live { watch: Watch::new(&net.plane, 0), net, clocks, rises }
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
        for sample in samples {
            let Some(port) = self.net.port(own, sample.port) else { continue };
            let counted = sample.lossless.unwrap_or_default();
            let totals = [sample.damaged, sample.link_changes, counted.drops, counted.storms];
            self.rises[port.0 as usize].take(at, sample.is_up, totals);
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

    /// What is wrong by the counters of ports, by switch. `stalls` says of a server's rail whether the server holds up its NIC (PCIe, memory);
    /// `None` where that is not known.
    #[must_use]
    pub fn findings(
        &self,
        now_ms: u64,
        stalls: &dyn Fn(&str, u32) -> Option<bool>,
    ) -> BTreeMap<String, Vec<Finding>> {
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
        for port in self.net.plane.ports() {
            let (switch, name) = self.net.name(port);
            for symptom in self.symptoms(port, now_ms, stalls) {
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
                let (server, nic, _) = self.nic(*port).unwrap_or_default();
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

    fn nic(&self, port: PortId) -> Option<(String, String, u32)> {
        match &self.net.ports[port.0 as usize].peer {
            Peer::Nic { server, nic, rail } => Some((server.to_string(), nic.to_string(), *rail)),
            Peer::Switch { .. } => None,
        }
    }

    fn symptoms(
        &self,
        port: PortId,
        now_ms: u64,
        stalls: &dyn Fn(&str, u32) -> Option<bool>,
    ) -> Vec<Symptom> {
        let mut found = self.rises[port.0 as usize].symptoms(now_ms);
        let interval = self.watch.last(port, now_ms).filter(|interval| !interval.is_stopped);
        if let (Some(interval), Some((server, nic, rail))) = (interval, self.nic(port)) {
            let host_stalls = stalls(&server, rail).map(u64::from);
            let both = Both { port_paused: interval.paused, host_stalls, ..Both::default() };
            let percent = (interval.paused + 5) / 10;
            found.extend(join(&both).into_iter().filter_map(|join| match join {
                Join::HostMemory => {
                    Some(Symptom::Paused { percent, server: server.clone(), nic: nic.clone(), by_host: true })
                }
                Join::SlowReceiver => Some(Symptom::Paused {
                    percent,
                    server: server.clone(),
                    nic: nic.clone(),
                    by_host: false,
                }),
                Join::MarksUnanswered | Join::NotificationsLost => None,
            }));
        }
        found
    }
}
