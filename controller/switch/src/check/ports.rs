//! Rules for the ports of switches: what the profile asks of each class, against what is set.

use std::sync::Arc;

use proto_profile::{
    QosProfile, VXLAN_BYTES,
    words::{Dscp, Priority, PrioritySet},
};

use super::{
    claim::{Claim, Packet, Traffic},
    facts::{headroom_needed, headroom_of, limit_of},
    fault::{Fault, Setting, Trial, shown},
};
use crate::{
    buffer::BufferPlan,
    desired,
    model::{Peer, Port, Switch},
    state::{Limit, Map, Marking, PortState, Scheduler, SwitchState, speed_in_words},
};

/// What the rules look at.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) profile: &'a QosProfile,
    pub(super) switch: &'a Switch,
    pub(super) plan: &'a BufferPlan,
    pub(super) port: &'a Port,
    pub(super) state: &'a SwitchState,
    pub(super) found: &'a PortState,
}

type Rule = fn(&Subject<'_>) -> Option<Fault>;

/// The rules, in the order in which a packet meets what they are about.
const RULES: [Rule; 11] =
    [link, classes, groups, queues, flow_control, headroom, pool, limits, schedulers, marking, watchdog];

/// The first fault of a port.
pub(super) fn fault(subject: &Subject<'_>) -> Option<Fault> {
    RULES.iter().find_map(|rule| rule(subject))
}

/// A packet of this DSCP, as large as servers send.
pub(super) fn packet(profile: &QosProfile, dscp: Dscp) -> Packet {
    let spec = profile.spec();
    let lossless = spec.is_lossless(profile.priority_of(dscp));
    Packet {
        dscp: dscp.get(),
        ect: lossless,
        bytes: if lossless { spec.switch.lossless_mtu } else { spec.mtu },
    }
}

/// A DSCP whose packets are in this class of switches; that of data or CNPs where it is theirs.
pub(super) fn dscp_of(profile: &QosProfile, class: Priority) -> Option<Dscp> {
    let spec = profile.spec();
    let is_in = |dscp: &Dscp| spec.switch_class(profile.priority_of(*dscp)) == class;
    [spec.data_dscp, spec.cnp_dscp].into_iter().chain(Dscp::all()).find(is_in)
}

pub(super) const fn traffic(profile: &QosProfile) -> Traffic {
    let end = &profile.spec().switch;
    Traffic {
        lossless_mtu: end.lossless_mtu,
        small_packet_percent: end.small_packet_percent,
        shared_by: end.headroom_shared_by,
    }
}

/// Where packets of a class should be.
fn classed(profile: &QosProfile, class: Priority) -> Claim {
    let group = if profile.spec().is_lossless(class) { class.get() } else { 0 };
    Claim::Classed { tc: class.get(), group, queue: class.get() }
}

/// What shows that packets of `dscp` are not where they should be.
fn misplaced(profile: &QosProfile, dscp: Dscp) -> Vec<Trial> {
    let class = profile.spec().switch_class(profile.priority_of(dscp));
    let packet = packet(profile, dscp);
    let lossless = profile.spec().is_lossless(class);
    let worst = if lossless { Claim::NotLost(traffic(profile)) } else { Claim::NeverPaused };
    vec![(packet, worst), (packet, classed(profile, class))]
}

/// The same for a class.
fn class_misplaced(profile: &QosProfile, class: Priority) -> Vec<Trial> {
    dscp_of(profile, class).map_or(Vec::new(), |dscp| misplaced(profile, dscp))
}

/// Whether it is up, as fast as its cable, and carries what servers send.
fn link(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, port, found, .. } = subject;
    let spec = profile.spec();
    let fabric = matches!(port.peer, Peer::Switch { .. });
    let outer = if spec.switch.vxlan { VXLAN_BYTES } else { 0 };
    let large = Packet { dscp: 0, ect: false, bytes: spec.mtu };
    let trials = vec![(large, Claim::Arrives { outer })];
    if !found.up {
        return Some(Fault::new(Setting::Up, "down", "up", trials));
    }
    if port.speed.is_some() && found.speed != port.speed {
        return Some(Fault::new(
            Setting::Speed,
            speed_in_words(found.speed),
            speed_in_words(port.speed),
            trials,
        ));
    }
    let least = spec.mtu + if fabric { outer } else { 0 };
    let wanted = || format!("at least {least} (a packet of {} and {} around it)", spec.mtu, least - spec.mtu);
    (found.mtu < least).then(|| Fault::new(Setting::Mtu, found.mtu, wanted(), trials))
}

