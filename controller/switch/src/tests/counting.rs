//! Counters of whole fabrics, and what they show.

use std::collections::BTreeMap;

use proto_model::{Fabric, ReasonCode, SwitchConfig};

use super::documents::document;
use crate::{
    cluster::{Cluster, Finding},
    live::{Live, Lossless, NicReport, NicReports, Sample},
    model::{Peer, Port},
};

/// Priority counters of a port that works.
fn well(second: u64) -> Lossless {
    Lossless {
        paused_us: 2_000 * second,
        sent_bytes: 1 + 1_000_000 * second,
        waiting_bytes: 900,
        drops: 0,
        storms: 0,
        marked: 0,
    }
}

/// A port that stands still.
fn stopped(second: u64) -> Lossless {
    Lossless {
        paused_us: 1_000_000 * second,
        sent_bytes: 1,
        waiting_bytes: 9_000,
        drops: 0,
        storms: 0,
        marked: 0,
    }
}

type Of<'a> = &'a dyn Fn(&str, &str, u64) -> Option<Lossless>;

/// Every port of every switch is read each second; the report is under way for a time that differs.
fn watched(fabric: &Fabric, seconds: u64, of: Of<'_>) -> Live {
    let cluster = Cluster::new(fabric, std::iter::empty::<&SwitchConfig>());
    let mut live = Live::new(&cluster);
    let names: Vec<String> = cluster.names().map(str::to_owned).collect();
    for second in 0..=seconds {
        for (index, name) in (0_u64..).zip(&names) {
            let ports = cluster.ports(name);
            let sample = |port: &Port| {
                let lossless = of(name, port.name.as_str(), second);
                (port.name.to_string(), lossless)
            };
            let read: Vec<_> = ports.iter().map(sample).collect();
            let samples = read.iter().map(|(port, lossless)| Sample {
                port,
                is_up: true,
                mbps: 400_000,
                lossless: *lossless,
                ..Sample::default()
            });
            let under_way = 5 + (second * 37 + index * 11) % 90;
            live.take(
                name,
                7_000_000 * index + 1_000 * second + 1,
                50_000 + 1_000 * second + under_way,
                samples,
            );
        }
    }
    live
}

/// A leaf, a port of it with a server, and that server and NIC.
fn victim(fabric: &Fabric) -> (String, String, String, String, u32) {
    let cluster = Cluster::new(fabric, std::iter::empty::<&SwitchConfig>());
    let leaf = &fabric.leaves[0];
    let found = cluster.ports(leaf.name.as_str()).into_iter().find_map(|port| match port.peer {
        Peer::Nic { server, nic, rail } => {
            Some((port.name.to_string(), server.to_string(), nic.to_string(), rail))
        }
        Peer::Switch { .. } => None,
    });
    let (port, server, nic, rail) = found.unwrap();
    (leaf.name.to_string(), port, server, nic, rail)
}

const NOW: u64 = 53_100;

fn codes(found: &BTreeMap<String, Vec<Finding>>) -> Vec<(String, ReasonCode)> {
    found.values().flatten().map(|finding| (finding.at.clone(), finding.problem.code())).collect()
}

#[test]
fn a_fabric_that_works_has_no_symptom() {
    let fabric = document();
    let live = watched(&fabric, 3, &|_, _, second| Some(well(second)));
    assert_eq!(live.findings(NOW, &NicReports::new()), BTreeMap::new());
    let leaf = fabric.leaves[0].name.as_str();
    let (up, all) = live.up(leaf, NOW);
    assert!(up > 0 && up == all);
    assert_eq!(live.up("nowhere", NOW), (0, 0));
    assert_eq!(live.up(leaf, NOW + 60_000), (0, 0));
    assert!(!live.is_stopped(leaf, NOW));
}

#[test]
fn the_server_that_started_a_storm_is_named_at_its_port() {
    let fabric = document();
    let (leaf, port, server, nic, _) = victim(&fabric);
    let storm = |switch: &str, own: &str, second: u64| {
        Some(if (switch, own) == (leaf.as_str(), port.as_str()) { stopped(second) } else { well(second) })
    };
    let live = watched(&fabric, 3, &storm);
    assert!(live.is_stopped(&leaf, NOW));
    let found = live.findings(NOW, &NicReports::new());
    let at = format!("switch/{leaf}/{port}");
    assert_eq!(codes(&found), [(at, ReasonCode::SwitchPauseStorm)]);
    let said = found[&leaf][0].problem.to_string();
    let begins = format!("{server} ({nic}) pauses this port without end, for 3 s by now; 1 ports");
    assert!(said.starts_with(&begins), "{said}");
    assert_eq!(live.storms(NOW)[0].0, format!("{leaf}/{port}"));
}

