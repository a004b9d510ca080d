//! The dialects: lines alone. `{strict}` and its like are empty; they say for whom a line is.

use super::{
    Block::{Line, Of},
    Dialect,
    Each::{Class, Neighbor, Port, Speed},
};
use crate::model::Nos;

/// NVUE of Cumulus Linux.
pub const CUMULUS: Dialect = Dialect {
    nos: Nos::Cumulus,
    blocks: &[
        Line("nv set system hostname {name}"),
        Line("nv set qos mapping rail trust l3"),
        Of(
            Class,
            &[
                Line("nv set qos mapping rail dscp {dscps} switch-priority {tc}"),
                Line("nv set qos egress-queue-mapping rail switch-priority {tc} traffic-class {queue}"),
                Line("nv set qos pfc rail switch-priority {pfc}"),
                Line("nv set qos egress-scheduler rail traffic-class {queue} mode strict{strict}"),
                Line("nv set qos egress-scheduler rail traffic-class {queue} mode dwrr{shared}"),
                Line("nv set qos egress-scheduler rail traffic-class {queue} bw-percent {weight}"),
            ],
        ),
        Line("nv set qos pfc rail tx enable"),
        Line("nv set qos pfc rail rx enable"),
        Of(
            Speed,
            &[Of(
                Class,
                &[
                    Line(
                        "nv set qos congestion-control rail-{speed}g traffic-class {queue} ecn enable{marked}",
                    ),
                    Line(
                        "nv set qos congestion-control rail-{speed}g traffic-class {queue} min-threshold-bytes {kmin}",
                    ),
                    Line(
                        "nv set qos congestion-control rail-{speed}g traffic-class {queue} max-threshold-bytes {kmax}",
                    ),
                    Line(
                        "nv set qos congestion-control rail-{speed}g traffic-class {queue} probability {pmax}",
                    ),
                ],
            )],
        ),
        Line("nv set qos pfc-watchdog polling interval {poll}"),
        Of(
            Port,
            &[
                Line("nv set interface {port} link mtu {mtu}"),
                Line("nv set interface {port} qos mapping profile rail"),
                Line("nv set interface {port} qos egress-queue-mapping profile rail"),
                Line("nv set interface {port} qos egress-scheduler profile rail"),
                Line("nv set interface {port} qos congestion-control profile rail-{speed}g"),
                Line("nv set interface {port} qos pfc profile rail"),
                Line("nv set interface {port} qos pfc cable-length {cable}"),
                Line("nv set interface {port} qos pfc-watchdog state enable{watched}"),
            ],
        ),
        Line("nv set router bgp autonomous-system {asn}"),
        Line("nv set router bgp router-id {router_id}"),
        Line("nv set interface lo ip address {router_id}/32"),
        Line("nv set vrf default router bgp path-selection multipath aspath-ignore on"),
        Line("nv set vrf default router bgp address-family ipv4-unicast network {router_id}/32"),
        Line("nv set vrf default router bgp peer-group fabric remote-as external"),
        Line("nv set vrf default router bgp peer-group fabric bfd enable on{fast}"),
        Of(
            Neighbor,
            &[
                Line("nv set vrf default router bgp neighbor {port} type unnumbered"),
                Line("nv set vrf default router bgp neighbor {port} peer-group fabric"),
            ],
        ),
        Line("nv set evpn enable on{evpn}"),
        Line("nv set vrf default router bgp peer-group fabric address-family l2vpn-evpn enable on{evpn}"),
    ],
};

