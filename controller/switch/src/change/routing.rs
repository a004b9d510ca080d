//! Routing, compared by what it does and not by its text: FRR shows its configuration in an order and with defaults of its own.

use std::{collections::BTreeSet, fmt::Display};

use super::{
    difference::{Change, FRR_CONF},
    impact::Impact,
};
use crate::state::Routing;

/// Adds what differs.
pub(super) fn compare(desired: &Routing, found: Option<&Routing>, all: &mut Vec<Change>) {
    let Some(found) = found else {
        let text = format!("AS {}, {} neighbors", desired.asn, desired.neighbors.len());
        let why = "BGP begins; nothing was routed by it before";
        all.push(change("router bgp", text, String::new(), Impact::TrafficLoss, why));
        return;
    };
    let restarts = "all BGP sessions end and begin again";
    one("router bgp", desired.asn, found.asn, Impact::TrafficLoss, restarts, all);
    one("bgp router-id", desired.router_id, found.router_id, Impact::TrafficLoss, restarts, all);
    let bfd = |routing: &Routing| {
        routing.bfd.as_ref().map_or_else(String::new, |bfd| {
            format!("transmit {} ms, receive {} ms", bfd.transmit_ms, bfd.receive_ms)
        })
    };
    let polls = "BFD agrees on new times by polling while sessions stay up";
    one("bfd profile", bfd(desired), bfd(found), Impact::Hitless, polls, all);
    let said = |said: bool| if said { "on" } else { "" };
    let evpn = "sessions negotiate the new address family and begin again";
    one("l2vpn evpn", said(desired.evpn), said(found.evpn), Impact::TrafficLoss, evpn, all);
    let vni = "routes of virtual networks are announced or withdrawn";
    let vnis = (said(desired.advertises_vnis), said(found.advertises_vnis));
    one("advertise-all-vni", vnis.0, vnis.1, Impact::TrafficLoss, vni, all);
    let more = (Impact::Hitless, "a session more");
    let less = (Impact::TrafficLoss, "its session ends, and routes over it are withdrawn");
    set("neighbor", &desired.neighbors, &found.neighbors, more, less, all);
    let more = (Impact::Hitless, "a route more is announced");
    let less = (Impact::TrafficLoss, "the route is withdrawn");
    set("network", &desired.networks, &found.networks, more, less, all);
}

fn one<T: Display + PartialEq>(
    path: &str,
    desired: T,
    found: T,
    impact: Impact,
    why: &'static str,
    all: &mut Vec<Change>,
) {
    if desired != found {
        all.push(change(path, desired.to_string(), found.to_string(), impact, why));
    }
}

fn set<T: Display + Ord>(
    path: &str,
    desired: &BTreeSet<T>,
    found: &BTreeSet<T>,
    more: (Impact, &'static str),
    less: (Impact, &'static str),
    all: &mut Vec<Change>,
) {
    for item in desired.difference(found) {
        all.push(change(&format!("{path} {item}"), item.to_string(), String::new(), more.0, more.1));
    }
    for item in found.difference(desired) {
        all.push(change(&format!("{path} {item}"), String::new(), item.to_string(), less.0, less.1));
    }
}

fn change(path: &str, desired: String, found: String, impact: Impact, why: &'static str) -> Change {
    Change { impact, file: FRR_CONF, path: path.to_owned(), desired, found, why }
}
