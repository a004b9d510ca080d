//! A packet, walked over what was read back. Nothing here knows the profile: what a switch does with the packet follows from its settings
//! alone, and the claim says what it should.

use std::sync::Arc;

use proto_profile::{
    WatchdogAction,
    words::{Priority, Trust},
};

use super::{
    claim::{Claim, Packet, Traffic},
    facts::{Facts, headroom_needed, headroom_of, limit_of},
    nics::served,
    route::{Hop, Route, Site},
};
use crate::{
    model::{Name, Peer, Port, Switch},
    state::{Buffer, Group, Map, NicState, PortState, Scheduler, SwitchState, speed_in_words},
};

/// Where a claim breaks, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The device.
    pub at: String,
    /// What happens there.
    pub why: String,
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// What happens hop by hop.
    pub trace: Vec<String>,
    /// Where the claim breaks; none where it holds.
    pub broken: Option<Broken>,
}

/// A switch on the way with what was read of it.
struct Step<'a> {
    switch: &'a Switch,
    state: &'a SwitchState,
    into: (&'a Port, &'a PortState),
    out: (&'a Port, &'a PortState),
    /// Where the packet is in it.
    tc: u8,
    group: u8,
    queue: u8,
}

/// Everything on the way.
struct Walk<'a> {
    from: &'a NicState,
    to: &'a NicState,
    steps: Vec<Step<'a>>,
    packet: Packet,
}

fn broken(at: impl ToString, why: impl ToString) -> Broken {
    Broken { at: at.to_string(), why: why.to_string() }
}

/// Walks `packet` along `way` and says whether `claim` holds; `at` is the switch on the way at which a queue is long, where the claim is of
/// one.
#[must_use]
pub fn replay(
    site: &super::route::Site<'_>,
    facts: &Facts,
    route: &Route,
    at: usize,
    packet: Packet,
    claim: Claim,
) -> Replay {
    let (mut trace, walk) =
        (vec![format!("{}: sends {packet}", route.from)], walk(site, facts, route, packet));
    let walk = match walk {
        Ok(walk) => walk,
        Err(broken) => {
            trace.push(format!("{}: {}", broken.at, broken.why));
            return Replay { trace, broken: Some(broken) };
        }
    };
    for (hop, step) in route.hops.iter().zip(&walk.steps) {
        trace.push(step.describe(hop));
    }
    let broken = walk.claim(route, at, claim);
    match &broken {
        Some(broken) => trace.push(format!("{}: {}", broken.at, broken.why)),
        None => trace.push(format!("{}: it holds that {claim}", route.to)),
    }
    Replay { trace, broken }
}

/// What was read of all that is on the way.
fn walk<'a>(site: &'a Site<'a>, facts: &'a Facts, route: &Route, packet: Packet) -> Result<Walk<'a>, Broken> {
    let nic = |id| facts.nics.get(id).ok_or_else(|| broken(id, "nothing was read of this NIC"));
    let (from, to) = (nic(&route.from)?, nic(&route.to)?);
    let mut steps = Vec::new();
    for hop in &route.hops {
        let no = |port: &Name| {
            broken(format!("{} {port}", hop.switch), "nothing was read of this port; nothing passes it")
        };
        let switch = *site.get(&hop.switch).ok_or_else(|| no(&hop.in_port))?;
        let read = |name: &Name| {
            let (state, port) = facts.port(&hop.switch, name).ok_or_else(|| no(name))?;
            Ok((state, (switch.port(name).ok_or_else(|| no(name))?, port)))
        };
        let (state, into) = read(&hop.in_port)?;
        let (_, out) = read(&hop.out_port)?;
        let (tc, group, queue) = place(into.1, out.1, packet.dscp);
        steps.push(Step { switch, state, into, out, tc, group, queue });
    }
    Ok(Walk { from, to, steps, packet })
}

/// Where a packet is in a switch. Without trust in DSCPs all are in the first class; so is what a map does not name.
fn place(into: &PortState, out: &PortState, dscp: u8) -> (u8, u8, u8) {
    let of =
        |map: &Option<Arc<Map>>, from: u8| map.as_ref().and_then(|map| map.get(&from)).copied().unwrap_or(0);
    let tc = of(&into.qos.dscp_to_tc, dscp);
    (tc, of(&into.qos.tc_to_group, tc), of(&out.qos.tc_to_queue, tc))
}

