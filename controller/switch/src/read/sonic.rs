//! SONiC's `config_db.json`, as far as we write it: references are followed to what they name.

use std::{collections::BTreeMap, sync::Arc};

use proto_profile::{
    EcnThresholds, WatchdogAction,
    words::{Priority, PrioritySet},
};

use super::{
    answer::{Read, Wrong},
    fields::{At, Tables, members},
    ports::Ports,
};
use crate::{
    render::{
        sonic::MAP_TABLES,
        tables::{ConfigDb, Row, Text},
    },
    state::{
        Buffer, BufferModel, Group, Limit, Map, Marking, Pattern, Pool, PortQos, PortState, PortWatchdog,
        Scheduler, SwitchState,
    },
};

/// What rows of ports refer to, by table and name.
#[derive(Default)]
struct Named {
    maps: [BTreeMap<Text, Arc<Map>>; 5],
    schedulers: BTreeMap<Text, Scheduler>,
    markings: BTreeMap<Text, Marking>,
    profiles: BTreeMap<Text, Buffer>,
}

/// Reads all tables.
///
/// # Errors
/// Every [`Wrong`] field.
pub(super) fn read(db: ConfigDb) -> Result<Read, Vec<Wrong>> {
    let mut tables = Tables { db, wrong: Vec::new(), unknown: Vec::new() };
    let state = device(&mut tables).map(|mut state| {
        let named = named(&mut tables);
        let mut ports = ports(&mut tables);
        port_maps(&mut tables, &named, &mut ports);
        watchdogs(&mut tables, &mut state.poll_ms, &mut ports);
        groups(&mut tables, &named, &mut ports);
        queues(&mut tables, &named, &mut ports);
        state.ports = ports.done();
        state
    });
    match state {
        Some(state) if tables.wrong.is_empty() => {
            Ok(Read { state, others: tables.db, unknown: tables.unknown })
        }
        _ => Err(tables.wrong),
    }
}

/// What the switch has as a whole.
fn device(tables: &mut Tables) -> Option<SwitchState> {
    const META: At<'_> = At::row("DEVICE_METADATA", "localhost");
    const MODELS: [(&str, BufferModel); 2] =
        [("dynamic", BufferModel::Dynamic), ("traditional", BufferModel::Static)];
    let mut meta = tables.table("DEVICE_METADATA").remove("localhost").unwrap_or_default();
    let Some(hostname) = tables.text(META, &mut meta, "hostname") else {
        tables.wrong(META, "hostname is missing");
        return None;
    };
    let name = tables.name(META, &hostname)?;
    let asn = tables.number(META, &mut meta, "bgp_asn");
    let model = tables.word(META, &mut meta, "buffer_model", &MODELS).unwrap_or_default();
    let loopback = tables.table("LOOPBACK_INTERFACE").into_keys().find_map(|key| {
        let address = key.strip_prefix("Loopback0|")?.strip_suffix("/32")?;
        address.parse().ok()
    });
    let mut state = SwitchState {
        name,
        asn,
        loopback,
        model,
        pattern: None,
        default_alpha: None,
        headroom_shared_by: None,
        pools: BTreeMap::new(),
        poll_ms: None,
        ports: BTreeMap::new(),
        routing: None,
    };
    traffic(tables, &mut state);
    pools(tables, &mut state);
    Some(state)
}

/// The pattern of lossless traffic, from which headroom is worked out.
fn traffic(tables: &mut Tables, state: &mut SwitchState) {
    const PATTERN: &str = "LOSSLESS_TRAFFIC_PATTERN";
    const DEFAULTS: &str = "DEFAULT_LOSSLESS_BUFFER_PARAMETER";
    if let Some((key, mut row)) = tables.table(PATTERN).pop_first() {
        let at = At::row(PATTERN, &key);
        let mtu = tables.needed(at, &mut row, "mtu");
        let small = tables.needed(at, &mut row, "small_packet_percentage");
        state.pattern =
            mtu.zip(small).map(|(mtu, small_packet_percent)| Pattern { mtu, small_packet_percent });
        tables.rest(at, &row);
    }
    if let Some((key, mut row)) = tables.table(DEFAULTS).pop_first() {
        let at = At::row(DEFAULTS, &key);
        state.default_alpha = tables.number(at, &mut row, "default_dynamic_th");
        state.headroom_shared_by = tables.number(at, &mut row, "over_subscribe_ratio");
        tables.rest(at, &row);
    }
}