/// Traffic class of each DSCP.
fn classes(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, found, .. } = subject;
    let spec = profile.spec();
    let Some(map) = &found.qos.dscp_to_tc else {
        let trials = misplaced(profile, spec.data_dscp);
        return Some(Fault::new(Setting::Trust, "not by DSCP", "by DSCP", trials));
    };
    let order = [spec.data_dscp, spec.cnp_dscp].into_iter().chain(Dscp::all());
    order.into_iter().find_map(|dscp| {
        let wanted = spec.switch_class(profile.priority_of(dscp)).get();
        // What the map does not name is in the first class.
        let is = map.get(&dscp.get()).copied().unwrap_or(0);
        let fault = || Fault::new(Setting::Dscp(dscp.get()), is, wanted, misplaced(profile, dscp));
        (is != wanted).then(fault)
    })
}

/// What a traffic class is mapped to; what a map does not name is in the first group and queue.
fn mapped(map: Option<&Arc<Map>>, from: Priority) -> u8 {
    map.and_then(|map| map.get(&from.get()).copied()).unwrap_or(0)
}

/// What a priority is mapped to; itself without a map.
fn paused(map: Option<&Arc<Map>>, from: Priority) -> Option<u8> {
    map.map_or(Some(from.get()), |map| map.get(&from.get()).copied())
}

/// Group of each traffic class: its own where it is lossless, the first one else.
fn groups(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, found, .. } = subject;
    let spec = profile.spec();
    spec.switch_classes().into_iter().find_map(|class| {
        let wanted = if spec.is_lossless(class) { class.get() } else { 0 };
        let is = mapped(found.qos.tc_to_group.as_ref(), class);
        let fault = || Fault::new(Setting::Group(class.get()), is, wanted, class_misplaced(profile, class));
        (is != wanted).then(fault)
    })
}

/// Queue of each traffic class.
fn queues(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, found, .. } = subject;
    profile.spec().switch_classes().into_iter().find_map(|class| {
        let is = mapped(found.qos.tc_to_queue.as_ref(), class);
        let fault = || Fault::new(Setting::Queue(class.get()), is, class, class_misplaced(profile, class));
        (is != class.get()).then(fault)
    })
}

/// Packets of a priority that has flow control without need, and the claim that only these have.
pub(super) fn paused_too(profile: &QosProfile, extra: Priority) -> Vec<Trial> {
    let dscp = Dscp::all().find(|dscp| profile.priority_of(*dscp) == extra).unwrap_or(Dscp::of(0));
    let packet = packet(profile, dscp);
    vec![(packet, Claim::NeverPaused), (packet, Claim::OnlyPauses(profile.spec().pfc))]
}

/// Priorities with flow control, and what their pauses are made by and stop.
fn flow_control(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, found, .. } = subject;
    let (wanted, is) = (profile.spec().pfc, found.qos.pfc);
    if is != wanted {
        let lacks = wanted.iter().find(|one| !is.contains(*one)).map(|one| class_misplaced(profile, one));
        let extra = || is.iter().find(|one| !wanted.contains(*one)).map(|one| paused_too(profile, one));
        return Some(Fault::new(Setting::Pfc, is, wanted, lacks.or_else(extra).unwrap_or_default()));
    }
    wanted.iter().find_map(|class| {
        let group = paused(found.qos.priority_to_group.as_ref(), class);
        let queue = paused(found.qos.priority_to_queue.as_ref(), class);
        let own = Some(class.get());
        let text = format!("group {}, queue {}", shown(group), shown(queue));
        let wanted = format!("group {class}, queue {class}");
        let fault =
            || Fault::new(Setting::PauseMap(class.get()), text, wanted, class_misplaced(profile, class));
        (group != own || queue != own).then(fault)
    })
}

fn headroom(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, switch, port, state, found, .. } = *subject;
    let needed = headroom_needed(switch, port, found, traffic(profile))?;
    profile.spec().pfc.iter().find_map(|class| {
        let is = headroom_of(switch, state, found, class.get());
        let wanted = format!("at least {needed} bytes ({} m, {})", port.cable_m, speed_in_words(port.speed));
        let fault =
            || Fault::new(Setting::Headroom(class.get()), shown(is), wanted, class_misplaced(profile, class));
        is.is_none_or(|is| is < needed).then(fault)
    })
}

/// The pool of headroom, where groups have none of their own; the switch sizes it itself where it works headroom out.
fn pool(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, plan, state, found, .. } = *subject;
    profile.spec().pfc.iter().find_map(|class| {
        let Some(crate::state::Group::Fixed(buffer)) = found.qos.groups.get(&class.get()) else {
            return None;
        };
        let own = buffer.xoff.is_none_or(|xoff| buffer.size >= xoff);
        let pool = state.pools.get(&buffer.pool);
        let is = pool.and_then(|pool| pool.xoff).unwrap_or(0);
        let worked_out = pool.is_some_and(|pool| pool.size.is_none());
        let wanted = format!("at least {} bytes", plan.headroom_pool);
        let fault = || Fault::new(Setting::HeadroomPool, is, wanted, class_misplaced(profile, class));
        (!own && !worked_out && is < plan.headroom_pool).then(fault)
    })
}