/// What a priority is mapped to; itself without a map.
fn of_priority(map: Option<&Arc<Map>>, priority: u8) -> Option<u8> {
    map.map_or(Some(priority), |map| map.get(&priority).copied())
}

/// The priority in which a NIC sends a packet.
fn sent_in(nic: &NicState, dscp: u8) -> u8 {
    match nic.trust {
        Trust::Dscp => nic.dscp_to_priority.get(&dscp).copied().unwrap_or(0),
        // Routed packets have no VLAN tag.
        Trust::Pcp => 0,
    }
}

impl Step<'_> {
    fn describe(&self, hop: &Hop) -> String {
        let kind = match headroom_of(self.switch, self.state, self.into.1, self.group) {
            Some(bytes) => format!("lossless with {bytes} bytes of headroom"),
            None => "lossy".to_owned(),
        };
        let queue = self.out.1.qos.queues.get(&self.queue);
        let scheduler = queue.and_then(|queue| queue.scheduler);
        let served = scheduler.map_or_else(|| "not served by rule".to_owned(), |one| one.to_string());
        let marking =
            queue.and_then(|queue| queue.marking).map_or_else(|| "never marks".to_owned(), |m| m.to_string());
        format!(
            "{}: in by {}, traffic class {}, group {} ({kind}); out by {}, queue {} ({served}; {marking})",
            hop.switch, hop.in_port, self.tc, self.group, hop.out_port, self.queue
        )
    }

    /// Priorities whose pauses the port sends when the packet's group fills.
    fn pauses(&self) -> Vec<Priority> {
        let qos = &self.into.1.qos;
        let makes =
            |one: &Priority| of_priority(qos.priority_to_group.as_ref(), one.get()) == Some(self.group);
        qos.pfc.iter().filter(makes).collect()
    }

    /// Whether a pause of `priority` that comes in by the port that the packet leaves by stops its queue.
    fn obeys(&self, priority: Priority) -> bool {
        let qos = &self.out.1.qos;
        let stops = of_priority(qos.priority_to_queue.as_ref(), priority.get());
        qos.pfc.contains(priority) && stops == Some(self.queue)
    }

    fn loses(&self, traffic: Traffic) -> Option<String> {
        let Some(has) = headroom_of(self.switch, self.state, self.into.1, self.group) else {
            return Some(format!("group {} is lossy: a full port drops it", self.group));
        };
        let needs = headroom_needed(self.switch, self.into.0, self.into.1, traffic)?;
        if has < needs {
            return Some(format!(
                "{needs} bytes still come after a pause, {has} have room: the rest is dropped"
            ));
        }
        self.pool_loses(traffic).or_else(|| self.queue_loses())
    }

    /// Whether headroom that ports share is too small for what they all may need.
    fn pool_loses(&self, traffic: Traffic) -> Option<String> {
        let group = self.into.1.qos.groups.get(&self.group)?;
        let Group::Fixed(Buffer { pool, size, xoff: Some(xoff), .. }) = group else { return None };
        let pool = self.state.pools.get(pool);
        // The switch sizes pools itself that it was told no size of.
        if size >= xoff || pool.is_some_and(|pool| pool.size.is_none()) {
            return None;
        }
        let classes = self.into.1.qos.pfc.iter().count() as u64;
        let need =
            |port: &Port| headroom_needed(self.switch, port, self.into.1, traffic).unwrap_or(0) * classes;
        let all: u64 = self.switch.ports.iter().map(need).sum();
        let needs = all.div_ceil(u64::from(traffic.shared_by.max(1)));
        let has = pool.and_then(|pool| pool.xoff).unwrap_or(0);
        (has < needs)
            .then(|| format!("ports share {has} bytes of headroom and need {needs}: the rest is dropped"))
    }

    fn queue_loses(&self) -> Option<String> {
        let queue = self.out.1.qos.queues.get(&self.queue);
        let Some(buffer) = queue.and_then(|queue| queue.buffer.as_ref()) else {
            return Some(format!("queue {} has no buffer: it is dropped", self.queue));
        };
        let group = limit_of(self.state, self.into.1, self.group)?;
        if !buffer.limit.takes_more_than(group) {
            return Some(format!(
                "queue {} takes {}, its group {group}: it is dropped before a pause",
                self.queue, buffer.limit
            ));
        }
        let drops = queue.and_then(|queue| queue.marking).is_some_and(|one| one.on && !one.ecn);
        drops.then(|| format!("queue {} drops early instead of marking", self.queue))
    }
}