fn pools(tables: &mut Tables, state: &mut SwitchState) {
    for (key, mut row) in tables.table("BUFFER_POOL") {
        let at = At::row("BUFFER_POOL", &key);
        let ingress =
            tables.word(at, &mut row, "type", &[("ingress", true), ("egress", false), ("both", false)]);
        let dynamic = tables.word(at, &mut row, "mode", &[("dynamic", true), ("static", false)]);
        let size = tables.number(at, &mut row, "size");
        let xoff = tables.number(at, &mut row, "xoff");
        let pool = Pool { ingress: ingress.unwrap_or(false), dynamic: dynamic.unwrap_or(true), size, xoff };
        if let Some(name) = tables.name(at, &key) {
            state.pools.insert(name, pool);
        }
        tables.rest(at, &row);
    }
}

/// Tables of what is referred to.
fn named(tables: &mut Tables) -> Named {
    let mut named = Named::default();
    for (at, (table, _)) in MAP_TABLES.into_iter().enumerate() {
        let from_max = if at == 0 { 63 } else { 7 };
        for (key, row) in tables.table(table) {
            let map = tables.map(At::row(table, &key), row, from_max, 7);
            named.maps[at].insert(key, Arc::new(map));
        }
    }
    for (key, mut row) in tables.table("SCHEDULER") {
        let at = At::row("SCHEDULER", &key);
        let weight = tables.number(at, &mut row, "weight");
        let strict = tables.word(at, &mut row, "type", &[("STRICT", true), ("DWRR", false), ("WRR", false)]);
        let share = Scheduler::Share(weight.unwrap_or(1));
        tables.rest(at, &row);
        named.schedulers.insert(key, if strict.unwrap_or(false) { Scheduler::Strict } else { share });
    }
    for (key, row) in tables.table("WRED_PROFILE") {
        if let Some(marking) = marking(tables, At::row("WRED_PROFILE", &key), row) {
            named.markings.insert(key, marking);
        }
    }
    for (key, row) in tables.table("BUFFER_PROFILE") {
        if let Some(buffer) = buffer(tables, At::row("BUFFER_PROFILE", &key), row) {
            named.profiles.insert(key, buffer);
        }
    }
    named
}

/// RoCE packets are green; the other colours are let be.
fn marking(tables: &mut Tables, at: At<'_>, mut row: Row) -> Option<Marking> {
    const ECN: [(&str, bool); 8] = [
        ("ecn_none", false),
        ("ecn_yellow", false),
        ("ecn_red", false),
        ("ecn_yellow_red", false),
        ("ecn_green", true),
        ("ecn_green_yellow", true),
        ("ecn_green_red", true),
        ("ecn_all", true),
    ];
    let ecn = tables.word(at, &mut row, "ecn", &ECN).unwrap_or(false);
    let on =
        tables.word(at, &mut row, "wred_green_enable", &[("true", true), ("false", false)]).unwrap_or(false);
    let kmin = tables.needed(at, &mut row, "green_min_threshold")?;
    let kmax = tables.needed(at, &mut row, "green_max_threshold")?;
    let pmax = tables.needed(at, &mut row, "green_drop_probability")?;
    row.retain(|field, _| !["yellow", "red"].iter().any(|colour| field.contains(colour)));
    tables.rest(at, &row);
    Some(Marking { ecn, on, at: EcnThresholds { kmin, kmax, pmax } })
}

