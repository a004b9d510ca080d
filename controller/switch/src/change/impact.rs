//! What a change of a setting does to traffic. Where SONiC's orchestration agent, its buffer manager and FRR take a setting while packets
//! flow it is hitless; the others are named with the reason. What SONiC's updater does on the way counts as well: ports that it shuts, and
//! changes that it refuses, so that the whole database is loaded anew.

use std::fmt;

use proto_model::sonic::{self, Part, Step};

use crate::render::tables::{ConfigDb, Field};

/// What a change does to traffic, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Impact {
    /// Nothing.
    Hitless,
    /// Packets of a queue are dropped while it is set up anew.
    QueueDrain,
    /// The link of a port goes down and comes back.
    LinkFlap,
    /// Packets are lost until routes have converged.
    TrafficLoss,
    /// A daemon starts again; forwarding goes on.
    DaemonRestart,
    /// The switch starts again, or all of its services do: nothing is forwarded for minutes.
    Reboot,
}

impl fmt::Display for Impact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hitless => "hitless",
            Self::QueueDrain => "queue drain",
            Self::LinkFlap => "link flap",
            Self::TrafficLoss => "traffic loss",
            Self::DaemonRestart => "daemon restart",
            Self::Reboot => "reboot",
        })
    }
}

/// A rule: table, field (empty: every field), what it does and why.
type Rule = (&'static str, &'static str, Impact, &'static str);

/// The first that fits is taken. SONiC: orchagent (`qosorch`, `bufferorch`, `portsorch`, `pfcwdorch`), `buffermgrd` and minigraph's order of
/// tables in the generic config updater.
const RULES: &[Rule] = &[
    ("PORT", "speed", Impact::LinkFlap, "the port is shut down and brought up with the new speed"),
    (
        "PORT",
        "lanes",
        Impact::Reboot,
        "lanes are given to ports when the switch starts, or by a breakout that removes the port",
    ),
    (
        "PORT",
        "mtu",
        Impact::Hitless,
        "the port's limit is raised or lowered in place; packets above a lower limit are dropped",
    ),
    ("PORT", "admin_status", Impact::LinkFlap, "the link goes down or comes up"),
    ("PORT", "", Impact::LinkFlap, "the port is set up anew"),
    (
        "PORT_QOS_MAP",
        "pfc_enable",
        Impact::QueueDrain,
        "the lossless queue is set up anew, and packets in it are dropped",
    ),
    ("PORT_QOS_MAP", "pfcwd_sw_enable", Impact::Hitless, "the watchdog begins or ends to look at the queue"),
    (
        "PORT_QOS_MAP",
        "dscp_to_tc_map",
        Impact::QueueDrain,
        "packets of a DSCP change their queue, and may be out of order",
    ),
    ("PORT_QOS_MAP", "", Impact::QueueDrain, "packets change their queue or group, and may be out of order"),
    (
        "DSCP_TO_TC_MAP",
        "",
        Impact::QueueDrain,
        "packets of a DSCP change their queue, and may be out of order",
    ),
    ("TC_TO_QUEUE_MAP", "", Impact::QueueDrain, "packets change their queue, and may be out of order"),
    (
        "TC_TO_PRIORITY_GROUP_MAP",
        "",
        Impact::QueueDrain,
        "packets change their priority group while some are in the old one",
    ),
    (
        "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
        "",
        Impact::QueueDrain,
        "pauses are sent for another group at once",
    ),
    ("MAP_PFC_PRIORITY_TO_QUEUE", "", Impact::QueueDrain, "pauses stop another queue at once"),
    ("QUEUE", "wred_profile", Impact::Hitless, "marking of new packets only"),
    ("QUEUE", "scheduler", Impact::Hitless, "the share of the queue changes with the next packet"),
    ("SCHEDULER", "", Impact::Hitless, "the share of the queue changes with the next packet"),
    ("WRED_PROFILE", "", Impact::Hitless, "marking of new packets only"),
    ("PFC_WD", "", Impact::Hitless, "the watchdog begins to count anew"),
    ("CABLE_LENGTH", "", Impact::QueueDrain, "the buffer manager sets the headroom of the port anew"),
    ("BUFFER_POOL", "mode", Impact::Reboot, "the mode of a pool is set when the switch starts"),
    ("BUFFER_POOL", "type", Impact::Reboot, "the type of a pool is set when the switch starts"),
    ("BUFFER_POOL", "", Impact::QueueDrain, "a pool that shrinks drops what is above its new size"),
    ("BUFFER_PROFILE", "pool", Impact::Reboot, "a profile keeps its pool until the switch starts again"),
    ("BUFFER_PROFILE", "", Impact::QueueDrain, "a group whose share shrinks drops what is above it"),
    ("BUFFER_PG", "", Impact::QueueDrain, "the priority group is set up anew, and packets in it are dropped"),
    ("BUFFER_QUEUE", "", Impact::QueueDrain, "the queue is set up anew, and packets in it are dropped"),
    (
        "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
        "",
        Impact::QueueDrain,
        "the buffer manager sets every headroom anew",
    ),
    ("LOSSLESS_TRAFFIC_PATTERN", "", Impact::QueueDrain, "the buffer manager sets every headroom anew"),
    ("DEVICE_METADATA", "buffer_model", Impact::Reboot, "the buffer model is chosen when the switch starts"),
    ("DEVICE_METADATA", "bgp_asn", Impact::TrafficLoss, "all BGP sessions end and begin again"),
    (
        "DEVICE_METADATA",
        "docker_routing_config_mode",
        Impact::DaemonRestart,
        "the routing container is started again to heed it",
    ),
    ("DEVICE_METADATA", "hostname", Impact::Hitless, "a name"),
    ("LOOPBACK_INTERFACE", "", Impact::TrafficLoss, "routes to the old address are withdrawn"),
];

/// Tables of which SONiC's updater changes no row while the port that the key begins with is up: it shuts the port, and brings it up again
/// (`RequiredValueIdentifier` in `generic_config_updater/patch_sorter.py` of sonic-utilities).
const SHUT: [&str; 6] = [
    "BUFFER_PG",
    "BUFFER_PORT_EGRESS_PROFILE_LIST",
    "BUFFER_PORT_INGRESS_PROFILE_LIST",
    "BUFFER_QUEUE",
    "PORT_QOS_MAP",
    "QUEUE",
];
const WHY_SHUT: &str = "SONiC's updater shuts the port for this change, and brings it up again";

/// Tables of which a row more changes nothing by itself, whatever its fields do in a row that is there.
const MORE: [(&str, Impact, &str); 1] =
    [("BUFFER_PROFILE", Impact::Hitless, "a profile more; what is to refer to it is named for itself")];

/// What happens to a setting of SONiC's tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) table: &'a str,
    pub(super) key: &'a str,
    /// Empty: the row is all.
    pub(super) field: &'a str,
    /// What of the table is added, changed or removed with it.
    pub(super) part: Part<'a>,
    pub(super) step: Step,
}

