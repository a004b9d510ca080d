//! Ways through the fabric. Switches choose among equal ways by a packet's addresses and ports, and of these only the UDP source port
//! differs between the queue pairs of one link. Devices derive it from the flow label; where none is set, Linux makes one of
//! the two queue pair numbers (include/rdma/ib_verbs.h: `rdma_calc_flow_label`, `rdma_flow_label_to_udp_sport`).

/// Bits of a flow label.
const LABEL: u32 = 0xf_ffff;

/// The label that Linux makes of two queue pair numbers: the same at both ends.
pub(crate) fn label(one: u32, other: u32) -> u32 {
    let product = u64::from(one) * u64::from(other);
    let mixed = product ^ (product >> 20);
    ((mixed ^ (mixed >> 40)) & u64::from(LABEL)) as u32
}

/// The UDP source port of a flow label: 14 bits of it, above 0xc000.
pub(crate) fn source_port(label: u32) -> u16 {
    let (low, high) = (label & 0x03fff, label & 0xf_c000);
    ((low ^ (high >> 14)) | 0xc000) as u16
}

/// Labels for the queue pairs of one link, of their numbers here and there: the one that Linux would make, or if an earlier pair
/// has its port already, the next that has another, so that all go by different ports. Never zero, which would mean "none".
pub(crate) fn labels(pairs: &[(u32, u32)]) -> Vec<u32> {
    let mut taken: Vec<u16> = Vec::new();
    pairs
        .iter()
        .map(|&(one, other)| {
            let first = label(one, other);
            let attempts = (0..=LABEL).map(|n| first.wrapping_add(n) & LABEL);
            let free = attempts.into_iter().find(|&l| l != 0 && !taken.contains(&source_port(l)));
            let label = free.unwrap_or(1);
            taken.push(source_port(label));
            label
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_rule_is_the_kernels() {
        // By hand: 0x11 times 0x12 has no bits above the twentieth.
        assert_eq!(label(0x11, 0x12), 0x132);
        assert_eq!(label(0x00ff_ffff, 0x00ff_ffff), {
            let v: u64 = 0x00ff_ffff * 0x00ff_ffff;
            let v = v ^ (v >> 20);
            ((v ^ (v >> 40)) & 0xf_ffff) as u32
        });
        assert_eq!(source_port(0x132), 0xc132);
        assert_eq!(source_port(0xf_ffff), 0xc000 | (0x3fff ^ 0x3f));
    }

    proptest! {
        #[test]
        fn pairs_of_a_link_go_by_different_ports(
            pairs in prop::collection::vec((1u32..1 << 24, 1u32..1 << 24), 1..16), same in any::<bool>(),
        ) {
            let pairs = if same { vec![pairs[0]; pairs.len()] } else { pairs };
            let labels = labels(&pairs);
            let mut ports: Vec<u16> = labels.iter().map(|&label| source_port(label)).collect();
            prop_assert!(labels.iter().all(|label| (1..=LABEL).contains(label)));
            prop_assert!(ports.iter().all(|port| *port >= 0xc000));
            ports.sort_unstable();
            ports.dedup();
            prop_assert_eq!(ports.len(), pairs.len());
            let turned: Vec<(u32, u32)> = pairs.iter().map(|&(one, other)| (other, one)).collect();
            prop_assert_eq!(super::labels(&turned), labels, "both ends choose the same");
        }
    }
}
