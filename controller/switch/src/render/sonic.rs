//! SONiC's `config_db.json`. Sizes are bytes, all values texts, all DSCPs listed; platform, MAC address and SKU are the switch's own and
//! stay out: what is rendered is merged into what the switch has.

use std::sync::Arc;

use proto_profile::{EcnThresholds, WatchdogAction};

use super::{names::Names, tables::ConfigDb};
use crate::{
    model::Name,
    state::{
        Buffer, BufferModel, Group, Limit, Map, Marking, PortQos, PortState, Queue, Scheduler, SwitchState,
    },
};

/// The name of maps, and of the row that SONiC has for cables and traffic.
const MAP: &str = "RAIL";
const SITE: &str = "AZURE";

/// Names of what ports refer to.
#[derive(Default)]
struct Used {
    maps: [Names<Arc<Map>>; 5],
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
    let (mut db, mut used) = (ConfigDb::default(), Used::default());
    device(state, &mut db);
    for (name, port) in &state.ports {
        self::port(name, port, &mut db);
        qos(name, port, &mut used, &mut db);
    }
    named(&used, &mut db);
    db
}

fn device(state: &SwitchState, db: &mut ConfigDb) {
    const META: &str = "DEVICE_METADATA";
    db.set(META, "localhost", "hostname", &state.name);
    let model = if state.model == BufferModel::Dynamic { "dynamic" } else { "traditional" };
    db.set(META, "localhost", "buffer_model", model);
    db.set(META, "localhost", "docker_routing_config_mode", "split");
    if let Some(asn) = state.asn {
        db.set(META, "localhost", "bgp_asn", asn);
    }
    if let Some(address) = state.loopback {
        db.row("LOOPBACK_INTERFACE", "Loopback0");
        db.row("LOOPBACK_INTERFACE", &format!("Loopback0|{address}/32"));
    }
    if let Some(pattern) = state.pattern {
        db.set("LOSSLESS_TRAFFIC_PATTERN", SITE, "mtu", pattern.mtu);
        db.set("LOSSLESS_TRAFFIC_PATTERN", SITE, "small_packet_percentage", pattern.small_packet_percent);
    }
    if let Some(alpha) = state.default_alpha {
        db.set("DEFAULT_LOSSLESS_BUFFER_PARAMETER", SITE, "default_dynamic_th", alpha);
    }
    if let Some(ratio) = state.headroom_shared_by {
        db.set("DEFAULT_LOSSLESS_BUFFER_PARAMETER", SITE, "over_subscribe_ratio", ratio);
    }
    for (name, pool) in &state.pools {
        let name = name.as_str();
        db.set("BUFFER_POOL", name, "type", if pool.ingress { "ingress" } else { "egress" });
        db.set("BUFFER_POOL", name, "mode", if pool.dynamic { "dynamic" } else { "static" });
        if let Some(size) = pool.size {
            db.set("BUFFER_POOL", name, "size", size);
        }
        if let Some(xoff) = pool.xoff {
            db.set("BUFFER_POOL", name, "xoff", xoff);
        }
    }
    if let Some(poll) = state.poll_ms {
        db.set("PFC_WD", "GLOBAL", "POLL_INTERVAL", poll);
    }
}

fn port(name: &Name, port: &PortState, db: &mut ConfigDb) {
    let name = name.as_str();
    let lanes: Vec<String> = port.lanes.iter().map(ToString::to_string).collect();
    db.set("PORT", name, "lanes", lanes.join(","));
    if let Some(speed) = port.speed {
        db.set("PORT", name, "speed", u64::from(speed) * 1000);
    }
    db.set("PORT", name, "mtu", port.mtu);
    db.set("PORT", name, "admin_status", if port.up { "up" } else { "down" });
    if let Some(metres) = port.cable_m {
        db.set("CABLE_LENGTH", SITE, name, format!("{metres}m"));
    }
}

fn qos(name: &Name, port: &PortState, used: &mut Used, db: &mut ConfigDb) {
    const TABLE: &str = "PORT_QOS_MAP";
    let qos = &port.qos;
    let key = name.as_str();
    for (at, map) in maps(qos).into_iter().enumerate() {
        let Some(map) = map else { continue };
        let wanted = used.maps[at].name(map, MAP);
        db.set(TABLE, key, MAP_TABLES[at].1, wanted);
    }
    if !qos.pfc.is_empty() {
        db.set(TABLE, key, "pfc_enable", qos.pfc);
    }
    if !qos.watched.is_empty() {
        db.set(TABLE, key, "pfcwd_sw_enable", qos.watched);
    }
    if let Some(dog) = qos.watchdog {
        db.set("PFC_WD", key, "action", action(dog.action));
        db.set("PFC_WD", key, "detection_time", dog.detection_ms);
        db.set("PFC_WD", key, "restoration_time", dog.restoration_ms);
    }
    for (group, buffer) in &qos.groups {
        let profile = match buffer {
            Group::Computed => "NULL".to_owned(),
            Group::Fixed(buffer) => used.profiles.name(buffer, &group_profile(buffer, port)),
        };
        db.set("BUFFER_PG", &format!("{key}|{group}"), "profile", profile);
    }
    for (number, queue) in &qos.queues {
        self::queue(&format!("{key}|{number}"), port.speed, queue, used, db);
    }
}

