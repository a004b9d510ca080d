//! What ports of switches count, looked at by the leader and stored nowhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use controller_switch::{
    cluster::{Finding, profile_of},
    live::{Live, Lossless, NicReports, Sample},
};
use proto_model::{NodeName, ServerUsage, SwitchName, Timestamp};
use proto_wire::v1;

use super::board::{Board, Inputs};

/// All that is known of switches by their reports; clones share it.
#[derive(Clone, Default)]
pub(crate) struct SwitchReports {
    /// What was read back of each.
    pub(crate) board: Board,
    /// What their ports count.
    pub(crate) ports: Ports,
}

/// Storms are looked for so often at most, in milliseconds.
const AGAIN: u64 = 500;

/// The ports of the switches of these inputs.
struct PortWatch {
    /// Of the inputs.
    key: u64,
    /// The lossless priority of the profile in force.
    priority: u32,
    live: Live,
    /// Storms that were logged, and when they were looked for.
    named: BTreeSet<String>,
    looked: u64,
}

impl PortWatch {
    fn new(inputs: &Inputs) -> Self {
        // A profile that cannot be read is told where switches are planned.
        let profile = profile_of(inputs.profile.as_deref()).unwrap_or_default();
        let priority = profile.spec().lossless_priority.get().into();
        let live = Live::new(&inputs.cluster());
        Self { key: inputs.key, priority, live, named: BTreeSet::new(), looked: 0 }
    }

    /// Logs each storm once.
    fn name_storms(&mut self, switch: &str, now: u64) {
        let is_due = now.saturating_sub(self.looked) >= AGAIN;
        if !is_due || (self.named.is_empty() && !self.live.is_stopped(switch, now)) {
            return;
        }
        self.looked = now;
        let storms = self.live.storms(now);
        for (place, symptom) in &storms {
            if !self.named.contains(place) {
                tracing::warn!(%place, %symptom, "a pause storm");
            }
        }
        self.named = storms.into_iter().map(|(place, _)| place).collect();
    }
}

/// What the counters of all ports show at one moment.
#[derive(Debug, Default)]
pub(crate) struct PortFindings {
    /// By switch: what is wrong.
    pub(crate) findings: BTreeMap<String, Vec<Finding>>,
    /// By switch: its ports whose link is up, and all that were read lately.
    pub(crate) up: BTreeMap<String, (usize, usize)>,
}

/// The ports of all switches.
#[derive(Clone, Default)]
pub(crate) struct Ports(Arc<Mutex<Option<PortWatch>>>);

impl Ports {
    fn with<T>(&self, inputs: &Inputs, read: impl FnOnce(&mut PortWatch) -> T) -> T {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = match held.take() {
            Some(watch) if watch.key == inputs.key => watch,
            _ => PortWatch::new(inputs),
        };
        read(held.insert(watch))
    }

    /// Takes in what a switch has read of its ports; blocks while the fabric's ports are worked out anew.
    pub(crate) fn take(
        &self,
        inputs: &Inputs,
        name: &SwitchName,
        read_ms: u64,
        now: Timestamp,
        ports: &[v1::SwitchPortStatus],
    ) {
        self.with(inputs, |watch| {
            let priority = watch.priority;
            let samples = ports.iter().map(|port| sample(port, priority));
            watch.live.take(name.as_str(), read_ms, now.0, samples);
            watch.name_storms(name.as_str(), now.0);
        });
    }

    /// What they show now, with what servers say of their NICs.
    pub(crate) fn shown(&self, inputs: &Inputs, now: Timestamp, nics: &NicReports) -> PortFindings {
        self.with(inputs, |watch| {
            let up = |switch: &SwitchName| (switch.to_string(), watch.live.up(switch.as_str(), now.0));
            let up = inputs.switches.iter().map(|switch| up(&switch.name)).collect();
            PortFindings { findings: watch.live.findings(now.0, nics), up }
        })
    }
}

/// What agents have said longer ago than so many milliseconds says nothing of what leaves have counted since. With what an agent takes (7 s for the sums,
/// 5 s between two reports) that is less than the 40 s on which both windows count.
const REPORTED: u64 = 20_000;

/// What servers say of their NICs: `stalled` are rails of servers that hold up their NICs themselves, `usages` what agents report.
pub(crate) fn nics(
    stalled: BTreeSet<(String, u32)>,
    usages: &[(NodeName, Arc<ServerUsage>)],
    now: Timestamp,
) -> NicReports {
    let mut all = NicReports::new();
    let is_new = |usage: &ServerUsage| now.0.abs_diff(usage.time.0) <= REPORTED;
    for (node, usage) in usages.iter().filter(|(_, usage)| is_new(usage)) {
        if usage.notifications.is_empty() {
            continue;
        }
        let own = all.entry(node.to_string()).or_default();
        for (rail, said) in &usage.notifications {
            let nic = own.entry(*rail).or_default();
            (nic.sent, nic.received) = (said.sent, said.received);
        }
    }
    for (server, rail) in stalled {
        all.entry(server).or_default().entry(rail).or_default().host_stalls = Some(true);
    }
    all
}

fn sample(port: &v1::SwitchPortStatus, priority: u32) -> Sample<'_> {
    let of_priority = port.priorities.iter().find(|one| one.priority == priority);
    let lossless = |one: &v1::SwitchPriorityCounters| Lossless {
        paused_us: one.paused_rx_us,
        sent_bytes: one.tx_bytes,
        waiting_bytes: one.watermark_bytes,
        drops: one.drops,
        storms: one.storms,
        marked: one.ecn_marked,
    };
    Sample {
        port: &port.name,
        is_up: port.up,
        mbps: port.speed_mbps,
        damaged: port.rx_errors.saturating_add(port.fec_uncorrectable),
        link_changes: port.link_changes,
        lossless: of_priority.map(lossless),
    }
}

#[cfg(test)]
mod tests {
    use controller_switch::live::NicReport;
    use proto_model::NicNotifications;

    use super::*;

    #[test]
    fn what_servers_say_of_their_nics_is_put_together() {
        let node = |name: &str| NodeName::new(name).unwrap();
        let said = NicNotifications { sent: Some(7), received: None };
        let counts = |time| {
            Arc::new(ServerUsage {
                time: Timestamp(time),
                notifications: [(1, said)].into(),
                ..ServerUsage::default()
            })
        };
        // That of n3 is old.
        let usages = [
            (node("n0"), counts(90_000)),
            (node("n1"), Arc::default()),
            (node("n3"), counts(89_999 - REPORTED)),
        ];
        let stalled = [("n0".to_owned(), 1), ("n2".to_owned(), 0)].into();
        let all = nics(stalled, &usages, Timestamp(90_000));
        let stalls = NicReport { host_stalls: Some(true), ..NicReport::default() };
        let expected = [
            ("n0".to_owned(), [(1, NicReport { sent: Some(7), ..stalls })].into()),
            ("n2".to_owned(), [(0, stalls)].into()),
        ];
        assert_eq!(all, expected.into());
    }
}
