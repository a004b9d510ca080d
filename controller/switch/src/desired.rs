//! What each switch and NIC should be set to: from the profile and the list of switches, by the planners.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proto_profile::{
    QosProfile,
    words::{Dscp, Priority, PrioritySet, Tsa},
};
use thiserror::Error;

use crate::{
    bgp::{self, Bgp, BgpRefusal},
    buffer::{self, BufferPlan, BufferRefusal, PortKind},
    model::{Name, NotAName, Port, Role, Switch},
    state::{
        Buffer, BufferModel, Group, Limit, Map, Marking, NicState, Pattern, Pool, PortQos, PortState, Queue,
        Routing, Scheduler, SwitchState,
    },
};

/// Why there is no desired state.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A buffer does not fit.
    #[error(transparent)]
    Buffer(#[from] BufferRefusal),
    /// Routing contradicts itself.
    #[error(transparent)]
    Bgp(#[from] BgpRefusal),
    /// A name that is used for pools is none.
    #[error(transparent)]
    Name(#[from] NotAName),
}

/// The pool of lossless groups, and of what may be lost as well.
pub const INGRESS: &str = "ingress_lossless_pool";
/// The pool of lossless queues.
pub const EGRESS_LOSSLESS: &str = "egress_lossless_pool";
/// The pool of queues that may lose packets.
pub const EGRESS_LOSSY: &str = "egress_lossy_pool";
/// A lossless queue may take all that its groups let in.
const EGRESS_ALPHA: i8 = 7;

/// The names of the three pools.
struct Pools {
    ingress: Name,
    egress_lossless: Name,
    egress_lossy: Name,
}

impl Pools {
    fn new() -> Result<Self, NotAName> {
        Ok(Self {
            ingress: Name::new(INGRESS)?,
            egress_lossless: Name::new(EGRESS_LOSSLESS)?,
            egress_lossy: Name::new(EGRESS_LOSSY)?,
        })
    }
}

/// The desired state of every switch, by name.
///
/// # Errors
/// Every [`Refusal`] of every switch at once.
pub fn plan(
    profile: &QosProfile,
    switches: &[Switch],
    model: BufferModel,
) -> Result<BTreeMap<Name, SwitchState>, Vec<Refusal>> {
    let pools = Pools::new().map_err(|why| vec![why.into()])?;
    let routing = bgp::plan(switches).map_err(|all| all.into_iter().map(Refusal::Bgp).collect::<Vec<_>>())?;
    let (mut states, mut wrong) = (BTreeMap::new(), Vec::new());
    for switch in switches {
        let Some(bgp) = routing.get(&switch.name) else { continue };
        match buffer::plan(switch, profile) {
            Ok(buffers) => {
                states.insert(switch.name.clone(), one(profile, switch, model, &buffers, bgp, &pools));
            }
            Err(why) => wrong.push(why.into()),
        }
    }
    if wrong.is_empty() { Ok(states) } else { Err(wrong) }
}

/// The desired state of one switch, whose routing is known.
///
/// # Errors
/// [`Refusal`] where its buffer cannot be divided.
pub fn single(
    profile: &QosProfile,
    switch: &Switch,
    model: BufferModel,
    bgp: &Bgp,
) -> Result<SwitchState, Refusal> {
    let buffers = buffer::plan(switch, profile)?;
    Ok(one(profile, switch, model, &buffers, bgp, &Pools::new()?))
}

/// The desired state of a switch of which only routing is set, and its ports' MTU.
#[must_use]
pub fn routed(profile: &QosProfile, switch: &Switch, bgp: &Bgp) -> SwitchState {
    let port = |port: &Port| (port.name.clone(), port_state(profile, port, PortQos::default()));
    SwitchState {
        name: switch.name.clone(),
        asn: Some(bgp.asn.value),
        loopback: Some(bgp.loopback.value),
        model: BufferModel::Static,
        pattern: None,
        default_alpha: None,
        headroom_shared_by: None,
        pools: BTreeMap::new(),
        poll_ms: None,
        ports: switch.ports.iter().map(port).collect(),
        routing: Some(routing(profile, switch, bgp)),
    }
}

/// The desired state of one switch.
fn one(
    profile: &QosProfile,
    switch: &Switch,
    model: BufferModel,
    buffers: &BufferPlan,
    bgp: &Bgp,
    pools: &Pools,
) -> SwitchState {
    let end = &profile.spec().switch;
    let is_dynamic = model == BufferModel::Dynamic;
    let mut kinds: BTreeMap<PortKind, PortQos> = BTreeMap::new();
    let shared = shared_qos(profile);
    let ports = switch.ports.iter().map(|port| {
        let qos = |kind: PortKind| {
            let new = || PortQos {
                groups: groups(profile, buffers, kind, model, pools),
                queues: queues(profile, buffers, kind.speed, pools),
                ..shared.clone()
            };
            kinds.entry(kind).or_insert_with(new).clone()
        };
        // Buffers were divided, so every speed is known.
        let qos = PortKind::of(port).map(qos).unwrap_or_default();
        (port.name.clone(), port_state(profile, port, qos))
    });
    SwitchState {
        name: switch.name.clone(),
        asn: Some(bgp.asn.value),
        loopback: Some(bgp.loopback.value),
        model,
        pattern: is_dynamic
            .then_some(Pattern { mtu: end.lossless_mtu, small_packet_percent: end.small_packet_percent }),
        default_alpha: is_dynamic.then_some(end.lossless_alpha),
        headroom_shared_by: (is_dynamic && end.headroom_shared_by > 0).then_some(end.headroom_shared_by),
        pools: pool_sizes(buffers, is_dynamic, pools),
        poll_ms: Some(end.watchdog.poll_ms),
        ports: ports.collect(),
        routing: Some(routing(profile, switch, bgp)),
    }
}

fn port_state(profile: &QosProfile, port: &Port, qos: PortQos) -> PortState {
    PortState {
        lanes: port.lanes.clone(),
        speed: port.speed,
        mtu: profile.spec().switch.mtu,
        up: true,
        cable_m: Some(port.cable_m),
        qos,
    }
}

fn routing(profile: &QosProfile, switch: &Switch, bgp: &Bgp) -> Routing {
    let evpn = profile.spec().switch.vxlan;
    Routing {
        asn: bgp.asn.value,
        router_id: bgp.loopback.value,
        neighbors: bgp.neighbors.clone(),
        bfd: Some(bgp.bfd),
        networks: BTreeSet::from([bgp.loopback.value]),
        evpn,
        advertises_vnis: evpn && switch.role == Role::Leaf,
    }
}

/// The three pools. Where the switch works headroom out, it works sizes out as well.
fn pool_sizes(plan: &BufferPlan, is_dynamic: bool, pools: &Pools) -> BTreeMap<Name, Pool> {
    let size = |bytes: u64| (!is_dynamic).then_some(bytes);
    let xoff = (!is_dynamic && plan.headroom_pool > 0).then_some(plan.headroom_pool);
    let pool = |ingress, size, xoff| Pool { ingress, dynamic: true, size, xoff };
    BTreeMap::from([
        (pools.ingress.clone(), pool(true, size(plan.shared), xoff)),
        (pools.egress_lossless.clone(), pool(false, size(plan.total.value), None)),
        (pools.egress_lossy.clone(), pool(false, size(plan.shared), None)),
    ])
}

/// What of class of service all ports have alike.
fn shared_qos(profile: &QosProfile) -> PortQos {
    let spec = profile.spec();
    let class = |dscp: Dscp| spec.switch_class(profile.priority_of(dscp)).get();
    let classes = spec.switch_classes();
    let own_group = |class: Priority| if spec.is_lossless(class) { class.get() } else { 0 };
    let same = |set: PrioritySet| set.iter().map(|one| (one.get(), one.get())).collect::<Map>();
    PortQos {
        dscp_to_tc: Some(Arc::new(Dscp::all().map(|dscp| (dscp.get(), class(dscp))).collect())),
        tc_to_group: Some(Arc::new(classes.iter().map(|class| (class.get(), own_group(*class))).collect())),
        tc_to_queue: Some(Arc::new(classes.iter().map(|class| (class.get(), class.get())).collect())),
        priority_to_group: Some(Arc::new(same(spec.pfc))),
        priority_to_queue: Some(Arc::new(same(spec.pfc))),
        pfc: spec.pfc,
        watched: spec.pfc,
        watchdog: Some(spec.switch.watchdog.into()),
        ..PortQos::default()
    }
}

fn groups(
    profile: &QosProfile,
    plan: &BufferPlan,
    kind: PortKind,
    model: BufferModel,
    pools: &Pools,
) -> BTreeMap<u8, Group> {
    let end = &profile.spec().switch;
    let lossy = Buffer {
        pool: pools.ingress.clone(),
        size: 0,
        limit: Limit::Alpha(end.lossy_alpha),
        xoff: None,
        xon: None,
    };
    let mut groups = BTreeMap::from([(0, Group::Fixed(lossy))]);
    let Some(headroom) = plan.groups.get(&kind) else { return groups };
    let limit = end.pause_bytes.map_or(Limit::Alpha(end.lossless_alpha), Limit::Bytes);
    for class in profile.spec().pfc.iter() {
        let fixed = Buffer {
            pool: pools.ingress.clone(),
            size: headroom.size,
            limit,
            xoff: Some(headroom.xoff),
            xon: Some(headroom.xon),
        };
        let computed = model == BufferModel::Dynamic && end.pause_bytes.is_none();
        groups.insert(class.get(), if computed { Group::Computed } else { Group::Fixed(fixed) });
    }
    groups
}

/// How the NIC serves the class of `priority`; the switch does so too.
#[must_use]
pub fn scheduler(profile: &QosProfile, priority: Priority) -> Scheduler {
    let spec = profile.spec();
    let tc = usize::from(spec.prio_tc[priority.index()]);
    match (spec.tsa.get(tc), spec.bandwidth.get(tc)) {
        // Weights of switches are from 1 on: a class without a share gets what nobody else wants.
        (Some(Tsa::Ets), Some(share)) => Scheduler::Share((*share).clamp(1, 100)),
        _ => Scheduler::Strict,
    }
}

fn queues(profile: &QosProfile, plan: &BufferPlan, speed: u32, pools: &Pools) -> BTreeMap<u8, Queue> {
    let spec = profile.spec();
    let marking = plan.ecn.get(&speed).map(|at| Marking { ecn: true, on: true, at: at.value });
    let queue = |class: Priority| {
        let lossless = spec.is_lossless(class);
        let (pool, alpha) = if lossless {
            (&pools.egress_lossless, EGRESS_ALPHA)
        } else {
            (&pools.egress_lossy, spec.switch.lossy_alpha)
        };
        let buffer =
            Buffer { pool: pool.clone(), size: 0, limit: Limit::Alpha(alpha), xoff: None, xon: None };
        Queue {
            scheduler: Some(scheduler(profile, class)),
            marking: marking.filter(|_| lossless),
            buffer: Some(buffer),
        }
    };
    spec.switch_classes().into_iter().map(|class| (class.get(), queue(class))).collect()
}

/// What a NIC of `speed` Gbit/s should be set to.
#[must_use]
pub fn nic(profile: &QosProfile, speed: u32) -> NicState {
    let spec = profile.spec();
    let priorities = Dscp::all().map(|dscp| (dscp.get(), profile.priority_of(dscp).get()));
    NicState {
        speed,
        mtu: spec.mtu,
        trust: spec.trust,
        dscp_to_priority: Arc::new(priorities.collect()),
        pfc: spec.pfc,
        priority_tc: spec.prio_tc,
        tsa: spec.tsa,
        bandwidth: spec.bandwidth,
        tos: spec.default_tos,
        cnp_dscp: spec.cnp_dscp.get(),
        cnp_priority: spec.cnp_priority.get(),
        notification: spec.dcqcn.notification,
        reaction: spec.dcqcn.reaction,
    }
}
