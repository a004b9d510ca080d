//! The GID table of an RDMA device's port, from sysfs: an entry is known by its type and address, never by its index alone, for
//! indices move when a link flaps.

use std::net::{IpAddr, Ipv6Addr};

use crate::kernel::Files;

/// A GID table is not longer on any device that is known (mlx5: 256).
const GIDS_MOST: u32 = 1024;

/// What a GID is for (`gid_attrs/types`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GidType {
    /// `IB/RoCE v1`: an ethertype of its own, not routed.
    RoceV1,
    /// `RoCE v2`: UDP port 4791.
    RoceV2,
    /// A type that this program does not know, as the kernel writes it.
    Other(String),
}

/// An entry of a port's GID table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gid {
    /// Index of the entry in the table; it may be another one later.
    pub index: u32,
    /// The GID, which is written as an IPv6 address.
    pub raw: Ipv6Addr,
    /// The protocol that the GID is for.
    pub kind: GidType,
    /// The network device whose address it is, as this network namespace sees it.
    pub netdev: Option<String>,
}

impl Gid {
    /// The address that it stands for: IPv4 where it is mapped.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.raw.to_ipv4_mapped().map_or(IpAddr::V6(self.raw), IpAddr::V4)
    }
}

/// The entries that are in use, by index.
#[must_use]
pub fn table(files: &dyn Files, device: &str, port: u32) -> Vec<Gid> {
    let base = format!("sys/class/infiniband/{device}/ports/{port}");
    let names = files.names(&format!("{base}/gids"));
    let mut indices: Vec<u32> = names.iter().filter_map(|index| index.parse().ok()).collect();
    indices.sort_unstable();
    let entry = |index: u32| {
        let attribute = |name: &str| files.text(&format!("{base}/{name}/{index}"));
        // The kernel refuses to give the attributes of an entry that is not in use.
        let kind = match attribute("gid_attrs/types")?.as_str() {
            "RoCE v2" => GidType::RoceV2,
            "IB/RoCE v1" => GidType::RoceV1,
            other => GidType::Other(other.to_owned()),
        };
        let raw: Ipv6Addr = attribute("gids")?.parse().ok()?;
        (!raw.is_unspecified()).then(|| Gid { index, raw, kind, netdev: attribute("gid_attrs/ndevs") })
    };
    indices.into_iter().filter(|index| *index < GIDS_MOST).filter_map(entry).collect()
}

/// The GID of type RoCE v2 for an address of a network device: IPv4 before IPv6, lowest index first. Without known addresses any
/// that is not link-local. Entries of other network devices (VLANs, bonds) are not taken.
#[must_use]
pub fn roce_v2<'a>(table: &'a [Gid], netdev: &str, known: &[IpAddr]) -> Option<&'a Gid> {
    let fits = |gid: &&Gid| {
        gid.kind == GidType::RoceV2
            && gid.netdev.as_deref().is_none_or(|name| name == netdev)
            && !gid.raw.is_unicast_link_local()
            && (known.is_empty() || known.contains(&gid.address()))
    };
    table.iter().filter(fits).min_by_key(|gid| (gid.address().is_ipv6(), gid.index))
}
