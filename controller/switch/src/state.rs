//! What a switch is set to, in no vendor's words: as it should be (`desired`) and as it was read back (`read`). What is read may lack
//! anything or contradict itself; names of maps and profiles are gone, only what they come to is left.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
};

use proto_profile::{
    EcnThresholds, Watchdog, WatchdogAction,
    words::{PrioritySet, Trust, Tsa},
};

use crate::{bgp::Bfd, model::Name};

/// From a number to a number, such as DSCP to traffic class.
pub type Map = BTreeMap<u8, u8>;

/// Who works out the headroom of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum BufferModel {
    /// Whoever writes the configuration: groups have sizes.
    #[default]
    Static,
    /// The switch, from speed, length of cable and pattern of traffic.
    Dynamic,
}

/// A pool of buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pool {
    /// For what comes in, not for what goes out.
    pub ingress: bool,
    /// Shares follow from what is free, they are not fixed.
    pub dynamic: bool,
    /// Size in bytes; none where the switch works it out.
    pub size: Option<u64>,
    /// Of headroom that ports share, in bytes.
    pub xoff: Option<u64>,
}

/// How much of a pool a group or queue may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// This power of 2 times what is free.
    Alpha(i8),
    /// So many bytes.
    Bytes(u64),
}

/// The buffer of a group or queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Buffer {
    /// The pool that it takes from.
    pub pool: Name,
    /// What it has for itself, in bytes.
    pub size: u64,
    /// How much of the pool it may take.
    pub limit: Limit,
    /// Headroom in bytes, with which a group is lossless.
    pub xoff: Option<u64>,
    /// What has to be free before a pause ends, in bytes.
    pub xon: Option<u64>,
}

/// A priority group: what comes in on a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Lossless; the switch works its headroom out.
    Computed,
    /// As it is written.
    Fixed(Buffer),
}

/// How a queue is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheduler {
    /// Before all others.
    Strict,
    /// By share of what is left, with this weight.
    Share(u8),
}

/// When packets of a queue are marked or dropped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marking {
    /// Whether packets that can be marked are marked, not dropped.
    pub ecn: bool,
    /// Whether it is on at all.
    pub on: bool,
    /// When.
    pub at: EcnThresholds,
}

/// A queue: what goes out on a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Queue {
    /// How it is served.
    pub scheduler: Option<Scheduler>,
    /// When its packets are marked.
    pub marking: Option<Marking>,
    /// Its buffer.
    pub buffer: Option<Buffer>,
}

/// What the watchdog does at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortWatchdog {
    /// What is done.
    pub action: WatchdogAction,
    /// How long a queue is paused before, in ms.
    pub detection_ms: u32,
    /// How long it is not before that ends, in ms.
    pub restoration_ms: u32,
}

impl From<Watchdog> for PortWatchdog {
    fn from(dog: Watchdog) -> Self {
        let Watchdog { detection_ms, restoration_ms, action, .. } = dog;
        Self { action, detection_ms, restoration_ms }
    }
}

/// Class of service of a port. Ports that are equal in it are checked once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortQos {
    /// Traffic class of each DSCP; none where DSCPs are not looked at.
    pub dscp_to_tc: Option<Arc<Map>>,
    /// Priority group of each traffic class.
    pub tc_to_group: Option<Arc<Map>>,
    /// Queue of each traffic class.
    pub tc_to_queue: Option<Arc<Map>>,
    /// Priority group that makes the port send pauses of a priority.
    pub priority_to_group: Option<Arc<Map>>,
    /// Queue that a pause of a priority stops.
    pub priority_to_queue: Option<Arc<Map>>,
    /// Priorities with flow control.
    pub pfc: PrioritySet,
    /// Priorities that the watchdog looks at.
    pub watched: PrioritySet,
    /// What it does.
    pub watchdog: Option<PortWatchdog>,
    /// Priority groups.
    pub groups: BTreeMap<u8, Group>,
    /// Queues.
    pub queues: BTreeMap<u8, Queue>,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortState {
    /// Lanes of the ASIC.
    pub lanes: Vec<u16>,
    /// Speed in Gbit/s; none where it is not set.
    pub speed: Option<u32>,
    /// MTU in bytes.
    pub mtu: u32,
    /// Whether it is switched on.
    pub up: bool,
    /// Length of the cable in metres, as the switch was told.
    pub cable_m: Option<u16>,
    /// Class of service.
    pub qos: PortQos,
}

/// A speed in words, for messages.
#[must_use]
pub fn speed_in_words(gbit: Option<u32>) -> String {
    gbit.map_or_else(|| "no speed".to_owned(), |gbit| format!("{gbit} Gbit/s"))
}

/// What lossless traffic is like, where the switch works headroom out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    /// The largest packet in bytes.
    pub mtu: u32,
    /// How many of 100 are of the smallest size.
    pub small_packet_percent: u8,
}

/// Routing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routing {
    /// Number of the autonomous system.
    pub asn: u32,
    /// Router id.
    pub router_id: Ipv4Addr,
    /// Ports with a neighbour.
    pub neighbors: BTreeSet<Name>,
    /// How fast a dead one is noticed; none without BFD.
    pub bfd: Option<Bfd>,
    /// Addresses that are announced, each alone.
    pub networks: BTreeSet<Ipv4Addr>,
    /// Whether neighbours are told of tenants' networks (EVPN).
    pub evpn: bool,
    /// Whether this switch's own tenants' networks are.
    pub advertises_vnis: bool,
}

/// All that a switch is set to, of what railyard sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchState {
    /// Its name.
    pub name: Name,
    /// Number of its autonomous system, as the switch's own tables have it.
    pub asn: Option<u32>,
    /// Its loopback.
    pub loopback: Option<Ipv4Addr>,
    /// Who works headroom out.
    pub model: BufferModel,
    /// What lossless traffic is like.
    pub pattern: Option<Pattern>,
    /// Alpha of groups whose headroom the switch works out.
    pub default_alpha: Option<i8>,
    /// How many ports share the headroom of one.
    pub headroom_shared_by: Option<u8>,
    /// Pools by name.
    pub pools: BTreeMap<Name, Pool>,
    /// How often the watchdog looks, in ms.
    pub poll_ms: Option<u32>,
    /// Ports by name.
    pub ports: BTreeMap<Name, PortState>,
    /// Routing; none where it was not read.
    pub routing: Option<Routing>,
}

/// Class of service of a NIC, as its agent reports it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NicState {
    /// Speed in Gbit/s.
    pub speed: u32,
    /// MTU in bytes.
    pub mtu: u32,
    /// What it reads a packet's priority from.
    pub trust: Trust,
    /// Priority of each DSCP.
    pub dscp_to_priority: Arc<Map>,
    /// Priorities with flow control.
    pub pfc: PrioritySet,
    /// Traffic class of each priority.
    pub priority_tc: [u8; 8],
    /// How each traffic class is served.
    pub tsa: [Tsa; 8],
    /// Share of each, in percent.
    pub bandwidth: [u8; 8],
    /// ToS byte of RDMA data.
    pub tos: u8,
    /// DSCP of CNPs.
    pub cnp_dscp: u8,
    /// Priority of CNPs.
    pub cnp_priority: u8,
    /// Priorities on which marked packets are answered with CNPs.
    pub notification: PrioritySet,
    /// Priorities on which CNPs slow the sender down.
    pub reaction: PrioritySet,
}
