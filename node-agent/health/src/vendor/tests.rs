//! The tables themselves, and layouts made of them.

use std::collections::BTreeSet;

use super::{Source, Vendor};
use crate::{CounterKind, Layout};

#[test]
fn no_name_stands_twice_in_a_table() {
    for vendor in Vendor::ALL {
        let mut seen = BTreeSet::new();
        for row in vendor.own() {
            assert!(!row.names.is_empty() && (row.bits == 32 || row.bits == 64));
            for name in row.names {
                assert!(seen.insert((row.source, *name)), "{vendor:?}: {name} stands twice");
            }
        }
    }
}

#[test]
fn every_alias_gives_the_same_word() {
    for vendor in Vendor::ALL {
        for row in vendor.rows() {
            for name in row.names {
                let name = name.replace("{p}", "3");
                let layout = Layout::new(vendor, [(row.source, name.as_str())]);
                let column = &layout.columns()[0];
                assert_eq!((column.name.as_str(), column.word()), (name.as_str(), row.word), "{vendor:?}");
            }
        }
    }
}

#[test]
fn of_two_names_of_one_counter_one_is_read() {
    let both = [(Source::Hardware, "rp_cnp_handled"), (Source::Hardware, "rx_cnp_pkts")];
    let layout = Layout::new(Vendor::BnxtRe, both);
    let names: Vec<&str> = layout.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["rx_cnp_pkts"]);
}

#[test]
fn a_vendors_own_row_stands_before_the_common_one() {
    // rxe has `link_downed` among its own counters; the standard one is another file.
    let both = [(Source::Hardware, "link_downed"), (Source::Port, "link_downed")];
    assert_eq!(Layout::new(Vendor::Rxe, both).columns().len(), 2);
    assert_eq!(Layout::new(Vendor::Mlx5, both).columns().len(), 1);
}

#[test]
fn every_vendor_tells_loss_timeouts_and_congestion_where_it_can() {
    let has = |vendor: Vendor, word| vendor.own().iter().any(|row| row.word == word);
    for vendor in [Vendor::Mlx5, Vendor::BnxtRe, Vendor::Ionic] {
        for word in [
            CounterKind::LossOut,
            CounterKind::Timeout,
            CounterKind::DeadQp,
            CounterKind::Reorder,
            CounterKind::Rnr,
            CounterKind::AppFault,
        ] {
            assert!(has(vendor, word), "{vendor:?} {word}");
        }
    }
    for vendor in [Vendor::Mlx5, Vendor::BnxtRe, Vendor::Irdma, Vendor::Ionic] {
        for word in [CounterKind::EcnSeen, CounterKind::CnpSent, CounterKind::CnpGot] {
            assert!(has(vendor, word), "{vendor:?} {word}");
        }
    }
    for vendor in [Vendor::Mlx5, Vendor::BnxtRe] {
        assert!(has(vendor, CounterKind::PauseRxUs) && has(vendor, CounterKind::PauseTxUs), "{vendor:?}");
    }
}

#[test]
fn priorities_are_found() {
    let names: Vec<String> = (0..8).map(|p| format!("tx_prio{p}_bytes")).collect();
    let listed = names.iter().map(|name| (Source::Ethtool, name.as_str()));
    let layout = Layout::new(
        Vendor::Mlx5,
        listed.chain([(Source::Netdev, "tx_bytes"), (Source::Port, "port_xmit_data")]),
    );
    assert!(layout.tx().is_split() && !layout.rx().is_split());
    assert!(layout.tx().total.is_some() && layout.tx().stack.is_some());
    assert_ne!(layout.tx().total, layout.tx().stack);
}

#[test]
fn what_nobody_knows_is_left_out() {
    let layout =
        Layout::new(Vendor::Other, [(Source::Hardware, "out_of_sequence"), (Source::Port, "lifespan")]);
    assert!(layout.columns().is_empty());
}
