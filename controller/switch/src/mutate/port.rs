//! Faults of ports.

use std::sync::Arc;

use proto_profile::{
    WatchdogAction,
    words::{Priority, PrioritySet},
};
use proto_random::Random;

use super::change::{PortChange, Site, other};
use crate::state::{Buffer, Group, Limit, Map, Marking, PortQos, PortState, PortWatchdog, Queue, Scheduler};

/// Every fault by name.
pub(super) const CHANGES: &[(&str, PortChange)] = &[
    ("a DSCP in another class", dscp),
    ("SONiC's stock map", stock),
    ("a DSCP left out", dscp_left_out),
    ("trust on layer 2", trust),
    ("a class in another group", group),
    ("a class in another queue", queue),
    ("a priority with or without PFC", pfc),
    ("PFC on 3 and 4, or their like", pfc_too_wide),
    ("pauses of another group", pause_group),
    ("pauses stop another queue", pause_queue),
    ("a pause that is mapped to nothing", pause_nowhere),
    ("headroom cut", headroom),
    ("no headroom", no_headroom),
    ("a group left out", no_group),
    ("another alpha", alpha),
    ("another scheduler", scheduler),
    ("no scheduler", no_scheduler),
    ("Kmin", kmin),
    ("Kmax", kmax),
    ("Pmax", pmax),
    ("a probability of 0", pmax_0),
    ("marks off", marks_off),
    ("drops instead of marks", drops),
    ("no marks", no_marks),
    ("a queue's limit", queue_limit),
    ("a queue without buffer", no_queue_buffer),
    ("pfcwd off", unwatched),
    ("no watchdog", no_watchdog),
    ("another action", action),
    ("another detection", detection),
    ("another restoration", restoration),
    ("a small MTU", mtu),
    ("down", down),
    ("another speed", speed),
    ("no class of service at all", nothing),
];

fn map(map: &mut Option<Arc<Map>>) -> Option<&mut Map> {
    map.as_mut().map(Arc::make_mut)
}

/// Sets `from` to another value below 8.
fn remap(map_of: &mut Option<Arc<Map>>, from: u8, random: &mut Random) -> Option<()> {
    let map = map(map_of)?;
    let to = other(random, map.get(&from).copied()?, 8);
    map.insert(from, to);
    Some(())
}

fn lossless(site: &Site<'_>, random: &mut Random) -> Option<Priority> {
    let all: Vec<Priority> = site.profile.spec().pfc.iter().collect();
    all.get(random.index(all.len())).copied()
}

fn class(site: &Site<'_>, random: &mut Random) -> Option<Priority> {
    let all = site.profile.spec().switch_classes();
    all.get(random.index(all.len())).copied()
}

fn dscp(_: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let dscp = u8::try_from(random.below(64)).ok()?;
    remap(&mut port.qos.dscp_to_tc, dscp, random)
}

/// What SONiC ships: the data's DSCP in a class that may lose packets.
fn stock(site: &Site<'_>, port: &mut PortState, _: &mut Random) -> Option<()> {
    let dscp = site.profile.spec().data_dscp.get();
    let lossy = Priority::all().find(|one| !site.profile.spec().is_lossless(*one))?;
    map(&mut port.qos.dscp_to_tc)?.insert(dscp, lossy.get());
    Some(())
}

/// One whose class is not the first, in which what is not named is.
fn dscp_left_out(_: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let map = map(&mut port.qos.dscp_to_tc)?;
    let all: Vec<u8> = map.iter().filter(|(_, tc)| **tc != 0).map(|(dscp, _)| *dscp).collect();
    map.remove(all.get(random.index(all.len()))?);
    Some(())
}

fn trust(_: &Site<'_>, port: &mut PortState, _: &mut Random) -> Option<()> {
    port.qos.dscp_to_tc = None;
    Some(())
}

fn group(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let class = class(site, random)?.get();
    remap(&mut port.qos.tc_to_group, class, random)
}

fn queue(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let class = class(site, random)?.get();
    remap(&mut port.qos.tc_to_queue, class, random)
}

fn pfc(_: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    port.qos.pfc = PrioritySet(port.qos.pfc.0 ^ 1 << random.below(8));
    Some(())
}

fn pfc_too_wide(site: &Site<'_>, port: &mut PortState, _: &mut Random) -> Option<()> {
    let spec = site.profile.spec();
    let next = Priority::of(spec.lossless_priority.get() + 1);
    port.qos.pfc = port.qos.pfc.with(next);
    Some(())
}

fn pause_group(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let one = lossless(site, random)?.get();
    remap(&mut port.qos.priority_to_group, one, random)
}

fn pause_queue(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let one = lossless(site, random)?.get();
    remap(&mut port.qos.priority_to_queue, one, random)
}

fn pause_nowhere(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let one = lossless(site, random)?.get();
    let qos = &mut port.qos;
    let of = if random.below(2) == 0 { &mut qos.priority_to_group } else { &mut qos.priority_to_queue };
    map(of)?.remove(&one);
    Some(())
}

fn fixed<'a>(site: &Site<'_>, qos: &'a mut PortQos, random: &mut Random) -> Option<&'a mut Buffer> {
    match qos.groups.get_mut(&lossless(site, random)?.get())? {
        Group::Fixed(buffer) => Some(buffer),
        Group::Computed => None,
    }
}

