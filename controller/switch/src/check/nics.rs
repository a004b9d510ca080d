//! Rules for NICs.

use std::fmt;

use proto_profile::{
    QosProfile, VXLAN_BYTES,
    words::{Dscp, Priority, Trust, Tsa},
};

use super::{
    claim::{Claim, Packet},
    fault::{Fault, Setting, Trial, shown},
    ports::{nic_scheduler, packet, paused_too, traffic},
};
use crate::{
    desired,
    state::{NicState, Scheduler},
};

/// The first fault of a NIC whose cable carries `speed` Gbit/s.
pub(super) fn fault(profile: &QosProfile, speed: u32, found: &NicState) -> Option<Fault> {
    let wanted = desired::nic(profile, speed);
    if *found == wanted {
        return None;
    }
    let rules = [link, priorities, flow_control, classes, congestion];
    rules.iter().find_map(|rule| rule(profile, found, &wanted))
}

fn link(profile: &QosProfile, found: &NicState, wanted: &NicState) -> Option<Fault> {
    let outer = if profile.spec().switch.vxlan { VXLAN_BYTES } else { 0 };
    let of = |bytes: u32| (Packet { dscp: 0, ect: false, bytes }, Claim::Arrives { outer });
    if found.speed != wanted.speed {
        let gbit = |speed: u32| format!("{speed} Gbit/s");
        return Some(Fault::new(Setting::Speed, gbit(found.speed), gbit(wanted.speed), vec![of(wanted.mtu)]));
    }
    let trials = || vec![of(wanted.mtu), of(found.mtu)];
    (found.mtu != wanted.mtu).then(|| Fault::new(Setting::Mtu, found.mtu, wanted.mtu, trials()))
}

fn priorities(profile: &QosProfile, found: &NicState, wanted: &NicState) -> Option<Fault> {
    let spec = profile.spec();
    let sent = |dscp: Dscp| vec![(packet(profile, dscp), Claim::SentIn(profile.priority_of(dscp).get()))];
    if found.trust != wanted.trust {
        let trials = if wanted.trust == Trust::Dscp { sent(spec.data_dscp) } else { sent(Dscp::of(0)) };
        return Some(Fault::new(Setting::Trust, found.trust, wanted.trust, trials));
    }
    let mut order = [spec.data_dscp, spec.cnp_dscp].into_iter().chain(Dscp::all());
    let wrong = order.find_map(|dscp| {
        let is = found.dscp_to_priority.get(&dscp.get()).copied();
        let should = wanted.dscp_to_priority.get(&dscp.get()).copied();
        let fault = || Fault::new(Setting::Dscp(dscp.get()), shown(is), shown(should), sent(dscp));
        (is != should).then(fault)
    });
    wrong.or_else(|| {
        let (dscp, ect) = (found.tos >> 2, matches!(found.tos & 3, 1 | 2));
        let packet = Packet { dscp, ect, bytes: spec.switch.lossless_mtu };
        let claims = [
            Claim::SentIn(spec.lossless_priority.get()),
            Claim::NotLost(traffic(profile)),
            Claim::HasTos(wanted.tos),
        ];
        let trials = claims.map(|claim| (packet, claim)).to_vec();
        (found.tos != wanted.tos).then(|| Fault::new(Setting::Tos, found.tos, wanted.tos, trials))
    })
}

fn flow_control(profile: &QosProfile, found: &NicState, wanted: &NicState) -> Option<Fault> {
    let lost = |one: Priority| -> Vec<Trial> {
        let dscp = [profile.spec().data_dscp].into_iter().chain(Dscp::all());
        let dscp = dscp.into_iter().find(|dscp| profile.priority_of(*dscp) == one);
        dscp.map(|dscp| (packet(profile, dscp), Claim::NotLost(traffic(profile)))).into_iter().collect()
    };
    let lacks = wanted.pfc.iter().find(|one| !found.pfc.contains(*one)).map(lost);
    let extra =
        || found.pfc.iter().find(|one| !wanted.pfc.contains(*one)).map(|one| paused_too(profile, one));
    let trials = lacks.or_else(extra)?;
    Some(Fault::new(Setting::Pfc, found.pfc, wanted.pfc, trials))
}

/// How a NIC serves a priority.
pub(super) fn served(nic: &NicState, priority: u8) -> Option<Scheduler> {
    let tc = usize::from(*nic.priority_tc.get(usize::from(priority))?);
    match nic.tsa.get(tc)? {
        Tsa::Strict => Some(Scheduler::Strict),
        Tsa::Ets => nic.bandwidth.get(tc).copied().map(Scheduler::Share),
        Tsa::CreditBased | Tsa::Vendor | Tsa::Other(_) => None,
    }
}

fn classes(profile: &QosProfile, found: &NicState, wanted: &NicState) -> Option<Fault> {
    let spec = profile.spec();
    Dscp::all().find_map(|dscp| {
        let priority = profile.priority_of(dscp);
        let (is, should) = (found.priority_tc[priority.index()], wanted.priority_tc[priority.index()]);
        let packet = packet(profile, dscp);
        let switch = desired::scheduler(profile, spec.switch_class(priority));
        let claim = Claim::Served { switch, nic: nic_scheduler(profile, priority) };
        let apart = spec.switch_classes().into_iter().filter(|class| *class != spec.switch_class(priority));
        let apart = apart.filter_map(|class| super::ports::dscp_of(profile, class));
        let apart = apart.map(|other| (packet, Claim::Apart(other.get())));
        let trials = || [(packet, claim)].into_iter().chain(apart).collect();
        if is != should {
            return Some(Fault::new(Setting::Queue(priority.get()), is, should, trials()));
        }
        let (is, should) = (served(found, priority.get()), served(wanted, priority.get()));
        (is != should)
            .then(|| Fault::new(Setting::Scheduler(priority.get()), shown(is), shown(should), trials()))
    })
}

/// Both ends of a NIC in congestion control, for people.
struct Ends<'a>(&'a NicState);

impl fmt::Display for Ends<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "notification on {}, reaction on {}", self.0.notification, self.0.reaction)
    }
}

fn congestion(profile: &QosProfile, found: &NicState, wanted: &NicState) -> Option<Fault> {
    let (dscp, priority) = (wanted.cnp_dscp, wanted.cnp_priority);
    let trials = vec![(packet(profile, profile.spec().data_dscp), Claim::Notified { dscp, priority })];
    let cnp = |nic: &NicState| (nic.cnp_dscp, nic.cnp_priority);
    let text = |nic: &NicState| format!("DSCP {} in priority {}", nic.cnp_dscp, nic.cnp_priority);
    if cnp(found) != cnp(wanted) {
        return Some(Fault::new(Setting::Cnp, text(found), text(wanted), trials));
    }
    let ends = |nic: &NicState| (nic.notification, nic.reaction);
    (ends(found) != ends(wanted)).then(|| Fault::new(Setting::Congestion, Ends(found), Ends(wanted), trials))
}