/// Arista EOS.
pub const EOS: Dialect = Dialect {
    nos: Nos::Eos,
    blocks: &[
        Line("hostname {name}"),
        Line("!"),
        Of(
            Class,
            &[
                Line("qos map dscp {dscps} to traffic-class {tc}"),
                Line("qos map traffic-class {tc} to tx-queue {queue}"),
            ],
        ),
        Line("!"),
        Line("priority-flow-control pause watchdog action drop{action_drop}"),
        Line("priority-flow-control pause watchdog default timeout {detection} milliseconds"),
        Line("priority-flow-control pause watchdog default recovery-time {restoration} milliseconds"),
        Line("priority-flow-control pause watchdog default polling-interval {poll} milliseconds"),
        Line("!"),
        Of(
            Speed,
            &[
                Line("qos profile RAIL-{speed}G"),
                Line("   qos trust dscp"),
                Line("   priority-flow-control on"),
                Of(Class, &[Line("   priority-flow-control priority {pfc} no-drop")]),
                Of(
                    Class,
                    &[
                        Line("   !"),
                        Line("   uc-tx-queue {queue}"),
                        Line("      priority strict{strict}"),
                        Line("      no priority{shared}"),
                        Line("      bandwidth percent {weight}"),
                        Line(
                            "      random-detect ecn minimum-threshold {kmin} bytes maximum-threshold {kmax} bytes max-mark-probability {pmax} weight 0",
                        ),
                    ],
                ),
                Line("!"),
            ],
        ),
        Of(
            Port,
            &[
                Line("interface {port}"),
                Line("   mtu {mtu}"),
                Line("   service-profile RAIL-{speed}G"),
                Line("   priority-flow-control pause watchdog{watched}"),
                Line("!"),
            ],
        ),
        Line("interface Loopback0"),
        Line("   ip address {router_id}/32"),
        Line("!"),
        Line("router bgp {asn}"),
        Line("   router-id {router_id}"),
        Line("   maximum-paths 128 ecmp 128"),
        Line("   neighbor FABRIC peer group"),
        Line("   neighbor FABRIC bfd interval {bfd} min-rx {bfd} multiplier 3"),
        Of(Neighbor, &[Line("   neighbor interface {port} peer-group FABRIC remote-as external")]),
        Line("   network {router_id}/32"),
        Line("   address-family evpn{evpn}"),
        Line("      neighbor FABRIC activate{evpn}"),
        Line("!"),
    ],
};

/// Cisco NX-OS.
pub const NX_OS: Dialect = Dialect {
    nos: Nos::NxOs,
    blocks: &[
        Line("hostname {name}"),
        Line("feature bgp"),
        Line("feature bfd{fast}"),
        Of(Class, &[Line("class-map type qos match-any RAIL-TC{tc}"), Line("  match dscp {dscps}")]),
        Line("policy-map type qos RAIL-IN"),
        Of(Class, &[Line("  class RAIL-TC{tc}"), Line("    set qos-group {tc}")]),
        Line("policy-map type network-qos RAIL-NQ"),
        Of(Class, &[Line("  class type network-qos c-8q-nq{pfc}"), Line("    pause pfc-cos {pfc}")]),
        Of(
            Speed,
            &[
                Line("policy-map type queuing RAIL-OUT-{speed}G"),
                Of(
                    Class,
                    &[
                        Line("  class type queuing c-out-8q-q{queue}"),
                        Line("    priority level 1{strict}"),
                        Line("    bandwidth remaining percent {weight}"),
                        Line(
                            "    random-detect minimum-threshold {kmin} bytes maximum-threshold {kmax} bytes drop-probability {pmax} weight 0 ecn",
                        ),
                    ],
                ),
            ],
        ),
        Line("system qos"),
        Line("  service-policy type network-qos RAIL-NQ"),
        Line("priority-flow-control auto-restore multiplier 2"),
        Line("priority-flow-control watch-dog-interval on"),
        Of(
            Port,
            &[
                Line("interface {port}"),
                Line("  mtu {mtu}"),
                Line("  priority-flow-control mode on"),
                Line("  priority-flow-control watch-dog-interval on{watched}"),
                Line("  service-policy type qos input RAIL-IN"),
                Line("  service-policy type queuing output RAIL-OUT-{speed}G"),
            ],
        ),
        Line("interface loopback0"),
        Line("  ip address {router_id}/32"),
        Line("router bgp {asn}"),
        Line("  router-id {router_id}"),
        Line("  address-family ipv4 unicast"),
        Line("    network {router_id}/32"),
        Line("    maximum-paths 64"),
        Line("  template peer FABRIC"),
        Line("    bfd{fast}"),
        Line("    address-family ipv4 unicast"),
        Of(
            Neighbor,
            &[Line("  neighbor {port}"), Line("    inherit peer FABRIC"), Line("    remote-as external")],
        ),
    ],
};