/// What a change of a setting does on a switch that is set to `found`, and why: the most of what the setting itself does and of what the updater
/// does on its way.
pub(super) fn of(setting: &Setting<'_>, found: &ConfigDb) -> (Impact, &'static str) {
    let Setting { table, key, field, part, step } = *setting;
    let more = MORE.iter().find(|more| more.0 == table && matches!(part, Part::Row(_)) && step == Step::Add);
    let mut most = more.map_or_else(|| rule(table, field), |more| (more.1, more.2));
    let port = key.split('|').next().unwrap_or_default();
    if SHUT.contains(&table) && most.0 < Impact::LinkFlap && is_up(found, port) {
        most = (Impact::LinkFlap, WHY_SHUT);
    }
    match sonic::needs_reload(table, part, step) {
        Some(why) => (Impact::Reboot, why),
        None => most,
    }
}

/// As the updater takes it: a port of which nothing is said is down.
fn is_up(found: &ConfigDb, port: &str) -> bool {
    let row = found.0.get("PORT").and_then(|ports| ports.get(port));
    row.and_then(|row| row.get("admin_status")).and_then(Field::text).is_some_and(|status| status != "down")
}

/// What a change of `field` of a row of `table` does. What no rule names is taken for the worst that forwarding survives.
fn rule(table: &str, field: &str) -> (Impact, &'static str) {
    let fits = |rule: &&Rule| rule.0 == table && (rule.1.is_empty() || rule.1 == field);
    RULES
        .iter()
        .find(fits)
        .map_or((Impact::DaemonRestart, "nothing is known of this table"), |rule| (rule.2, rule.3))
}

/// Tables that rules name.
#[cfg(test)]
pub(super) fn tables() -> std::collections::BTreeSet<&'static str> {
    RULES.iter().map(|rule| rule.0).collect()
}
