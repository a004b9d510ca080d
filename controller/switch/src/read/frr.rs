//! FRR's text, as `vtysh` shows it, as far as we write it; lines that are not ours are kept.

use std::{collections::BTreeSet, net::Ipv4Addr};

use super::answer::Wrong;
use crate::{bgp::Bfd, model::Name, state::Routing};

/// No switch's text is longer.
const LINES_MAX: usize = 100_000;

/// The part of the text that a line is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Top,
    Bgp,
    Ipv4,
    Evpn,
    Bfd,
    Profile,
    Elsewhere,
}

/// What was read so far.
#[derive(Default)]
struct Found {
    asn: Option<u32>,
    router_id: Option<Ipv4Addr>,
    neighbors: BTreeSet<Name>,
    with_bfd: bool,
    transmit_ms: Option<u32>,
    receive_ms: Option<u32>,
    networks: BTreeSet<Ipv4Addr>,
    evpn: bool,
    advertises_vnis: bool,
}

/// FRR's own time between packets of BFD, in ms.
const BFD_MS: u32 = 300;

/// Reads `frr.conf`: routing, where there is any, and lines that are not known.
///
/// # Errors
/// Every [`Wrong`] line.
pub(crate) fn read(text: &str) -> Result<(Option<Routing>, Vec<String>), Vec<Wrong>> {
    let (mut found, mut wrong, mut unknown) = (Found::default(), Vec::new(), Vec::new());
    let mut part = Part::Top;
    for (at, line) in (1..=LINES_MAX).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match found.line(&mut part, &words) {
            Some(true) => {}
            Some(false) => unknown.push(format!("line {at}: {}", line.trim())),
            None => {
                wrong.push(Wrong { at: format!("line {at}"), why: format!("{line:?} is not understood") })
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    Ok((found.routing(), unknown))
}

impl Found {
    fn routing(self) -> Option<Routing> {
        let bfd = Bfd {
            transmit_ms: self.transmit_ms.unwrap_or(BFD_MS),
            receive_ms: self.receive_ms.unwrap_or(BFD_MS),
        };
        Some(Routing {
            asn: self.asn?,
            router_id: self.router_id?,
            neighbors: self.neighbors,
            bfd: self.with_bfd.then_some(bfd),
            networks: self.networks,
            evpn: self.evpn,
            advertises_vnis: self.advertises_vnis,
        })
    }

    /// Takes a line: whether it is known; none where it begins as one of ours and ends otherwise.
    fn line(&mut self, part: &mut Part, words: &[&str]) -> Option<bool> {
        match (*part, words) {
            (_, [] | ["!"] | ["end"]) => {}
            (Part::Profile, ["exit"]) => *part = Part::Bfd,
            (Part::Ipv4 | Part::Evpn | Part::Elsewhere, ["exit-address-family"]) => *part = Part::Bgp,
            (_, ["exit"]) => *part = Part::Top,
            (_, ["router", "bgp", asn]) => {
                self.asn = Some(asn.parse().ok()?);
                *part = Part::Bgp;
            }
            (_, ["router" | "vrf" | "interface", ..]) => {
                *part = Part::Elsewhere;
                return Some(false);
            }
            (_, ["bfd"]) => *part = Part::Bfd,
            (Part::Bfd, ["profile", _]) => *part = Part::Profile,
            (Part::Profile, ["transmit-interval", ms]) => self.transmit_ms = Some(ms.parse().ok()?),
            (Part::Profile, ["receive-interval", ms]) => self.receive_ms = Some(ms.parse().ok()?),
            (Part::Bgp | Part::Ipv4 | Part::Evpn, ["address-family", family, kind]) => {
                *part = match (*family, *kind) {
                    ("ipv4", "unicast") => Part::Ipv4,
                    ("l2vpn", "evpn") => Part::Evpn,
                    _ => Part::Elsewhere,
                };
            }
            (Part::Bgp, ["bgp", "router-id", id]) => self.router_id = Some(id.parse().ok()?),
            (Part::Bgp, ["neighbor", port, "interface", ..]) => {
                self.neighbors.insert(Name::new(port).ok()?);
            }
            (Part::Bgp, ["neighbor", _, "bfd", ..]) => self.with_bfd = true,
            (Part::Ipv4, ["network", prefix]) => {
                let (address, length) = prefix.split_once('/')?;
                if length != "32" {
                    return Some(false);
                }
                self.networks.insert(address.parse().ok()?);
            }
            (Part::Evpn, ["neighbor", _, "activate"]) => self.evpn = true,
            (Part::Evpn, ["advertise-all-vni"]) => self.advertises_vnis = true,
            (Part::Top, ["frr", ..] | ["hostname", _]) => {}
            (Part::Bgp, ["no", "bgp", "ebgp-requires-policy"] | ["bgp", "bestpath", ..]) => {}
            (Part::Bgp, ["neighbor", _, "peer-group"] | ["neighbor", _, "remote-as", "external"]) => {}
            _ => return Some(false),
        }
        Some(true)
    }
}