fn buffer(tables: &mut Tables, at: At<'_>, mut row: Row) -> Option<Buffer> {
    let pool = tables.text(at, &mut row, "pool").unwrap_or_default();
    let pool = tables.name(at.field("pool"), bare(&pool))?;
    let size = tables.number(at, &mut row, "size").unwrap_or(0);
    let alpha = tables.number(at, &mut row, "dynamic_th").map(Limit::Alpha);
    let bytes = tables.number(at, &mut row, "static_th").map(Limit::Bytes);
    let (xoff, xon) = (tables.number(at, &mut row, "xoff"), tables.number(at, &mut row, "xon"));
    tables.rest(at, &row);
    Some(Buffer { pool, size, limit: alpha.or(bytes).unwrap_or(Limit::Bytes(0)), xoff, xon })
}

/// Older versions write references as `[TABLE|name]`.
fn bare(reference: &str) -> &str {
    let inner = reference.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    inner.and_then(|text| text.split_once('|')).map_or(reference, |(_, name)| name)
}

fn ports(tables: &mut Tables) -> Ports {
    let mut ports = Ports::default();
    for (key, mut row) in tables.table("PORT") {
        let at = At::row("PORT", &key);
        let lanes = tables.text(at, &mut row, "lanes").unwrap_or_default();
        let lanes = lanes.split(',').filter(|lane| !lane.is_empty());
        let lanes = lanes.filter_map(|lane| tables.parsed(at.field("lanes"), lane.trim())).collect();
        let speed: Option<u32> = tables.needed(at, &mut row, "speed");
        let mtu = tables.number(at, &mut row, "mtu").unwrap_or(9100);
        let up = tables.word(at, &mut row, "admin_status", &[("up", true), ("down", false)]).unwrap_or(false);
        let port = PortState {
            lanes,
            speed: speed.map(|mbps| mbps / 1000).filter(|speed| *speed > 0),
            mtu,
            up,
            cable_m: None,
            qos: PortQos::default(),
        };
        if let Some(name) = tables.name(at, &key) {
            ports.insert(name, port);
        }
    }
    for (site, row) in tables.table("CABLE_LENGTH") {
        for (port, length) in row {
            let at = At::row("CABLE_LENGTH", &site).field(&port);
            let metres = length.text().and_then(|text| text.strip_suffix('m')).unwrap_or_default();
            let metres = tables.parsed(at, metres);
            if let Some(port) = port_of(tables, &mut ports, at, &port) {
                port.cable_m = metres;
            }
        }
    }
    ports
}

/// The port of that name; noted where there is none.
fn port_of<'a>(
    tables: &mut Tables,
    ports: &'a mut Ports,
    at: At<'_>,
    name: &str,
) -> Option<&'a mut PortState> {
    let port = ports.get_mut(name);
    if port.is_none() {
        tables.wrong(at, format!("there is no port {name:?}"));
    }
    port
}

/// What a reference names; noted where there is nothing of that name.
fn referred<T: Clone>(tables: &mut Tables, at: At<'_>, things: &BTreeMap<Text, T>, name: &str) -> Option<T> {
    let found = things.get(bare(name)).cloned();
    if found.is_none() {
        tables.wrong(at, format!("refers to {name:?}, which is not there"));
    }
    found
}

fn port_maps(tables: &mut Tables, named: &Named, ports: &mut Ports) {
    for (key, mut row) in tables.table("PORT_QOS_MAP") {
        // Of the switch as a whole; ports have their own.
        if key == "global" {
            continue;
        }
        let at = At::row("PORT_QOS_MAP", &key);
        let mut maps = MAP_TABLES.iter().zip(&named.maps).map(|((_, field), known)| {
            let name = tables.text(at, &mut row, field)?;
            referred(tables, at.field(field), known, &name)
        });
        let mut next = || maps.next().flatten();
        let found = (next(), next(), next(), next(), next());
        let pfc = priorities(tables, at, &mut row, "pfc_enable");
        let watched = priorities(tables, at, &mut row, "pfcwd_sw_enable");
        tables.rest(at, &row);
        let Some(port) = port_of(tables, ports, at, &key) else { continue };
        let qos = &mut port.qos;
        (qos.dscp_to_tc, qos.tc_to_group, qos.tc_to_queue, qos.priority_to_group, qos.priority_to_queue) =
            found;
        (qos.pfc, qos.watched) = (pfc, watched);
    }
}

