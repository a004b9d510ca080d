//! FRR's `frr.conf`: unnumbered eBGP, BFD, and EVPN where tenants travel in VXLAN. To be loaded with `vtysh -b`, since `bgpd -f` does not
//! know BFD's part. Defaults are not written: FRR would not show them either, and no comparison would ever be equal.

use std::fmt::Write as _;

use crate::state::{Routing, SwitchState};

/// Lines without a place of their own.
pub(crate) const GROUP: &str = "fabric";

/// The text for `state`; empty where it has no routing.
#[must_use]
pub fn text(state: &SwitchState) -> String {
    let Some(routing) = &state.routing else { return String::new() };
    let mut out = format!("frr defaults datacenter\nhostname {}\n!\n", state.name);
    // Writing to a text does not fail.
    let _ = write(routing, &mut out);
    out
}

fn write(routing: &Routing, out: &mut String) -> std::fmt::Result {
    let Routing { asn, router_id, neighbors, bfd, networks, evpn, advertises_vnis } = routing;
    writeln!(out, "router bgp {asn}")?;
    writeln!(out, " bgp router-id {router_id}")?;
    writeln!(out, " no bgp ebgp-requires-policy")?;
    writeln!(out, " bgp bestpath as-path multipath-relax")?;
    writeln!(out, " neighbor {GROUP} peer-group")?;
    writeln!(out, " neighbor {GROUP} remote-as external")?;
    if bfd.is_some() {
        writeln!(out, " neighbor {GROUP} bfd")?;
        writeln!(out, " neighbor {GROUP} bfd profile {GROUP}")?;
    }
    for port in neighbors {
        writeln!(out, " neighbor {port} interface peer-group {GROUP}")?;
    }
    writeln!(out, " !\n address-family ipv4 unicast")?;
    for address in networks {
        writeln!(out, "  network {address}/32")?;
    }
    writeln!(out, " exit-address-family")?;
    if *evpn {
        writeln!(out, " !\n address-family l2vpn evpn\n  neighbor {GROUP} activate")?;
        if *advertises_vnis {
            writeln!(out, "  advertise-all-vni")?;
        }
        writeln!(out, " exit-address-family")?;
    }
    writeln!(out, "exit\n!")?;
    if let Some(bfd) = bfd {
        writeln!(out, "bfd\n profile {GROUP}")?;
        writeln!(out, "  transmit-interval {}\n  receive-interval {}", bfd.transmit_ms, bfd.receive_ms)?;
        writeln!(out, " exit\nexit\n!")?;
    }
    Ok(())
}
