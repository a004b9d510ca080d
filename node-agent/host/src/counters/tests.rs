//! Recorded trees, and what happens to devices.

use std::{fs, path::Path, sync::Arc};

use node_agent_health::{Condition, Config, Source, State, Vendor, Verdict, Word, model::full_layout};
use node_agent_netlink::{
    Errno,
    fake::{FakeKernel, Style},
};
use proptest::prelude::*;
use proto_model::{Nic, Timestamp};

use super::{
    FolderStatistics, KernelStatistics, OpenStatistics, Poller, PortReader, port::parse, recorded::record,
};
use crate::sysfs::Tree;

fn nic(rail: u32, device: &str) -> Nic {
    super::recorded::nic(rail, device, &format!("ens{rail}"))
}

fn set(root: &Path, path: &str, text: &str) {
    // In place, as the kernel does: what is open stays open.
    fs::write(root.join(path), text).unwrap();
}

struct Rig {
    root: tempfile::TempDir,
    poller: Poller,
    state: State,
    nics: Vec<Nic>,
    now: u64,
}

impl Rig {
    fn new(rails: u32) -> Self {
        let root = tempfile::tempdir().unwrap();
        let nics: Vec<Nic> = (0..rails).map(|rail| nic(rail, &format!("mlx5_{rail}"))).collect();
        nics.iter().for_each(|nic| record(root.path(), nic, 7).unwrap());
        let statistics = Box::new(FolderStatistics::new(root.path()));
        let mut poller = Poller::new(Tree::new(root.path()), statistics);
        poller.watch(&nics);
        Self { root, poller, state: State::new(Config::default()), nics, now: 1_000_000_000 }
    }

    fn look(&mut self) -> Vec<Verdict> {
        self.now += 1000;
        self.poller.look(&mut self.state, Timestamp(self.now))
    }

    fn total(&self, word: Word) -> u64 {
        self.state.ports().map(|(_, port)| port.totals[word]).sum()
    }
}

#[test]
fn every_known_counter_of_every_port_is_read() {
    let mut rig = Rig::new(8);
    assert_eq!(rig.look(), []);
    let each = full_layout(Vendor::Mlx5).columns().len();
    assert!(each >= 120, "{each}");
    assert_eq!(rig.poller.counters(), 8 * each);
    let hardware = "sys/class/infiniband/mlx5_3/ports/1/hw_counters/packet_seq_err";
    set(rig.root.path(), hardware, "12\n");
    set(rig.root.path(), "sys/class/net/ens3/ethtool_statistics/rx_prio3_pause_duration", "1007\n");
    rig.look();
    assert_eq!((rig.total(Word::LossOut), rig.total(Word::PauseRxUs)), (5, 1000));
}

/// A kernel whose devices tell none.
fn none() -> KernelStatistics {
    KernelStatistics::new(Arc::new(FakeKernel::new()))
}

#[test]
fn the_kernels_private_statistics_are_read_also_after_they_became_others() {
    let kernel = FakeKernel::new();
    kernel.add("ens0", Style::Mlx5);
    let have = |list: &[(&str, u64)]| {
        let list = list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        kernel.change(|world| world.devices.get_mut("ens0").unwrap().statistics = list);
    };
    let source = KernelStatistics::new(Arc::new(kernel.clone()));
    assert!(source.open("ens0").is_none() && source.open("ens1").is_none(), "none, and no such device");
    have(&[("rx0_packets", 1), ("rx_prio3_pause", 5), ("tx_discards_phy", u64::MAX)]);
    let mut statistics = source.open("ens0").unwrap();
    assert_eq!(statistics.names(), ["rx0_packets", "rx_prio3_pause", "tx_discards_phy"]);
    statistics.want(&[2, 1]);
    let mut values = [None; 2];
    statistics.read(&mut values).unwrap();
    assert_eq!(values, [Some(u64::MAX), Some(5)]);
    // Another number of channels, and the driver no longer has one of them.
    have(&[("rx0_packets", 1), ("rx1_packets", 1), ("rx2_packets", 2), ("rx_prio3_pause", 6)]);
    statistics.read(&mut values).unwrap();
    assert_eq!(values, [None, Some(6)]);
    have(&[("rx_prio3_pause", 7), ("tx_discards_phy", 8)]);
    statistics.read(&mut values).unwrap();
    assert_eq!(values, [Some(8), Some(7)]);
    kernel.change(|world| world.devices.remove("ens0"));
    let gone = statistics.read(&mut values).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(Errno::NODEV.0), "{gone}");
}