impl Walk<'_> {
    fn priority(&self) -> u8 {
        sent_in(self.from, self.packet.dscp)
    }

    /// Where and how a claim breaks.
    fn claim(&self, route: &Route, at: usize, claim: Claim) -> Option<Broken> {
        let each = |check: &dyn Fn(&Step<'_>) -> Option<String>| {
            let hops = route.hops.iter().zip(&self.steps);
            hops.into_iter().find_map(|(hop, step)| check(step).map(|why| broken(&hop.switch, why)))
        };
        match claim {
            Claim::Arrives { outer } => self.arrives(route, outer),
            Claim::NotLost(traffic) => self.not_lost(route, traffic),
            Claim::NeverPaused => self.paused(route),
            Claim::OnlyPauses(set) => {
                let own = self.from.pfc != set;
                let nic = own.then(|| broken(&route.from, format!("heeds pauses of {}", self.from.pfc)));
                let wrong = |step: &Step<'_>| {
                    let ends = [step.into.1.qos.pfc, step.out.1.qos.pfc];
                    ends.into_iter().find(|pfc| *pfc != set).map(|pfc| format!("heeds pauses of {pfc}"))
                };
                nic.or_else(|| each(&wrong))
            }
            Claim::SentIn(priority) => {
                let is = self.priority();
                (is != priority).then(|| broken(&route.from, format!("sends it in priority {is}")))
            }
            Claim::HasTos(tos) => {
                let is = self.from.tos;
                (is != tos).then(|| broken(&route.from, format!("sends RDMA data with ToS {is}")))
            }
            Claim::Classed { tc, group, queue } => each(&|step| {
                let is = (step.tc, step.group, step.queue);
                let text = || format!("it is in traffic class {}, group {}, queue {}", is.0, is.1, is.2);
                (is != (tc, group, queue)).then(text)
            }),
            Claim::Apart(dscp) => self.apart(route, dscp),
            Claim::Marked { queue, share } => self.marked(route, at, queue, share),
            Claim::Served { switch, nic } => self.served(route, switch, nic),
            Claim::StormEnds { dog, poll_ms, lossless } => each(&|step| {
                let (qos, poll) = (&step.out.1.qos, step.state.poll_ms);
                let unwatched = lossless.iter().find(|one| !qos.watched.contains(*one));
                if let Some(one) = unwatched {
                    return Some(format!("nobody watches priority {one}: a storm never ends"));
                }
                let Some(is) = qos.watchdog else {
                    return Some("no watchdog: a storm never ends".to_owned());
                };
                if is.action == WatchdogAction::Alert && dog.action != WatchdogAction::Alert {
                    return Some("a storm is told and does not end".to_owned());
                }
                let differs = is != dog || poll != Some(poll_ms);
                differs.then(|| format!("{is}, looking every {} ms", poll.unwrap_or(0)))
            }),
            Claim::Notified { dscp, priority } => self.notified(route, dscp, priority),
            Claim::Routed => self.unrouted(route),
            Claim::Pauses(limit) => each(&|step| {
                let is = limit_of(step.state, step.into.1, step.group);
                let text = || {
                    is.map_or_else(
                        || "its group is not there".to_owned(),
                        |is| format!("its group takes {is}"),
                    )
                };
                (is != Some(limit)).then(text)
            }),
        }
    }

    fn arrives(&self, route: &Route, outer: u32) -> Option<Broken> {
        let Packet { bytes, .. } = self.packet;
        if self.from.mtu < bytes {
            return Some(broken(
                &route.from,
                format!("MTU {}: a packet of {bytes} is not sent", self.from.mtu),
            ));
        }
        for (hop, step) in route.hops.iter().zip(&self.steps) {
            for (port, state) in [step.into, step.out] {
                let place = || format!("{} {}", hop.switch, port.name);
                let far = self.far_speed(route, port);
                if !state.up {
                    return Some(broken(place(), "the port is down"));
                }
                let is_other = |speed: Option<u32>| speed.is_some() && speed != state.speed;
                if is_other(far) || is_other(port.speed) {
                    return Some(broken(
                        place(),
                        format!("{} at one end alone: no link", speed_in_words(state.speed)),
                    ));
                }
                let extra = if matches!(port.peer, Peer::Switch { .. }) { outer } else { 0 };
                let all = bytes + extra;
                if state.mtu < all {
                    return Some(broken(place(), format!("MTU {}: a packet of {all} is dropped", state.mtu)));
                }
            }
        }
        (self.to.mtu < bytes)
            .then(|| broken(&route.to, format!("MTU {}: a packet of {bytes} is dropped", self.to.mtu)))
    }

    /// The speed of the NIC at the other end, where there is one.
    fn far_speed(&self, route: &Route, port: &Port) -> Option<u32> {
        let Peer::Nic { server, nic, .. } = &port.peer else { return None };
        let is = |id: &super::facts::NicId| id.server == *server && id.nic == *nic;
        match () {
            () if is(&route.from) => Some(self.from.speed),
            () if is(&route.to) => Some(self.to.speed),
            () => None,
        }
    }

    fn not_lost(&self, route: &Route, traffic: Traffic) -> Option<Broken> {
        let priority = self.priority();
        let mut before: Option<&Step<'_>> = None;
        for (hop, step) in route.hops.iter().zip(&self.steps) {
            if let Some(why) = step.loses(traffic) {
                return Some(broken(&hop.switch, why));
            }
            let pauses = step.pauses();
            if pauses.is_empty() {
                return Some(broken(
                    &hop.switch,
                    format!("group {} makes no pause: it is dropped", step.group),
                ));
            }
            let obeyed = |one: &Priority| match before {
                Some(before) => before.obeys(*one),
                None => self.from.pfc.contains(*one) && one.get() == priority,
            };
            if !pauses.iter().any(obeyed) {
                return Some(broken(&hop.switch, "whoever sends it does not obey the pause: it is dropped"));
            }
            before = Some(step);
        }
        let last = before?;
        let priority = Priority::new(sent_in(self.to, self.packet.dscp)).ok()?;
        if !self.to.pfc.contains(priority) {
            return Some(broken(
                &route.to,
                format!("makes no pause of priority {priority}: a slow receiver drops it"),
            ));
        }
        (!last.obeys(priority))
            .then(|| broken(&last.switch.name, "does not obey the receiver's pause: it is dropped there"))
    }

    fn paused(&self, route: &Route) -> Option<Broken> {
        let priority = Priority::new(self.priority()).ok()?;
        if self.from.pfc.contains(priority) {
            return Some(broken(&route.from, format!("a pause of priority {priority} stops it")));
        }
        route.hops.iter().zip(&self.steps).find_map(|(hop, step)| {
            let by_class = [step.into.1.qos.pfc, step.out.1.qos.pfc].iter().any(|pfc| pfc.contains(priority));
            let by_group = step.pauses().first().copied();
            let by_queue = step.out.1.qos.pfc.iter().find(|one| step.obeys(*one));
            let by = by_group.or(by_queue).or_else(|| by_class.then_some(priority))?;
            Some(broken(&hop.switch, format!("a pause of priority {by} stops it")))
        })
    }

    /// Where two switches do not exchange routes: a neighbour is not set, or eBGP has one AS at both ends. Routing that was not read is let be.
    fn unrouted(&self, route: &Route) -> Option<Broken> {
        let pairs = route.hops.windows(2).zip(self.steps.windows(2));
        pairs.into_iter().find_map(|(hops, steps)| {
            let ends = [(&hops[0], &hops[0].out_port, &steps[0]), (&hops[1], &hops[1].in_port, &steps[1])];
            let silent = ends.into_iter().find(|(_, port, step)| {
                step.state.routing.as_ref().is_some_and(|routing| !routing.neighbors.contains(*port))
            });
            if let Some((hop, port, _)) = silent {
                return Some(broken(
                    format!("{} {port}", hop.switch),
                    "no BGP neighbour: no route leads here",
                ));
            }
            let asn = |step: &Step<'_>| step.state.routing.as_ref().map(|routing| routing.asn);
            let same = asn(&steps[0]).filter(|own| asn(&steps[1]) == Some(*own))?;
            Some(broken(&hops[1].switch, format!("AS {same} at both ends: they do not become neighbours")))
        })
    }

    fn apart(&self, route: &Route, other: u8) -> Option<Broken> {
        let tc = |priority: u8| self.from.priority_tc.get(usize::from(priority)).copied();
        let (own, others) = (self.priority(), sent_in(self.from, other));
        if own == others || tc(own) == tc(others) {
            return Some(broken(&route.from, format!("sends packets of DSCP {other} in the same class")));
        }
        route.hops.iter().zip(&self.steps).find_map(|(hop, step)| {
            let (_, group, queue) = place(step.into.1, step.out.1, other);
            let lossless = headroom_of(step.switch, step.state, step.into.1, group).is_some();
            let same = queue == step.queue || (lossless && group == step.group);
            same.then(|| broken(&hop.switch, format!("packets of DSCP {other} are in its queue or group")))
        })
    }

    fn marked(&self, route: &Route, at: usize, queue: u64, share: u64) -> Option<Broken> {
        let (hop, step) = (route.hops.get(at)?, self.steps.get(at)?);
        let marking = step.out.1.qos.queues.get(&step.queue).and_then(|queue| queue.marking);
        let can = if self.packet.ect { marking.map_or(0, |marking| marking.share(queue)) } else { 0 };
        let text = || {
            format!("queue {} of {queue} bytes marks {} of a million packets, not {share}", step.queue, can)
        };
        (can != share).then(|| broken(&hop.switch, text()))
    }

    fn served(&self, route: &Route, switch: Scheduler, nic: Scheduler) -> Option<Broken> {
        let is = served(self.from, self.priority());
        if is != Some(nic) {
            let text = is.map_or_else(|| "as the vendor likes".to_owned(), |is| is.to_string());
            return Some(broken(&route.from, format!("serves it {text}, not {nic}")));
        }
        route.hops.iter().zip(&self.steps).find_map(|(hop, step)| {
            let is = step.out.1.qos.queues.get(&step.queue).and_then(|queue| queue.scheduler);
            let text = is.map_or_else(|| "by no rule".to_owned(), |is| is.to_string());
            (is != Some(switch))
                .then(|| broken(&hop.switch, format!("serves queue {} {text}, not {switch}", step.queue)))
        })
    }

    fn notified(&self, route: &Route, dscp: u8, priority: u8) -> Option<Broken> {
        let on = |set: proto_profile::words::PrioritySet, nic: &NicState| {
            Priority::new(sent_in(nic, self.packet.dscp)).is_ok_and(|one| set.contains(one))
        };
        if !on(self.to.notification, self.to) {
            return Some(broken(&route.to, "does not answer marks: nobody slows down"));
        }
        let cnp = self.to.cnp_dscp;
        // The CNP goes back the same way.
        let late = route.hops.iter().zip(&self.steps).rev().find_map(|(hop, step)| {
            let (.., queue) = place(step.out.1, step.into.1, cnp);
            let served = step.into.1.qos.queues.get(&queue).and_then(|queue| queue.scheduler);
            let late = served != Some(Scheduler::Strict) || queue == step.queue;
            late.then(|| {
                broken(&hop.switch, format!("the CNP (DSCP {cnp}) waits in queue {queue} with others"))
            })
        });
        if let Some(late) = late {
            return Some(late);
        }
        if !on(self.from.reaction, self.from) {
            return Some(broken(&route.from, "ignores CNPs: it does not slow down"));
        }
        let is = (self.to.cnp_dscp, self.to.cnp_priority);
        let text = format!("sends CNPs with DSCP {} in priority {}", is.0, is.1);
        (is != (dscp, priority)).then(|| broken(&route.to, text))
    }
}
