//! Numbers of the literature, and choices that are as good as can be.

use proptest::prelude::*;

use super::*;
use proto_random::Random;

#[test]
fn ports_are_those_of_linux() {
    assert_eq!(udp::of_label(0), 0xC000);
    assert_eq!(udp::of_label(0xF_FFFF), 0xC000 | (0x3FFF ^ 0x3F));
    assert_eq!(udp::label_of(0x11, 0x2A), 0x11 * 0x2A);
    // 0xABCDEF * 0x123456 = 0x0C_379A_AAA0_EA; folded by 20 and 40 bits.
    let product: u64 = 0xAB_CDEF * 0x12_3456;
    let folded = product ^ (product >> 20);
    assert_eq!(u64::from(udp::label_of(0xAB_CDEF, 0x12_3456)), (folded ^ (folded >> 40)) & 0xF_FFFF);
    for port in [0xC000, 0xC001, 0xFFFF] {
        assert_eq!(udp::of_label(udp::label_for(port)), port);
        assert_ne!(udp::label_for(port), 0);
    }
}

/// Mean load of the busiest of m links under m flows (balls into bins; values for 4 to 64 as computed exactly elsewhere).
#[test]
fn chance_is_as_bad_as_theory_says() {
    for family in [Family::Broadcom, Family::Spectrum] {
        for (links, mean) in [(4, 2.12), (8, 2.597), (16, 3.07), (32, 3.52), (64, 3.97)] {
            let mut random = Random::new(7);
            let hash = plan(family, Fields::FiveTuple, 1, 1)[0];
            let runs = 2_000;
            let mut sum = 0;
            for _ in 0..runs {
                let mut load = vec![0_u32; links];
                for flow in 0..links {
                    let bits = random.word();
                    let port = udp::FIRST | (bits & 0x3FFF) as u16;
                    let flow =
                        Flow { source: 0x0A00_0001 + flow as u32, target: (bits >> 20) as u32, port, qpn: 1 };
                    load[hash.pick(&flow, links)] += 1;
                }
                sum += load.into_iter().max().unwrap();
            }
            let found = f64::from(sum) / f64::from(runs);
            assert!((found - mean).abs() < 0.08, "{family:?}: {links} links: {found}, not {mean}");
        }
    }
}

#[test]
fn another_seed_alone_does_not_help_and_other_bits_do() {
    for family in [Family::Broadcom, Family::Spectrum] {
        let first = plan(family, Fields::FiveTuple, 1, 1)[0];
        let reseeded = Hash { seed: first.seed ^ 0x5A5A, ..first };
        assert!((reached(&first, &reseeded, 64, 1) - 1.0 / 64.0).abs() < 1e-9, "{family:?}");
        let planned = plan(family, Fields::FiveTuple, 3, 1);
        for (a, b) in [(0, 1), (1, 2), (0, 2)] {
            let share = reached(&planned[a], &planned[b], 64, 1);
            assert!(share > 0.99, "{family:?}: tiers {a} and {b}: {share}");
        }
    }
}

#[test]
fn chosen_flows_have_links_of_their_own() {
    for family in [Family::Broadcom, Family::Spectrum] {
        let one = spread(family, 2, 64, 64, 20, 3).unwrap();
        assert!((one.chosen - 1.0).abs() < 1e-9 && one.chance < 0.35, "{family:?}: {one:?}");
        let many = spread(family, 8, 64, 64, 3, 3).unwrap();
        assert!((many.chosen - 1.0).abs() < 1e-9 && many.chance < 0.3, "{family:?}: {many:?}");
    }
}

fn fanout(spines: usize, cables: usize, family: Family) -> Fanout {
    let hashes = plan(family, Fields::WithQpn, 2, 9);
    Fanout { spines, cables, leaf: hashes[0], spine: hashes[1] }
}

proptest! {
    #[test]
    fn no_choice_is_better(
        ends in prop::collection::vec((0_usize..5, 0_usize..5, any::<u64>()), 0..60),
        spines in 1_usize..6,
        cables in 1_usize..4,
        broadcom in any::<bool>(),
    ) {
        let family = if broadcom { Family::Broadcom } else { Family::Spectrum };
        let fanout = fanout(spines, cables, family);
        let demand = |(from, to, bits): &(usize, usize, u64)| {
            let port = udp::FIRST | (bits & 0x3FFF) as u16;
            let flow = Flow { source: *from as u32, target: *to as u32, port, qpn: (bits >> 40) as u32 };
            Demand { flow, from: *from, to: *to }
        };
        let demands: Vec<Demand> = ends.iter().map(demand).collect();
        let (choices, loads) = choose(&demands, &fanout).unwrap();
        prop_assert_eq!(loads.worst, loads.least);
        prop_assert!(by_chance(&demands, &fanout).worst >= loads.least);
        for (choice, demand) in choices.iter().zip(&demands).filter(|(_, demand)| demand.from != demand.to) {
            let flow = Flow { port: choice.port, ..demand.flow };
            prop_assert_eq!(fanout.leaf.pick(&flow, spines * cables), choice.uplink);
        }
    }
}

#[test]
fn without_uplinks_nothing_is_chosen() {
    assert_eq!(choose(&[], &fanout(0, 1, Family::Spectrum)), Err(BadChoice::NoUplink));
}