/// SONiC's own name for a lossless group's profile: it finds them by it.
fn group_profile(buffer: &Buffer, port: &PortState) -> String {
    match (buffer.xoff, port.cable_m.zip(port.speed)) {
        (Some(_), Some((metres, speed))) => {
            format!("pg_lossless_{}_{metres}m_profile", u64::from(speed) * 1000)
        }
        (Some(_), None) => "pg_lossless_profile".to_owned(),
        (None, _) => "ingress_lossy_profile".to_owned(),
    }
}

fn queue(key: &str, speed: Option<u32>, queue: &Queue, used: &mut Used, db: &mut ConfigDb) {
    db.row("QUEUE", key);
    if let Some(scheduler) = queue.scheduler {
        let wanted = match scheduler {
            Scheduler::Strict => "strict".to_owned(),
            Scheduler::Share(weight) => format!("share{weight}"),
        };
        db.set("QUEUE", key, "scheduler", used.schedulers.name(&scheduler, &wanted));
    }
    if let Some(marking) = queue.marking {
        let wanted = speed.map_or_else(|| MAP.to_owned(), |speed| format!("{MAP}_{speed}G"));
        db.set("QUEUE", key, "wred_profile", used.markings.name(&marking, &wanted));
    }
    if let Some(buffer) = &queue.buffer {
        let lossless = buffer.pool.as_str() == crate::desired::EGRESS_LOSSLESS;
        let wanted = if lossless { "egress_lossless_profile" } else { "egress_lossy_profile" };
        db.set("BUFFER_QUEUE", key, "profile", used.profiles.name(buffer, wanted));
    }
}

/// What ports refer to by name.
fn named(used: &Used, db: &mut ConfigDb) {
    for (names, (table, _)) in used.maps.iter().zip(MAP_TABLES) {
        for (map, name) in names.iter() {
            db.row(table, name);
            map.iter().for_each(|(from, to)| db.set(table, name, &from.to_string(), to));
        }
    }
    for (scheduler, name) in used.schedulers.iter() {
        match scheduler {
            Scheduler::Strict => db.set("SCHEDULER", name, "type", "STRICT"),
            Scheduler::Share(weight) => {
                db.set("SCHEDULER", name, "type", "DWRR");
                db.set("SCHEDULER", name, "weight", weight);
            }
        }
    }
    used.markings.iter().for_each(|(marking, name)| wred(marking, name, db));
    for (buffer, name) in used.profiles.iter() {
        const TABLE: &str = "BUFFER_PROFILE";
        db.set(TABLE, name, "pool", &buffer.pool);
        db.set(TABLE, name, "size", buffer.size);
        match buffer.limit {
            Limit::Alpha(alpha) => db.set(TABLE, name, "dynamic_th", alpha),
            Limit::Bytes(bytes) => db.set(TABLE, name, "static_th", bytes),
        }
        for (field, value) in [("xoff", buffer.xoff), ("xon", buffer.xon)] {
            if let Some(value) = value {
                db.set(TABLE, name, field, value);
            }
        }
    }
}

fn wred(marking: &Marking, name: &str, db: &mut ConfigDb) {
    const TABLE: &str = "WRED_PROFILE";
    let EcnThresholds { kmin, kmax, pmax } = marking.at;
    db.set(TABLE, name, "ecn", if marking.ecn { "ecn_all" } else { "ecn_none" });
    for colour in ["green", "yellow", "red"] {
        db.set(TABLE, name, &format!("wred_{colour}_enable"), marking.on);
        db.set(TABLE, name, &format!("{colour}_min_threshold"), kmin);
        db.set(TABLE, name, &format!("{colour}_max_threshold"), kmax);
        db.set(TABLE, name, &format!("{colour}_drop_probability"), pmax);
    }
}

const fn action(action: WatchdogAction) -> &'static str {
    match action {
        WatchdogAction::Drop => "drop",
        WatchdogAction::Forward => "forward",
        WatchdogAction::Alert => "alert",
    }
}
