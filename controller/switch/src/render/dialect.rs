//! Desired state as text to paste, for operating systems that are configured by commands. A dialect is a table of lines; a line with a
//! value that a class or port has not is left out, and so a table says what is written for whom. Nothing here knows an operating system.

mod tables;

use std::collections::BTreeMap;

pub use tables::{CUMULUS, EOS, NX_OS};

use crate::{
    model::{Name, Nos},
    state::{Marking, PortState, Scheduler, SwitchState},
};

/// What a part of a dialect is repeated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Each {
    /// Each traffic class of the port at hand.
    Class,
    /// Each speed that ports have, with one of these ports at hand.
    Speed,
    /// Each port.
    Port,
    /// Each port with a neighbour.
    Neighbor,
}

/// A part of a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// A line with `{values}`.
    Line(&'static str),
    /// Lines for each.
    Of(Each, &'static [Block]),
}

/// How an operating system is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Which one.
    pub nos: Nos,
    /// Its lines.
    pub blocks: &'static [Block],
}

/// Values that lines can have. A line with another one is a fault of the table, which a test finds.
pub const VALUES: [&str; 27] = [
    "name",
    "asn",
    "router_id",
    "poll",
    "evpn",
    "tc",
    "queue",
    "group",
    "dscps",
    "strict",
    "weight",
    "pfc",
    "kmin",
    "kmax",
    "pmax",
    "speed",
    "port",
    "mtu",
    "cable",
    "detection",
    "restoration",
    "watched",
    "action_drop",
    "bfd",
    "marked",
    "fast",
    "shared",
];

type Values = BTreeMap<&'static str, String>;

/// The text of `state` in `dialect`.
#[must_use]
pub fn text(dialect: &Dialect, state: &SwitchState) -> String {
    let mut out = String::new();
    let first = state.ports.values().next();
    blocks(dialect.blocks, state, first, &switch_values(state), &mut out);
    out
}

fn blocks(all: &[Block], state: &SwitchState, at: Option<&PortState>, values: &Values, out: &mut String) {
    for block in all {
        match block {
            Block::Line(line) => {
                if let Some(line) = filled(line, values) {
                    out.push_str(&line);
                    out.push('\n');
                }
            }
            Block::Of(each, inner) => {
                for (port, more) in members(*each, state, at) {
                    let mut values = values.clone();
                    values.extend(more);
                    blocks(inner, state, port, &values, out);
                }
            }
        }
    }
}

/// The line with its values; none where it has not all of them.
fn filled(line: &str, values: &Values) -> Option<String> {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        let (key, after) = after.split_once('}')?;
        out.push_str(before);
        out.push_str(values.get(key)?);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// What a part is repeated for, with the port at hand and the values of each.
fn members<'a>(
    each: Each,
    state: &'a SwitchState,
    at: Option<&'a PortState>,
) -> Vec<(Option<&'a PortState>, Values)> {
    match each {
        Each::Class => at.map_or(Vec::new(), |port| classes(port).map(|values| (at, values)).collect()),
        Each::Speed => {
            let speeds: BTreeMap<u32, &PortState> =
                state.ports.values().rev().filter_map(|port| Some((port.speed?, port))).collect();
            speeds
                .into_iter()
                .map(|(speed, port)| (Some(port), [("speed", speed.to_string())].into()))
                .collect()
        }
        Each::Port => state.ports.iter().map(|(name, port)| (Some(port), port_values(name, port))).collect(),
        Each::Neighbor => {
            let neighbors = state.routing.iter().flat_map(|routing| &routing.neighbors);
            neighbors.map(|port| (at, [("port", port.to_string())].into())).collect()
        }
    }
}

fn switch_values(state: &SwitchState) -> Values {
    let mut values = Values::from([("name", state.name.to_string())]);
    values.extend(state.poll_ms.map(|poll| ("poll", poll.to_string())));
    if let Some(routing) = &state.routing {
        values.insert("asn", routing.asn.to_string());
        values.insert("router_id", routing.router_id.to_string());
        values.extend(routing.evpn.then(|| ("evpn", String::new())));
        values.extend(routing.bfd.map(|bfd| ("bfd", bfd.transmit_ms.to_string())));
        values.extend(routing.bfd.map(|_| ("fast", String::new())));
    }
    let dog = state.ports.values().find_map(|port| port.qos.watchdog);
    if let Some(dog) = dog {
        values.insert("detection", dog.detection_ms.to_string());
        values.insert("restoration", dog.restoration_ms.to_string());
        let drops = dog.action == proto_profile::WatchdogAction::Drop;
        values.extend(drops.then(|| ("action_drop", String::new())));
    }
    values
}

fn port_values(name: &Name, port: &PortState) -> Values {
    let mut values = Values::from([("port", name.to_string()), ("mtu", port.mtu.to_string())]);
    values.extend(port.speed.map(|speed| ("speed", speed.to_string())));
    values.extend(port.cable_m.map(|metres| ("cable", metres.to_string())));
    values.extend((!port.qos.watched.is_empty()).then(|| ("watched", String::new())));
    values
}

/// The values of each traffic class of `port`.
fn classes(port: &PortState) -> impl Iterator<Item = Values> {
    let qos = &port.qos;
    qos.tc_to_queue.iter().flat_map(|map| map.iter()).map(|(tc, queue)| {
        let mut values = Values::from([("tc", tc.to_string()), ("queue", queue.to_string())]);
        let group = qos.tc_to_group.as_ref().and_then(|map| map.get(tc));
        values.extend(group.map(|group| ("group", group.to_string())));
        let dscps = qos.dscp_to_tc.iter().flat_map(|map| map.iter()).filter(|(_, to)| *to == tc);
        let dscps: Vec<String> = dscps.map(|(dscp, _)| dscp.to_string()).collect();
        values.insert("dscps", dscps.join(","));
        let pfc = qos.pfc.iter().any(|priority| priority.get() == *tc);
        values.extend(pfc.then(|| ("pfc", tc.to_string())));
        let Some(queue) = qos.queues.get(queue) else { return values };
        match queue.scheduler {
            Some(Scheduler::Strict) => values.extend([("strict", String::new())]),
            Some(Scheduler::Share(weight)) => {
                values.extend([("weight", weight.to_string()), ("shared", String::new())]);
            }
            None => {}
        }
        if let Some(Marking { ecn: true, on: true, at }) = queue.marking {
            values.insert("marked", String::new());
            values.insert("kmin", at.kmin.to_string());
            values.insert("kmax", at.kmax.to_string());
            values.insert("pmax", at.pmax.to_string());
        }
        values
    })
}
