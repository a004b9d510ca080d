//! What a deviation does to RDMA traffic, in one sentence.

use crate::{
    item::Item,
    profile::QosProfile,
    settings::{CcParam, CcSide},
};

/// What `item`, as it was found, does to RDMA traffic.
pub fn of(item: Item, found: &str, profile: &QosProfile) -> String {
    let spec = profile.spec();
    let (data, lossless) = (spec.data_dscp, spec.lossless_priority);
    match item {
        Item::Dcbx => {
            "the firmware takes PFC, ETS and the map from the switch, and undoes what is set here".into()
        }
        Item::FirmwareLldp => "the driver refuses DCB settings while the firmware's LLDP agent runs".into(),
        Item::GlobalPause => {
            format!(
                "a pause stops all classes at once, and PFC for priority {lossless} is not in force beside it"
            )
        }
        Item::Mtu => mtu(found, spec.mtu),
        Item::Trust => {
            format!("routed RoCE v2 carries no VLAN tag: DSCP {data} is not seen and data is not lossless")
        }
        Item::Dscp(dscp) if dscp == data && found.contains("entries") => {
            format!("which priority RDMA data (DSCP {data}) gets is the driver's guess")
        }
        Item::Dscp(dscp) if dscp == data => {
            format!(
                "RDMA data (DSCP {data}) is not on lossless priority {lossless}: dropped when a queue is full"
            )
        }
        Item::Dscp(dscp) if dscp == spec.cnp_dscp => {
            format!("CNPs (DSCP {dscp}) are not on priority {}: senders slow down late", spec.cnp_priority)
        }
        Item::Dscp(dscp) if found.contains(&format!("priority {lossless}")) => {
            format!("packets with DSCP {dscp} fill the lossless class of RDMA data")
        }
        Item::Dscp(dscp) => {
            format!("packets with DSCP {dscp} are served in another class than on other nodes")
        }
        _ => of_queues(item, found, profile),
    }
}

/// Of classes, flow control, connections and congestion control.
fn of_queues(item: Item, found: &str, profile: &QosProfile) -> String {
    let spec = profile.spec();
    let (data, lossless) = (spec.data_dscp, spec.lossless_priority);
    match item {
        Item::RocePort => format!("the RDMA driver does not know that its priority is {lossless}"),
        Item::EtsWilling => "the port takes the shares that its switch recommends".into(),
        Item::PrioTc(priority) if priority == lossless => {
            "RDMA data shares a queue with others, or has the share of another class".into()
        }
        Item::PrioTc(priority) if priority == spec.cnp_priority => {
            "CNPs are not in their own strict class and wait behind data".into()
        }
        Item::PrioTc(priority) => {
            format!("priority {priority} is served in another class than on other nodes")
        }
        Item::Tsa(tc) if tc == spec.prio_tc[spec.cnp_priority.index()] => {
            "CNPs wait behind data: senders slow down late".into()
        }
        Item::Tsa(tc) | Item::Bandwidth(tc) if tc == spec.prio_tc[lossless.index()] => {
            "RDMA data does not get its share of the link when others send".into()
        }
        Item::Tsa(tc) | Item::Bandwidth(tc) => {
            format!("class {tc} takes another share of the link than it should")
        }
        Item::MaxRate(tc) => format!("class {tc} is limited to another rate than it should be"),
        Item::Pfc => pfc(found, lossless.get()),
        Item::CableLength => {
            "the lossless buffer's threshold does not fit what is under way: drops if the cable is longer"
                .into()
        }
        Item::Buffer => "what is under way when a pause is sent may not fit, and is dropped".into(),
        Item::PfcPrevention => "a stuck receiver may pause its switch for another time than it should".into(),
        Item::DefaultTos => tos(found, data.get()),
        Item::DefaultMode => "connections use RoCE v1, which is not routed and carries no DSCP".into(),
        Item::ForcedTos => format!("all queue pairs leave with another class than DSCP {data} with ECT"),
        Item::Dcqcn(side, _) => dcqcn(side, found),
        Item::CnpDscp => {
            format!("switches do not serve this NIC's CNPs first: they look for DSCP {}", spec.cnp_dscp)
        }
        Item::CnpPriority => "this NIC's CNPs leave in another class and wait behind data".into(),
        Item::RoceDscp => "congestion control watches packets that are not RDMA data".into(),
        Item::RocePriority => "congestion control watches a priority that carries no RDMA data".into(),
        Item::CcParam(CcParam::CnpPrioMode) => {
            "this NIC's CNPs have another priority than the one that is set, and may wait behind data".into()
        }
        Item::CcParam(_) => "this NIC slows down or speeds up otherwise than its peers: unfair shares".into(),
        // What `of` has.
        Item::Dcbx | Item::FirmwareLldp | Item::GlobalPause | Item::Mtu | Item::Trust | Item::Dscp(_) => {
            String::new()
        }
    }
}

fn mtu(found: &str, wanted: u32) -> String {
    let found: u32 = found.parse().unwrap_or(0);
    // The largest path MTU that fits with its headers of 96 bytes.
    let path = |mtu: u32| [4096, 2048, 1024, 512, 256].into_iter().find(|path| path + 96 <= mtu).unwrap_or(0);
    let (now, then) = (path(found), path(wanted));
    if now == then {
        format!("RDMA's path MTU is {now} all the same, but peers' largest packets may not fit")
    } else {
        format!("RDMA's path MTU is {now} in place of {then}")
    }
}

fn pfc(found: &str, lossless: u8) -> String {
    let on: Vec<&str> = found.trim_start_matches("on for ").split(',').collect();
    if on.contains(&lossless.to_string().as_str()) {
        "more classes than that of RDMA data can be paused, each one more way into head-of-line blocking and deadlock".into()
    } else {
        format!(
            "priority {lossless} is neither paused nor does it pause: RDMA data is dropped when a buffer is full"
        )
    }
}

fn tos(found: &str, data: u8) -> String {
    if found.contains("no ECT") {
        "packets of connections that choose no class cannot be marked: switches drop them, senders never slow down".into()
    } else {
        format!(
            "connections that choose no class leave with another DSCP than {data}, in a class that is not lossless"
        )
    }
}

fn dcqcn(side: CcSide, found: &str) -> String {
    match (side, found) {
        (CcSide::NotificationPoint, "off") => {
            "marked packets are not answered: senders never slow down, PFC does it all".into()
        }
        (CcSide::ReactionPoint, "off") => {
            "CNPs are ignored: this NIC does not slow down, PFC does it all".into()
        }
        _ => "senders slow down where the profile leaves that to the receiver".into(),
    }
}