/// By a KiB or more; where the switch works headroom out, by a shorter cable.
fn headroom(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    if let Some(buffer) = fixed(site, &mut port.qos, random) {
        let xoff = buffer.xoff?;
        buffer.xoff = Some(xoff - random.within(1024, xoff / 2));
        return Some(());
    }
    // Half of a cable of 40 m is some KiB; half of one of 5 m may be none.
    let metres = port.cable_m.filter(|metres| *metres >= 30 && port.speed >= Some(100))?;
    port.cable_m = Some(metres / 2);
    Some(())
}

fn no_headroom(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    match fixed(site, &mut port.qos, random) {
        Some(buffer) => buffer.xoff = None,
        None => port.cable_m = None,
    }
    Some(())
}

fn no_group(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    port.qos.groups.remove(&lossless(site, random)?.get()).map(drop)
}

fn alpha(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let buffer = fixed(site, &mut port.qos, random)?;
    buffer.limit = match buffer.limit {
        Limit::Alpha(alpha) => Limit::Alpha(if alpha < 0 { alpha + 1 } else { alpha - 1 }),
        Limit::Bytes(bytes) => Limit::Bytes(bytes / 2),
    };
    Some(())
}

fn any_queue<'a>(site: &Site<'_>, qos: &'a mut PortQos, random: &mut Random) -> Option<&'a mut Queue> {
    qos.queues.get_mut(&class(site, random)?.get())
}

fn scheduler(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let queue = any_queue(site, &mut port.qos, random)?;
    queue.scheduler = Some(match queue.scheduler? {
        Scheduler::Strict => Scheduler::Share(u8::try_from(random.within(1, 100)).ok()?),
        Scheduler::Share(share) if random.below(2) == 0 => Scheduler::Share(share % 100 + 1),
        Scheduler::Share(_) => Scheduler::Strict,
    });
    Some(())
}

fn no_scheduler(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    any_queue(site, &mut port.qos, random)?.scheduler.take().map(drop)
}

fn marking<'a>(site: &Site<'_>, qos: &'a mut PortQos, random: &mut Random) -> Option<&'a mut Marking> {
    qos.queues.get_mut(&lossless(site, random)?.get())?.marking.as_mut()
}

fn kmin(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let at = &mut marking(site, &mut port.qos, random)?.at;
    at.kmin = if random.below(2) == 0 { at.kmin / 2 } else { at.kmin.midpoint(at.kmax) };
    Some(())
}

fn kmax(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let at = &mut marking(site, &mut port.qos, random)?.at;
    at.kmax = if random.below(2) == 0 { at.kmin.midpoint(at.kmax) } else { at.kmax * random.within(2, 64) };
    Some(())
}

fn pmax(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let at = &mut marking(site, &mut port.qos, random)?.at;
    at.pmax = at.pmax % 100 + 1;
    Some(())
}

fn pmax_0(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let at = &mut marking(site, &mut port.qos, random)?.at;
    at.pmax = 0;
    Some(())
}

fn marks_off(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    marking(site, &mut port.qos, random)?.on = false;
    Some(())
}

fn drops(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    marking(site, &mut port.qos, random)?.ecn = false;
    Some(())
}

fn no_marks(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    port.qos.queues.get_mut(&lossless(site, random)?.get())?.marking = None;
    Some(())
}

fn queue_limit(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let alpha = site.profile.spec().switch.lossless_alpha;
    let buffer = port.qos.queues.get_mut(&lossless(site, random)?.get())?.buffer.as_mut()?;
    // A share, however small, is more than a fixed length that is less than it.
    buffer.limit =
        if site.profile.spec().switch.pause_bytes.is_some() { Limit::Bytes(1) } else { Limit::Alpha(alpha) };
    Some(())
}

fn no_queue_buffer(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    port.qos.queues.get_mut(&lossless(site, random)?.get())?.buffer.take().map(drop)
}

fn unwatched(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    port.qos.watched = PrioritySet(port.qos.watched.0 & !(1 << lossless(site, random)?.get()));
    Some(())
}

fn no_watchdog(_: &Site<'_>, port: &mut PortState, _: &mut Random) -> Option<()> {
    port.qos.watchdog.take().map(drop)
}

fn dog(port: &mut PortState) -> Option<&mut PortWatchdog> {
    port.qos.watchdog.as_mut()
}

fn action(_: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    let all = [WatchdogAction::Drop, WatchdogAction::Forward, WatchdogAction::Alert];
    dog(port)?.action = *all.get(random.index(3))?;
    Some(())
}

fn detection(_: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    dog(port)?.detection_ms += u32::try_from(random.within(1, 4000)).ok()?;
    Some(())
}

fn restoration(_: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    dog(port)?.restoration_ms += u32::try_from(random.within(1, 4000)).ok()?;
    Some(())
}

fn mtu(site: &Site<'_>, port: &mut PortState, random: &mut Random) -> Option<()> {
    port.mtu = u32::try_from(random.within(1000, u64::from(site.profile.spec().mtu) - 1)).ok()?;
    Some(())
}

fn down(_: &Site<'_>, port: &mut PortState, _: &mut Random) -> Option<()> {
    port.up = false;
    Some(())
}

fn speed(_: &Site<'_>, port: &mut PortState, _: &mut Random) -> Option<()> {
    port.speed = Some(port.speed? / 2);
    Some(())
}

fn nothing(_: &Site<'_>, port: &mut PortState, _: &mut Random) -> Option<()> {
    port.qos = PortQos::default();
    Some(())
}
