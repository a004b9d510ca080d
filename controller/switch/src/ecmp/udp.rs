//! UDP source ports of RoCEv2, as Linux makes them of flow labels and queue pair numbers. Source: `include/rdma/ib_verbs.h`,
//! `rdma_flow_label_to_udp_sport` and `rdma_calc_flow_label`.

/// The first of the ports that RoCEv2 sends from; they go to the last of all.
pub const FIRST: u16 = 0xC000;
/// How many they are.
pub const COUNT: u16 = 0x4000;

/// The source port of a queue pair with this flow label (20 bits).
#[must_use]
pub fn of_label(label: u32) -> u16 {
    let (low, high) = (label & 0x0_3FFF, label & 0xF_C000);
    // 14 bits are left.
    FIRST | ((low ^ (high >> 14)) & 0x3FFF) as u16
}

/// The flow label that Linux gives a queue pair whose user has set none.
#[must_use]
pub fn label_of(local_qpn: u32, remote_qpn: u32) -> u32 {
    let mut product = u64::from(local_qpn) * u64::from(remote_qpn);
    product ^= product >> 20;
    product ^= product >> 40;
    (product & 0xF_FFFF) as u32
}

/// A flow label that gives this port. It is never 0, which Linux takes for none.
#[must_use]
pub fn label_for(port: u16) -> u32 {
    match u32::from(port & 0x3FFF) {
        // The two ones fold into nothing.
        0 => 0x4001,
        label => label,
    }
}