/// A list such as `3,4`.
fn priorities(tables: &mut Tables, at: At<'_>, row: &mut Row, field: &str) -> PrioritySet {
    let text = tables.text(at, row, field).unwrap_or_default();
    let mut set = PrioritySet::EMPTY;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        match part.trim().parse().ok().and_then(|number| Priority::new(number).ok()) {
            Some(priority) => set = set.with(priority),
            None => tables.wrong(at.field(field), format!("{part:?} is no priority")),
        }
    }
    set
}

fn watchdogs(tables: &mut Tables, poll_ms: &mut Option<u32>, ports: &mut Ports) {
    const ACTIONS: [(&str, WatchdogAction); 3] = [
        ("drop", WatchdogAction::Drop),
        ("forward", WatchdogAction::Forward),
        ("alert", WatchdogAction::Alert),
    ];
    for (key, mut row) in tables.table("PFC_WD") {
        let at = At::row("PFC_WD", &key);
        if key == "GLOBAL" {
            *poll_ms = tables.number(at, &mut row, "POLL_INTERVAL");
            tables.rest(at, &row);
            continue;
        }
        let action = tables.word(at, &mut row, "action", &ACTIONS).unwrap_or(WatchdogAction::Drop);
        let detection_ms = tables.needed(at, &mut row, "detection_time");
        let restoration_ms = tables.number(at, &mut row, "restoration_time").unwrap_or(0);
        tables.rest(at, &row);
        let dog = detection_ms.map(|detection_ms| PortWatchdog { action, detection_ms, restoration_ms });
        if let Some(port) = port_of(tables, ports, at, &key) {
            port.qos.watchdog = dog;
        }
    }
}

fn groups(tables: &mut Tables, named: &Named, known: &mut Ports) {
    for (key, mut row) in tables.table("BUFFER_PG") {
        let at = At::row("BUFFER_PG", &key);
        let profile = tables.text(at, &mut row, "profile").unwrap_or_default();
        let group = match profile.as_str() {
            "NULL" => Some(Group::Computed),
            name => referred(tables, at, &named.profiles, name).map(Group::Fixed),
        };
        let Some((ports, numbers)) = members(&key) else {
            tables.wrong(at, "is no port and groups");
            continue;
        };
        for port in ports {
            let port = port_of(tables, known, at, port);
            if let (Some(port), Some(group)) = (port, &group) {
                port.qos.groups.extend(numbers.clone().map(|number| (number, group.clone())));
            }
        }
        tables.rest(at, &row);
    }
}

fn queues(tables: &mut Tables, named: &Named, ports: &mut Ports) {
    for (key, mut row) in tables.table("QUEUE") {
        let at = At::row("QUEUE", &key);
        let scheduler = tables.text(at, &mut row, "scheduler");
        let scheduler = scheduler.and_then(|name| referred(tables, at, &named.schedulers, &name));
        let marking = tables.text(at, &mut row, "wred_profile");
        let marking = marking.and_then(|name| referred(tables, at, &named.markings, &name));
        tables.rest(at, &row);
        each_queue(tables, ports, at, &key, |queue| {
            (queue.scheduler, queue.marking) = (scheduler, marking);
        });
    }
    for (key, mut row) in tables.table("BUFFER_QUEUE") {
        let at = At::row("BUFFER_QUEUE", &key);
        let profile = tables.text(at, &mut row, "profile").unwrap_or_default();
        let buffer = referred(tables, at, &named.profiles, &profile);
        tables.rest(at, &row);
        each_queue(tables, ports, at, &key, |queue| queue.buffer.clone_from(&buffer));
    }
}

fn each_queue(
    tables: &mut Tables,
    known: &mut Ports,
    at: At<'_>,
    key: &str,
    set: impl Fn(&mut crate::state::Queue),
) {
    let Some((ports, numbers)) = members(key) else {
        tables.wrong(at, "is no port and queues");
        return;
    };
    for port in ports {
        let Some(port) = port_of(tables, known, at, port) else { continue };
        numbers.clone().for_each(|number| set(port.qos.queues.entry(number).or_default()));
    }
}