/// When lossless groups pause, and that queues take what they let in.
fn limits(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, state, found, .. } = *subject;
    let end = &profile.spec().switch;
    let wanted = end.pause_bytes.map_or(Limit::Alpha(end.lossless_alpha), Limit::Bytes);
    profile.spec().pfc.iter().find_map(|class| {
        let trials = class_misplaced(profile, class);
        let is = limit_of(state, found, class.get());
        if is != Some(wanted) {
            let packet = trials.first().map(|(packet, _)| (*packet, Claim::Pauses(wanted)));
            let trials = packet.into_iter().collect();
            return Some(Fault::new(Setting::Limit(class.get()), shown(is), wanted, trials));
        }
        let buffer = found.qos.queues.get(&class.get()).and_then(|queue| queue.buffer.as_ref());
        let takes = buffer.is_some_and(|buffer| buffer.limit.takes_more_than(wanted));
        let text = shown(buffer.map(|buffer| buffer.limit));
        let more = format!("more than {wanted}");
        (!takes).then(|| Fault::new(Setting::QueueBuffer(class.get()), text, more, trials))
    })
}

fn schedulers(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, found, .. } = subject;
    profile.spec().switch_classes().into_iter().find_map(|class| {
        let wanted = desired::scheduler(profile, class);
        let is = found.qos.queues.get(&class.get()).and_then(|queue| queue.scheduler);
        let claim = Claim::Served { switch: wanted, nic: nic_scheduler(profile, class) };
        let trials = dscp_of(profile, class).map(|dscp| (packet(profile, dscp), claim)).into_iter().collect();
        let fault = || Fault::new(Setting::Scheduler(class.get()), shown(is), wanted, trials);
        (is != Some(wanted)).then(fault)
    })
}

/// How the NIC serves a priority: a share may be 0 there.
pub(super) fn nic_scheduler(profile: &QosProfile, priority: Priority) -> Scheduler {
    let spec = profile.spec();
    let tc = usize::from(spec.prio_tc[priority.index()]);
    match desired::scheduler(profile, priority) {
        Scheduler::Strict => Scheduler::Strict,
        Scheduler::Share(_) => Scheduler::Share(spec.bandwidth.get(tc).copied().unwrap_or(0)),
    }
}

fn marking(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, plan, port, found, .. } = *subject;
    let at = plan.ecn.get(&port.speed?)?.value;
    let wanted = Marking { ecn: true, on: true, at };
    profile.spec().pfc.iter().find_map(|class| {
        let is = found.qos.queues.get(&class.get()).and_then(|queue| queue.marking);
        let dscp = dscp_of(profile, class)?;
        // Where all are marked, where none is, between, and just below the end.
        let points = [at.kmax, at.kmin, at.kmin.midpoint(at.kmax), at.kmax - 1];
        let claim = |queue: u64| Claim::Marked { queue, share: wanted.share(queue) };
        let trials = points.into_iter().map(|queue| (packet(profile, dscp), claim(queue))).collect();
        (is != Some(wanted)).then(|| Fault::new(Setting::Marking(class.get()), shown(is), wanted, trials))
    })
}

fn watchdog(subject: &Subject<'_>) -> Option<Fault> {
    let Subject { profile, state, found, .. } = *subject;
    let spec = profile.spec();
    let dog = spec.switch.watchdog;
    let (poll_ms, lossless) = (dog.poll_ms, spec.pfc);
    let claim = Claim::StormEnds { dog: dog.into(), poll_ms, lossless };
    let lacks = lossless.iter().any(|one| !found.qos.watched.contains(one));
    let is_wrong = lacks || found.qos.watchdog != Some(dog.into()) || state.poll_ms != Some(poll_ms);
    let text = |watched: PrioritySet, dog: Option<crate::state::PortWatchdog>, poll: Option<u32>| {
        format!("priorities {watched}, {}, looking every {} ms", shown(dog), shown(poll))
    };
    let is = text(found.qos.watched, found.qos.watchdog, state.poll_ms);
    let wanted = text(lossless, Some(dog.into()), Some(poll_ms));
    let trials = vec![(packet(profile, spec.data_dscp), claim)];
    is_wrong.then(|| Fault::new(Setting::Watchdog, is, wanted, trials))
}