#[test]
fn without_private_statistics_the_rest_is_read() {
    let root = tempfile::tempdir().unwrap();
    let nic = nic(0, "mlx5_0");
    record(root.path(), &nic, 7).unwrap();
    let mut reader = PortReader::open(&Tree::new(root.path()), &nic, &none(), 1).unwrap();
    assert!(reader.layout().columns().iter().all(|column| column.row.source != Source::Ethtool));
    let sample = reader.read(&nic, Timestamp(1)).unwrap();
    assert!(sample.values.iter().all(|value| *value == Some(7)));
    assert_eq!(sample.link, Some(true));
    set(root.path(), "sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    assert_eq!(reader.read(&nic, Timestamp(2)).unwrap().link, Some(false));
}

#[test]
fn what_is_no_number_is_missing() {
    let mut rig = Rig::new(1);
    rig.look();
    set(rig.root.path(), "sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err", "N/A (no PMA)\n");
    rig.look();
    set(rig.root.path(), "sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err", "9\n");
    rig.look();
    assert_eq!(rig.total(Word::LossOut), 2);
}

#[test]
fn a_device_that_goes_is_told_and_begins_anew_when_it_is_back() {
    let mut rig = Rig::new(2);
    rig.look();
    fs::remove_dir_all(rig.root.path().join("sys/class/infiniband/mlx5_1")).unwrap();
    fs::remove_dir_all(rig.root.path().join("sys/class/net/ens1")).unwrap();
    let verdicts: Vec<Verdict> = (0..4).flat_map(|_| rig.look()).collect();
    let Verdict::Rail(one) = &verdicts[0] else { panic!("{verdicts:?}") };
    assert_eq!((verdicts.len(), one.rail, one.condition, one.drain), (1, 1, Condition::Gone, true));
    // Its counters begin elsewhere; that is no burst.
    record(rig.root.path(), &rig.nics[1], 1_000_000).unwrap();
    let verdicts: Vec<Verdict> = (0..40).flat_map(|_| rig.look()).collect();
    assert!(matches!(&verdicts[..], [Verdict::Rail(one)] if !one.drain), "{verdicts:?}");
    assert_eq!(rig.total(Word::LossOut), 0);
}

#[test]
fn a_device_that_is_renamed_goes_on() {
    let mut rig = Rig::new(1);
    rig.look();
    let class = rig.root.path().join("sys/class/infiniband");
    fs::rename(class.join("mlx5_0"), class.join("rocep24s0")).unwrap();
    rig.nics[0].device = "rocep24s0".to_owned();
    rig.poller.watch(&rig.nics.clone());
    set(rig.root.path(), "sys/class/infiniband/rocep24s0/ports/1/hw_counters/packet_seq_err", "10\n");
    rig.look();
    assert_eq!((rig.total(Word::LossOut), rig.state.ports().count()), (3, 1));
    assert_eq!(rig.poller.ports().map(|(nic, _)| nic.device.as_str()).collect::<Vec<_>>(), ["rocep24s0"]);
}

#[test]
fn a_device_that_was_never_there_is_no_ones_fault() {
    let root = tempfile::tempdir().unwrap();
    let mut poller = Poller::new(Tree::new(root.path()), Box::new(none()));
    poller.watch(&[nic(0, "tcp0")]);
    let mut state = State::new(Config::default());
    for second in 1..10 {
        assert_eq!(poller.look(&mut state, Timestamp(second * 1000)), []);
    }
    assert_eq!(state.ports().count(), 0);
}

proptest! {
    #[test]
    fn numbers_are_read_as_the_library_reads_them(text in "[ ]{0,2}[0-9]{0,21}[\n ]{0,2}|\\PC{0,12}") {
        let wanted: Option<u64> = text.trim_matches(|c: char| c.is_ascii_whitespace()).parse().ok();
        let signed = text.trim().starts_with('+');
        prop_assert_eq!(parse(text.as_bytes()), wanted.filter(|_| !signed));
    }
}
