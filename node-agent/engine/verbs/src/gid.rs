//! Which of a device's GIDs a rail is: found by kind and address, never by a fixed index. An index moves when addresses come
//! and go, and is another on the next kernel.

use std::net::IpAddr;

use crate::ffi::{GID_TYPE_ROCE_V2, Gid, GidEntry};

/// The GID of an address: IPv4 mapped into IPv6 (InfiniBand Architecture, annex A17).
pub(crate) fn of_address(address: IpAddr) -> Gid {
    match address {
        IpAddr::V4(v4) => Gid(v4.to_ipv6_mapped().octets()),
        IpAddr::V6(v6) => Gid(v6.octets()),
    }
}

/// The entry of a table that is RoCE v2 and has this address: its port and index. A small index first, if several interfaces
/// share the address.
pub(crate) fn find(table: &[GidEntry], address: IpAddr) -> Option<(u8, u8)> {
    let wanted = of_address(address);
    let mut found: Vec<(u8, u8)> = table
        .iter()
        .filter(|entry| entry.gid_type == GID_TYPE_ROCE_V2 && entry.gid == wanted)
        .filter_map(|entry| Some((u8::try_from(entry.port_num).ok()?, u8::try_from(entry.gid_index).ok()?)))
        .collect();
    found.sort_unstable();
    found.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(gid: [u8; 16], gid_index: u32, gid_type: u32) -> GidEntry {
        GidEntry { gid: Gid(gid), gid_index, port_num: 1, gid_type, ndev_ifindex: 3 }
    }

    #[test]
    fn a_rail_is_found_by_kind_and_address_wherever_it_is() {
        let address: IpAddr = "10.1.0.2".parse().unwrap();
        let (own, other) = (of_address(address).0, of_address("10.1.0.3".parse().unwrap()).0);
        assert_eq!(own, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 1, 0, 2]);
        let table = [
            entry([0xfe; 16], 0, 2),
            entry(own, 2, 1),
            entry(other, 3, 2),
            entry(own, 5, 2),
            entry(own, 9, 2),
        ];
        assert_eq!(find(&table, address), Some((1, 5)), "not its RoCE v1 twin");
        assert_eq!(find(&table[..3], address), None);
        let moved = [entry(own, 7, 2)];
        assert_eq!(find(&moved, address), Some((1, 7)));
        assert_eq!(find(&[entry(own, 300, 2)], address), None, "no index that a path can have");
        let v6: IpAddr = "fd00::1".parse().unwrap();
        assert_eq!(find(&[entry(of_address(v6).0, 1, 2)], v6), Some((1, 1)));
    }
}