#[test]
fn a_switch_that_pauses_others_and_one_that_is_not_read_are_told_apart() {
    let fabric = document();
    let cluster = Cluster::new(&fabric, std::iter::empty::<&SwitchConfig>());
    let spine = "s0";
    let leaf = fabric.leaves[0].name.to_string();
    let up = cluster.ports(&leaf).into_iter().find_map(|port| match port.peer {
        Peer::Switch { switch, .. } if switch.as_str() == spine => Some(port.name.to_string()),
        _ => None,
    });
    let up = up.unwrap();
    let is = |switch: &str, own: &str| switch == leaf && own == up;
    let live = watched(&fabric, 3, &|switch, own, second| {
        Some(if is(switch, own) { stopped(second) } else { well(second) })
    });
    let found = live.findings(NOW, &NicReports::new());
    assert_eq!(codes(&found), [(format!("switch/{spine}"), ReasonCode::SwitchPauseStorm)]);
    assert!(found[spine][0].problem.to_string().contains(&format!("pauses {leaf}/{up} without end")));
    // The same, but of the spine nothing is counted.
    let live = watched(&fabric, 3, &|switch, own, second| match switch {
        _ if is(switch, own) => Some(stopped(second)),
        _ if switch == spine => None,
        _ => Some(well(second)),
    });
    let found = live.findings(NOW, &NicReports::new());
    assert!(found[spine][0].problem.to_string().contains("its ports are not read"), "{found:?}");
}

#[test]
fn a_server_that_pauses_its_port_is_told_with_what_it_says_itself() {
    let fabric = document();
    let (leaf, port, server, _, rail) = victim(&fabric);
    let slow = |switch: &str, own: &str, second: u64| {
        let paused_us = if (switch, own) == (leaf.as_str(), port.as_str()) { 430_000 * second } else { 0 };
        Some(Lossless { paused_us, ..well(second) })
    };
    let live = watched(&fabric, 3, &slow);
    let text = |stalls: Option<bool>| {
        let nic = NicReport { host_stalls: stalls, ..NicReport::default() };
        let found = live.findings(NOW, &BTreeMap::from([(server.clone(), BTreeMap::from([(rail, nic)]))]));
        assert_eq!(codes(&found), [(format!("switch/{leaf}/{port}"), ReasonCode::SwitchPortPaused)]);
        found[&leaf][0].problem.to_string()
    };
    assert!(text(None).ends_with("pauses this port for 43 % of the time"), "{}", text(None));
    assert!(
        text(Some(true)).contains("43 % of the time: its server's memory or PCIe"),
        "{}",
        text(Some(true))
    );
}

#[test]
fn queues_whose_bytes_nobody_counts_start_no_storm() {
    let fabric = document();
    let (leaf, port, ..) = victim(&fabric);
    let uncounted = |switch: &str, own: &str, second: u64| {
        let is = (switch, own) == (leaf.as_str(), port.as_str());
        Some(if is { Lossless { sent_bytes: 0, ..stopped(second) } } else { well(second) })
    };
    let live = watched(&fabric, 3, &uncounted);
    assert_eq!(live.findings(NOW, &NicReports::new()), BTreeMap::new());
}

/// All NICs of a fabric with the same counts, but for one.
fn nics(fabric: &Fabric, all: NicReport, one: (&str, u32, NicReport)) -> NicReports {
    let cluster = Cluster::new(fabric, std::iter::empty::<&SwitchConfig>());
    let mut reports = NicReports::new();
    for port in cluster.names().flat_map(|name| cluster.ports(name)) {
        let Peer::Nic { server, rail, .. } = port.peer else { continue };
        let said = if (server.as_str(), rail) == (one.0, one.1) { one.2 } else { all };
        reports.entry(server.to_string()).or_default().insert(rail, said);
    }
    reports
}

#[test]
fn marks_without_notifications_and_notifications_that_nobody_receives_are_told() {
    let fabric = document();
    let (leaf, port, server, nic, rail) = victim(&fabric);
    // Forty packets a second are marked on the way to one server.
    let marked = |switch: &str, own: &str, second: u64| {
        let is = (switch, own) == (leaf.as_str(), port.as_str());
        Some(Lossless { marked: if is { 40 * second } else { 0 }, ..well(second) })
    };
    let live = watched(&fabric, 200, &marked);
    let now = NOW + 197_000;
    let quiet = NicReport { sent: Some(0), received: Some(0), ..NicReport::default() };
    let findings = |all: NicReport, own: NicReport| {
        let found = live.findings(now, &nics(&fabric, all, (&server, rail, own)));
        assert!(codes(&found).iter().all(|(at, _)| *at == format!("switch/{leaf}/{port}")), "{found:?}");
        found
            .into_values()
            .flatten()
            .map(|one| (one.problem.code(), one.problem.to_string()))
            .collect::<Vec<_>>()
    };
    let unanswered = findings(quiet, quiet);
    assert_eq!((unanswered.len(), &unanswered[0].0), (1, &ReasonCode::SwitchMarksUnanswered));
    assert!(unanswered[0].1.contains(&format!("{server} ({nic})")), "{unanswered:?}");
    let sends = NicReport { sent: Some(500), ..quiet };
    let lost = findings(quiet, sends);
    assert_eq!((lost.len(), &lost[0].0), (1, &ReasonCode::SwitchNotificationsLost));
    assert!(lost[0].1.contains("has sent 500 notifications"), "{lost:?}");
    // Somebody receives some; one of the rail does not count them; the NIC does not count what it sends.
    assert_eq!(findings(NicReport { received: Some(1), ..quiet }, sends), []);
    assert_eq!(findings(quiet, NicReport { received: None, ..sends }), []);
    assert_eq!(findings(quiet, NicReport { sent: None, ..quiet }), []);
    assert_eq!(live.findings(now, &NicReports::new()), BTreeMap::new());
}
