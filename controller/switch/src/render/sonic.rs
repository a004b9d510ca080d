//! SONiC's `config_db.json`. Sizes are bytes, all values texts, all DSCPs listed; platform, MAC address and SKU are the switch's own and
//! stay out: what is rendered is merged into what the switch has.

use std::{
    cmp::Ordering,
    fmt::{self, Write as _},
    sync::Arc,
};

use compact_str::{ToCompactString, format_compact};
use proto_profile::{EcnThresholds, WatchdogAction};

use super::{
    names::Names,
    tables::{ConfigDb, Draft, Text},
};
use crate::{
    model::Name,
    state::{
        Buffer, BufferModel, Group, Limit, Map, Marking, PortQos, PortState, Queue, Scheduler, SwitchState,
    },
};

/// The name of maps, and of the row that SONiC has for cables and traffic.
const MAP: &str = "RAIL";
const SITE: &str = "AZURE";

/// A map that ports share: the same one is equal without a look into it.
#[derive(Debug, Clone)]
struct SharedMap(Arc<Map>);

impl Ord for SharedMap {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for SharedMap {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SharedMap {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SharedMap {}

/// Names of what ports refer to.
#[derive(Default)]
struct Used {
    maps: [Names<SharedMap>; 5],
    schedulers: Names<Scheduler>,
    markings: Names<Marking>,
    profiles: Names<Buffer>,
}

/// Tables of maps with the fields of `PORT_QOS_MAP` that refer to them, in the order of [`maps`].
pub(crate) const MAP_TABLES: [(&str, &str); 5] = [
    ("DSCP_TO_TC_MAP", "dscp_to_tc_map"),
    ("TC_TO_PRIORITY_GROUP_MAP", "tc_to_pg_map"),
    ("TC_TO_QUEUE_MAP", "tc_to_queue_map"),
    ("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "pfc_to_pg_map"),
    ("MAP_PFC_PRIORITY_TO_QUEUE", "pfc_to_queue_map"),
];

const fn maps(qos: &PortQos) -> [Option<&Arc<Map>>; 5] {
    [
        qos.dscp_to_tc.as_ref(),
        qos.tc_to_group.as_ref(),
        qos.tc_to_queue.as_ref(),
        qos.priority_to_group.as_ref(),
        qos.priority_to_queue.as_ref(),
    ]
}

/// The tables of `state`.
#[must_use]
pub fn config_db(state: &SwitchState) -> ConfigDb {
    let (mut db, mut used) = (Draft::default(), Used::default());
    device(state, &mut db);
    for (name, port) in &state.ports {
        self::port(name, port, &mut db);
        qos(name, port, &mut used, &mut db);
    }
    for (key, port) in by_key(state) {
        classes(&key, port, &mut used, &mut db);
    }
    named(&used, &mut db);
    db.done()
}

fn device(state: &SwitchState, db: &mut Draft) {
    let model = if state.model == BufferModel::Dynamic { "dynamic" } else { "traditional" };
    db.fields("DEVICE_METADATA", "localhost")
        .set("hostname", &state.name)
        .set("buffer_model", model)
        .set("docker_routing_config_mode", "split")
        .set_some("bgp_asn", state.asn);
    if let Some(address) = state.loopback {
        db.fields("LOOPBACK_INTERFACE", "Loopback0");
        db.fields("LOOPBACK_INTERFACE", &format!("Loopback0|{address}/32"));
    }
    if let Some(pattern) = state.pattern {
        db.fields("LOSSLESS_TRAFFIC_PATTERN", SITE)
            .set("mtu", pattern.mtu)
            .set("small_packet_percentage", pattern.small_packet_percent);
    }
    if state.default_alpha.is_some() || state.headroom_shared_by.is_some() {
        db.fields("DEFAULT_LOSSLESS_BUFFER_PARAMETER", SITE)
            .set_some("default_dynamic_th", state.default_alpha)
            .set_some("over_subscribe_ratio", state.headroom_shared_by);
    }
    for (name, pool) in &state.pools {
        db.fields("BUFFER_POOL", name.as_str())
            .set("type", if pool.ingress { "ingress" } else { "egress" })
            .set("mode", if pool.dynamic { "dynamic" } else { "static" })
            .set_some("size", pool.size)
            .set_some("xoff", pool.xoff);
    }
    if let Some(poll) = state.poll_ms {
        db.set("PFC_WD", "GLOBAL", "POLL_INTERVAL", poll);
    }
}

fn port(name: &Name, port: &PortState, db: &mut Draft) {
    let name = name.as_str();
    let mut lanes = Text::default();
    for lane in &port.lanes {
        let comma = if lanes.is_empty() { "" } else { "," };
        // Writing into a text never fails.
        let _ = write!(lanes, "{comma}{lane}");
    }
    db.fields("PORT", name)
        .set("lanes", lanes)
        .set_some("speed", port.speed.map(|speed| u64::from(speed) * 1000))
        .set("mtu", port.mtu)
        .set("admin_status", if port.up { "up" } else { "down" });
    if let Some(metres) = port.cable_m {
        db.set("CABLE_LENGTH", SITE, name, format_compact!("{metres}m"));
    }
}

fn qos(name: &Name, port: &PortState, used: &mut Used, db: &mut Draft) {
    let qos = &port.qos;
    let key = name.as_str();
    let names = maps(qos).into_iter().zip(&mut used.maps);
    let names = names.map(|(map, used)| Some(used.name(&SharedMap(Arc::clone(map?)), MAP)));
    let names: Vec<_> = MAP_TABLES.iter().map(|(_, field)| field).zip(names).collect();
    let pfc = (!qos.pfc.is_empty()).then_some(qos.pfc);
    let watched = (!qos.watched.is_empty()).then_some(qos.watched);
    if pfc.is_some() || watched.is_some() || names.iter().any(|(_, name)| name.is_some()) {
        let fields = db.fields("PORT_QOS_MAP", key);
        let fields = names.into_iter().fold(fields, |fields, (field, name)| fields.set_some(field, name));
        fields.set_some("pfc_enable", pfc).set_some("pfcwd_sw_enable", watched);
    }
    if let Some(dog) = qos.watchdog {
        db.fields("PFC_WD", key)
            .set("action", action(dog.action))
            .set("detection_time", dog.detection_ms)
            .set("restoration_time", dog.restoration_ms);
    }
}

/// Ports with what keys of their groups and queues begin with, in the order of those keys, which is not that of the names: rows that come
/// in order need not be put in order.
fn by_key(state: &SwitchState) -> Vec<(Text, &PortState)> {
    let key = |(name, port)| (format_compact!("{name}|"), port);
    let mut ports: Vec<_> = state.ports.iter().map(key).collect();
    ports.sort_by(|a, b| a.0.cmp(&b.0));
    ports
}

/// Groups and queues of a port.
fn classes(key: &str, port: &PortState, used: &mut Used, db: &mut Draft) {
    for (group, buffer) in &port.qos.groups {
        let profile = match buffer {
            Group::Computed => "NULL".into(),
            Group::Fixed(buffer) => used.profiles.name(buffer, GroupProfile(buffer, port)),
        };
        db.set("BUFFER_PG", &format_compact!("{key}{group}"), "profile", profile);
    }
    for (number, queue) in &port.qos.queues {
        self::queue(&format_compact!("{key}{number}"), port.speed, queue, used, db);
    }
}

/// SONiC's own name for a lossless group's profile: it finds them by it.
struct GroupProfile<'a>(&'a Buffer, &'a PortState);

impl fmt::Display for GroupProfile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(buffer, port) = self;
        match (buffer.xoff, port.cable_m.zip(port.speed)) {
            (Some(_), Some((metres, speed))) => {
                write!(f, "pg_lossless_{}_{metres}m_profile", u64::from(speed) * 1000)
            }
            (Some(_), None) => f.write_str("pg_lossless_profile"),
            (None, _) => f.write_str("ingress_lossy_profile"),
        }
    }
}

fn queue(key: &str, speed: Option<u32>, queue: &Queue, used: &mut Used, db: &mut Draft) {
    let scheduler = queue.scheduler.map(|scheduler| match scheduler {
        Scheduler::Strict => used.schedulers.name(&scheduler, "strict"),
        Scheduler::Share(weight) => used.schedulers.name(&scheduler, format_args!("share{weight}")),
    });
    let marking = queue.marking.map(|marking| match speed {
        Some(speed) => used.markings.name(&marking, format_args!("{MAP}_{speed}G")),
        None => used.markings.name(&marking, MAP),
    });
    db.fields("QUEUE", key).set_some("scheduler", scheduler).set_some("wred_profile", marking);
    if let Some(buffer) = &queue.buffer {
        let lossless = buffer.pool.as_str() == crate::desired::EGRESS_LOSSLESS;
        let wanted = if lossless { "egress_lossless_profile" } else { "egress_lossy_profile" };
        db.set("BUFFER_QUEUE", key, "profile", used.profiles.name(buffer, wanted));
    }
}

/// What ports refer to by name.
fn named(used: &Used, db: &mut Draft) {
    for (names, (table, _)) in used.maps.iter().zip(MAP_TABLES) {
        for (SharedMap(map), name) in names.iter() {
            let row = db.fields(table, name);
            map.iter().fold(row, |row, (from, to)| row.set(&from.to_compact_string(), to));
        }
    }
    for (scheduler, name) in used.schedulers.iter() {
        let row = db.fields("SCHEDULER", name);
        match scheduler {
            Scheduler::Strict => row.set("type", "STRICT"),
            Scheduler::Share(weight) => row.set("type", "DWRR").set("weight", weight),
        };
    }
    used.markings.iter().for_each(|(marking, name)| wred(marking, name, db));
    for (buffer, name) in used.profiles.iter() {
        let row = db.fields("BUFFER_PROFILE", name).set("pool", &buffer.pool).set("size", buffer.size);
        let row = match buffer.limit {
            Limit::Alpha(alpha) => row.set("dynamic_th", alpha),
            Limit::Bytes(bytes) => row.set("static_th", bytes),
        };
        row.set_some("xoff", buffer.xoff).set_some("xon", buffer.xon);
    }
}

fn wred(marking: &Marking, name: &str, db: &mut Draft) {
    let EcnThresholds { kmin, kmax, pmax } = marking.at;
    let row = db.fields("WRED_PROFILE", name).set("ecn", if marking.ecn { "ecn_all" } else { "ecn_none" });
    ["green", "yellow", "red"].into_iter().fold(row, |row, colour| {
        row.set(&format!("wred_{colour}_enable"), marking.on)
            .set(&format!("{colour}_min_threshold"), kmin)
            .set(&format!("{colour}_max_threshold"), kmax)
            .set(&format!("{colour}_drop_probability"), pmax)
    });
}

const fn action(action: WatchdogAction) -> &'static str {
    match action {
        WatchdogAction::Drop => "drop",
        WatchdogAction::Forward => "forward",
        WatchdogAction::Alert => "alert",
    }
}
