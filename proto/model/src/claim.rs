//! What a server claims as its own by having it in its inventory: things that only one server of a fleet can have.
//!
//! Addresses that mean something on one server only (loopback, unspecified) are no claims, nor are further addresses of a NIC, which may
//! move between servers that live (VRRP), nor identities that are not reported. PCI addresses, device names and NUMA nodes are a server's
//! own numbering; switch ports may be shared (multi-host NICs) and are findings of the fabric instead.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use crate::{Inventory, Nic};

/// One thing that only one server can have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// An address on a rail. Rails are networks of their own, so the same address on two rails is two things.
    Address {
        /// The rail that the address is on, by number.
        rail: u32,
        /// The NIC's own address on that rail.
        address: IpAddr,
    },
    /// The link-local GID of a port on a rail, which is made from the port's MAC address.
    Gid {
        /// The rail that the port is on, by number.
        rail: u32,
        /// The port's link-local GID.
        gid: Ipv6Addr,
    },
    /// A GPU, by its vendor's identity.
    Gpu(String),
}

impl Claim {
    /// A number for look-ups; two claims may share one.
    #[must_use]
    pub fn digest(&self) -> u64 {
        // FNV-1a.
        self.to_string()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

/// Whether an address is of one server alone, and the same on many.
fn is_local(address: IpAddr) -> bool {
    address.to_canonical().is_loopback() || address.to_canonical().is_unspecified()
}

fn of_nic(nic: &Nic) -> impl Iterator<Item = Claim> + '_ {
    let rail = nic.rail;
    let address = nic.address.map(|address| address.to_canonical()).filter(|address| !is_local(*address));
    let gids = nic.facts.iter().flat_map(|facts| &facts.gids);
    // Those of its addresses say nothing more.
    let gids =
        gids.filter(move |gid| gid.gid.is_unicast_link_local() && Some(IpAddr::V6(gid.gid)) != address);
    let gids = gids.map(move |gid| Claim::Gid { rail, gid: gid.gid });
    address.map(|address| Claim::Address { rail, address }).into_iter().chain(gids)
}

impl Inventory {
    /// All that the server claims as its own, each once.
    #[must_use]
    pub fn claims(&self) -> Vec<Claim> {
        let gpus = self.gpus.iter().filter(|gpu| !gpu.uuid.is_empty());
        let gpus = gpus.map(|gpu| Claim::Gpu(gpu.uuid.clone()));
        let mut claims: Vec<Claim> = self.nics.iter().flat_map(of_nic).chain(gpus).collect();
        claims.sort_unstable();
        claims.dedup();
        claims
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { rail, address } => write!(f, "address/{rail}/{address}"),
            Self::Gid { rail, gid } => write!(f, "gid/{rail}/{gid}"),
            Self::Gpu(uuid) => write!(f, "gpu/{uuid}"),
        }
    }
}

/// The text is not a claim; it is in the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimError(String);

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not address/RAIL/IP, gid/RAIL/GID or gpu/UUID", self.0)
    }
}

impl std::error::Error for ClaimError {}

impl FromStr for Claim {
    type Err = ClaimError;

    fn from_str(text: &str) -> Result<Self, ClaimError> {
        let wrong = || ClaimError(text.to_owned());
        let (kind, rest) = text.split_once('/').ok_or_else(wrong)?;
        let on_rail = || {
            let (rail, value) = rest.split_once('/').ok_or_else(wrong)?;
            Ok((rail.parse().map_err(|_| wrong())?, value))
        };
        match kind {
            "gpu" if !rest.is_empty() => Ok(Self::Gpu(rest.to_owned())),
            "address" => {
                let (rail, address): (u32, &str) = on_rail()?;
                Ok(Self::Address { rail, address: address.parse().map_err(|_| wrong())? })
            }
            "gid" => {
                let (rail, gid): (u32, &str) = on_rail()?;
                Ok(Self::Gid { rail, gid: gid.parse().map_err(|_| wrong())? })
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gid, GidKind, Gpu, NicFacts};

    fn nic(rail: u32, address: &str, gids: &[&str]) -> Nic {
        let gid = |gid: &&str| Gid {
            index: 0,
            gid: gid.parse().unwrap(),
            kind: GidKind::RoceV2,
            netdev: String::new(),
        };
        Nic {
            device: format!("rail{rail}"),
            netdev: String::new(),
            pci_address: String::new(),
            numa_node: None,
            rail,
            address: address.parse().ok(),
            mtu: 0,
            speed_mbps: 0,
            up: true,
            gid_index: None,
            facts: Some(Box::new(NicFacts { gids: gids.iter().map(gid).collect(), ..NicFacts::default() })),
        }
    }

    fn gpu(index: u32, uuid: &str) -> Gpu {
        let (model, pci_address) = (String::new(), String::new());
        Gpu { index, uuid: uuid.into(), model, pci_address, numa_node: None, memory_bytes: 0, facts: None }
    }

    #[test]
    fn a_server_claims_what_only_one_can_have() {
        let nics = vec![
            nic(0, "10.0.0.5", &["fe80::1", "::ffff:10.0.0.5", "fe80::1", "::ffff:10.9.9.9"]),
            nic(1, "127.0.0.1", &["::", "::1", "::ffff:127.0.0.1"]),
            nic(2, "::ffff:10.0.0.5", &[]),
        ];
        let inventory = Inventory { nics, gpus: vec![gpu(0, ""), gpu(1, "GPU-a/b")], ..Inventory::default() };
        let shown: Vec<String> = inventory.claims().iter().map(Claim::to_string).collect();
        let wanted = ["address/0/10.0.0.5", "address/2/10.0.0.5", "gid/0/fe80::1", "gpu/GPU-a/b"];
        assert_eq!(shown, wanted);
        for claim in inventory.claims() {
            assert_eq!(claim.to_string().parse(), Ok(claim));
        }
        for text in ["", "gpu/", "address/0", "address/x/10.0.0.1", "gid/0/10.0.0.1", "nic/0/1"] {
            assert!(text.parse::<Claim>().is_err(), "{text}");
        }
    }
}
