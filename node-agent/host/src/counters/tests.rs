//! Recorded trees, and what happens to devices.

use std::{fs, path::Path, sync::Arc};

use node_agent_health::{
    Condition, Config, CounterKind, ReadFailure, Source, State, Vendor, Verdict, model::full_layout,
};
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
        Self::with(rails, |root| Box::new(FolderStatistics::new(root)))
    }

    fn with(rails: u32, statistics: impl FnOnce(&Path) -> Box<dyn OpenStatistics>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let nics: Vec<Nic> = (0..rails).map(|rail| nic(rail, &format!("mlx5_{rail}"))).collect();
        nics.iter().for_each(|nic| record(root.path(), nic, 7).unwrap());
        let statistics = statistics(root.path());
        let mut poller = Poller::new(Tree::new(root.path()), statistics);
        poller.watch(&nics);
        Self { root, poller, state: State::new(Config::default()), nics, now: 1_000_000_000 }
    }

    fn check(&mut self) -> Vec<Verdict> {
        self.now += 1000;
        self.poller.check(&mut self.state, Timestamp(self.now))
    }

    /// So many looks; the conditions of rail 0 or 1 that were raised or ended, and whether the rail is drained then.
    fn checks(&mut self, n: u32) -> Vec<(u32, Condition, bool)> {
        let rail = |verdict| match verdict {
            Verdict::Rail(one) => Some((one.rail, one.condition, one.drain)),
            Verdict::Node { .. } | Verdict::Probe { .. } => None,
        };
        (0..n).flat_map(|_| self.check()).filter_map(rail).collect()
    }

    fn total(&self, word: CounterKind) -> u64 {
        self.state.ports().map(|(_, port)| port.totals[word]).sum()
    }
}

#[test]
fn every_known_counter_of_every_port_is_read() {
    let mut rig = Rig::new(8);
    assert_eq!(rig.check(), []);
    let each = full_layout(Vendor::Mlx5).columns().len();
    assert!(each >= 120, "{each}");
    assert_eq!(rig.poller.counters(), 8 * each);
    let hardware = "sys/class/infiniband/mlx5_3/ports/1/hw_counters/packet_seq_err";
    set(rig.root.path(), hardware, "12\n");
    set(rig.root.path(), "sys/class/net/ens3/ethtool_statistics/rx_prio3_pause_duration", "1007\n");
    rig.check();
    assert_eq!((rig.total(CounterKind::LossOut), rig.total(CounterKind::PauseRxUs)), (5, 1000));
}

/// A kernel with one device, which tells none.
fn none() -> KernelStatistics {
    let kernel = FakeKernel::new();
    kernel.add("ens0", Style::Mlx5);
    KernelStatistics::new(Arc::new(kernel))
}

/// What a device's driver tells of itself from now on.
fn report(kernel: &FakeKernel, list: &[(&str, u64)]) {
    let list = list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    kernel.change(|world| world.devices.get_mut("ens0").unwrap().statistics = list);
}

#[test]
fn the_kernels_private_statistics_are_read_and_others_are_seen() {
    let kernel = FakeKernel::new();
    kernel.add("ens0", Style::Mlx5);
    let have = |list: &[(&str, u64)]| report(&kernel, list);
    let source = KernelStatistics::new(Arc::new(kernel.clone()));
    let errno = |error: std::io::Error| error.raw_os_error();
    assert!(source.open("ens0").unwrap().is_none(), "none");
    assert_eq!(source.open("ens1").err().and_then(errno), Some(Errno::NODEV.0), "no such device");
    have(&[("rx0_packets", 1), ("rx_prio3_pause", 5), ("tx_discards_phy", u64::MAX)]);
    let mut statistics = source.open("ens0").unwrap().unwrap();
    assert_eq!(statistics.names(), ["rx0_packets", "rx_prio3_pause", "tx_discards_phy"]);
    statistics.want(&[2, 1]);
    let mut values = [None; 2];
    assert!(statistics.read(&mut values).unwrap());
    assert_eq!(values, [Some(u64::MAX), Some(5)]);
    assert!(statistics.are_the_same().unwrap());
    // As many, and yet others.
    have(&[("rx0_packets", 1), ("rx_prio4_pause", 5), ("tx_discards_phy", 8)]);
    assert!(!statistics.are_the_same().unwrap());
    // Another number of channels.
    have(&[("rx0_packets", 1), ("rx1_packets", 1), ("rx2_packets", 2), ("rx_prio3_pause", 6)]);
    values.fill(None);
    assert!(!statistics.read(&mut values).unwrap());
    assert_eq!(values, [None; 2]);
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
    rig.check();
    set(rig.root.path(), "sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err", "N/A (no PMA)\n");
    rig.check();
    set(rig.root.path(), "sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err", "9\n");
    rig.check();
    assert_eq!(rig.total(CounterKind::LossOut), 2);
}

#[test]
fn a_device_that_goes_is_told_and_begins_anew_when_it_is_back() {
    let mut rig = Rig::new(2);
    rig.check();
    fs::remove_dir_all(rig.root.path().join("sys/class/infiniband/mlx5_1")).unwrap();
    fs::remove_dir_all(rig.root.path().join("sys/class/net/ens1")).unwrap();
    let verdicts: Vec<Verdict> = (0..4).flat_map(|_| rig.check()).collect();
    let Verdict::Rail(one) = &verdicts[0] else { panic!("{verdicts:?}") };
    assert_eq!((verdicts.len(), one.rail, one.condition, one.drain), (1, 1, Condition::Gone, true));
    // Its counters begin elsewhere; that is no burst.
    record(rig.root.path(), &rig.nics[1], 1_000_000).unwrap();
    let verdicts: Vec<Verdict> = (0..40).flat_map(|_| rig.check()).collect();
    assert!(matches!(&verdicts[..], [Verdict::Rail(one)] if !one.drain), "{verdicts:?}");
    assert_eq!(rig.total(CounterKind::LossOut), 0);
}

#[test]
fn a_device_that_is_renamed_goes_on() {
    let mut rig = Rig::new(1);
    rig.check();
    let class = rig.root.path().join("sys/class/infiniband");
    fs::rename(class.join("mlx5_0"), class.join("rocep24s0")).unwrap();
    rig.nics[0].device = "rocep24s0".to_owned();
    rig.poller.watch(&rig.nics.clone());
    set(rig.root.path(), "sys/class/infiniband/rocep24s0/ports/1/hw_counters/packet_seq_err", "10\n");
    rig.check();
    assert_eq!((rig.total(CounterKind::LossOut), rig.state.ports().count()), (3, 1));
    assert_eq!(rig.poller.ports().map(|(nic, _)| nic.device.as_str()).collect::<Vec<_>>(), ["rocep24s0"]);
}

#[test]
fn a_storm_is_found_where_pfc_was_turned_on_later() {
    let kernel = FakeKernel::new();
    kernel.add("ens0", Style::Mlx5);
    let off = [("rx0_packets", 1), ("rx_global_pause_duration", 9), ("tx_global_pause_duration", 9)];
    report(&kernel, &off);
    let mut rig = Rig::with(1, |_| Box::new(KernelStatistics::new(Arc::new(kernel.clone()))));
    rig.checks(2);
    let errors = "sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err";
    set(rig.root.path(), errors, "12\n");
    let prio3 = |rx: u64, tx: u64| {
        report(
            &kernel,
            &[("rx0_packets", 1), ("rx_prio3_pause_duration", rx), ("tx_prio3_pause_duration", tx)],
        );
    };
    // As many as before, so it is seen by their names only, which are looked at now and then.
    prio3(9, 9);
    assert_eq!(rig.checks(30), []);
    assert_eq!(rig.total(CounterKind::LossOut), 5, "what was counted goes on");
    for second in 1..=3 {
        prio3(9 + second * 990_000, 9);
        let found = rig.checks(1);
        assert_eq!(found.contains(&(0, Condition::Storm, true)), second == 2, "{second}: {found:?}");
    }
    assert_eq!(rig.total(CounterKind::PauseRxUs), 2_970_000);
    // Another number of them is seen at once, and only the first look at a new one tells nothing.
    let all = |rx: u64, prio4: u64| {
        report(
            &kernel,
            &[("rx0_packets", 1), ("rx_prio3_pause_duration", rx), ("rx_prio4_pause_duration", prio4)],
        );
        kernel.change(|world| {
            let statistics = &mut world.devices.get_mut("ens0").unwrap().statistics;
            statistics.push(("tx_prio3_pause_duration".to_owned(), 0));
        });
    };
    all(2_970_010, 1_000);
    rig.checks(1);
    all(2_970_011, 1_002);
    rig.checks(1);
    assert_eq!(rig.total(CounterKind::PauseRxUs), 2_970_004);
    assert_eq!(rig.total(CounterKind::LossOut), 5);
}

#[test]
fn a_network_device_that_is_renamed_is_read_whole_under_its_new_name() {
    let mut rig = Rig::new(1);
    rig.check();
    let whole = rig.poller.counters();
    let class = rig.root.path().join("sys/class/net");
    fs::rename(class.join("ens0"), class.join("rail0")).unwrap();
    // Opened between the kernel's change and the inventory's: it is not there, rather than half of it.
    rig.poller.watch(&[Nic { netdev: "between".to_owned(), ..rig.nics[0].clone() }]);
    assert_eq!(rig.checks(1), []);
    assert_eq!(rig.poller.counters(), 0);
    rig.nics[0].netdev = "rail0".to_owned();
    rig.poller.watch(&rig.nics.clone());
    assert_eq!(rig.checks(1), []);
    assert_eq!(rig.poller.counters(), whole);
    set(rig.root.path(), "sys/class/net/rail0/ethtool_statistics/rx_prio3_pause_duration", "1007\n");
    rig.check();
    assert_eq!((rig.total(CounterKind::PauseRxUs), rig.state.ports().count()), (1000, 1));
}

#[test]
fn a_driver_that_is_being_loaded_is_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let nic = nic(0, "mlx5_0");
    record(root.path(), &nic, 7).unwrap();
    let tree = Tree::new(root.path());
    let open = |statistics: &dyn OpenStatistics| PortReader::open(&tree, &nic, statistics, 1).map(drop);
    assert_eq!(open(&none()), Ok(()));
    let refusing = KernelStatistics::new(Arc::new(FakeKernel::new()));
    assert_eq!(open(&refusing), Err(ReadFailure::Absent), "the kernel does not know it by this name yet");
    let state = root.path().join("sys/class/infiniband/mlx5_0/ports/1/state");
    fs::remove_file(&state).unwrap();
    assert_eq!(open(&none()), Err(ReadFailure::Absent), "its port is not made yet");
}

/// Its driver was taken away, say; its network device is another driver's.
#[test]
fn an_rdma_device_is_gone_although_its_network_device_is_there() {
    for renamed in [false, true] {
        let mut rig = Rig::new(2);
        let address = |root: &Path| set(root, "sys/class/net/ens1/address", "b8:3f:d2:00:00:01\n");
        address(rig.root.path());
        rig.checks(2);
        let rdma = rig.root.path().join("sys/class/infiniband/mlx5_1");
        fs::remove_dir_all(&rdma).unwrap();
        if renamed {
            // The inventory knows the network device alone now.
            let plain = Nic { device: "ens1".to_owned(), ..rig.nics[1].clone() };
            rig.poller.watch(&[rig.nics[0].clone(), plain]);
        }
        assert_eq!(rig.checks(4), [(1, Condition::Gone, true)], "{renamed}");
        assert_eq!(rig.state.ports().count(), 2);
        let named: Vec<&str> = rig.poller.ports().map(|(nic, _)| nic.device.as_str()).collect();
        assert_eq!(named, ["mlx5_0", if renamed { "ens1" } else { "mlx5_1" }], "it is told of by its name");
        record(rig.root.path(), &rig.nics[1], 7).unwrap();
        rig.poller.watch(&rig.nics.clone());
        assert_eq!(rig.checks(40), [(1, Condition::Gone, false)], "{renamed}");
        assert_eq!((rig.state.ports().count(), rig.poller.ports().count()), (2, 2));
    }
}

#[test]
fn what_a_network_device_had_its_rdma_device_has_when_it_comes() {
    let mut rig = Rig::new(1);
    set(rig.root.path(), "sys/class/net/ens0/address", "b8:3f:d2:00:00:01\n");
    let rdma = rig.root.path().join("sys/class/infiniband/mlx5_0");
    fs::remove_dir_all(&rdma).unwrap();
    let plain = Nic { device: "ens0".to_owned(), ..rig.nics[0].clone() };
    rig.poller = Poller::new(Tree::new(rig.root.path()), Box::new(FolderStatistics::new(rig.root.path())));
    rig.poller.watch(&[plain]);
    rig.check();
    set(rig.root.path(), "sys/class/net/ens0/carrier", "0\n");
    assert_eq!(rig.checks(1), [(0, Condition::LinkDown, true)]);
    record(rig.root.path(), &rig.nics[0], 7).unwrap();
    rig.poller.watch(&rig.nics.clone());
    rig.check();
    assert_eq!((rig.state.ports().count(), rig.poller.ports().count()), (1, 1));
    assert_eq!(rig.checks(40), [(0, Condition::LinkDown, false)], "only after proof");
}

#[test]
fn a_nic_of_an_inventory_file_is_its_network_device_alone() {
    let mut rig = Rig::new(1);
    fs::remove_dir_all(rig.root.path().join("sys/class/infiniband")).unwrap();
    rig.poller = Poller::new(Tree::new(rig.root.path()), Box::new(FolderStatistics::new(rig.root.path())));
    rig.poller.watch(&rig.nics.clone());
    assert_eq!(rig.checks(2), []);
    set(rig.root.path(), "sys/class/net/ens0/carrier", "0\n");
    assert_eq!(rig.checks(1), [(0, Condition::LinkDown, true)]);
}

#[test]
fn each_port_of_a_device_is_read_by_its_number() {
    let root = tempfile::tempdir().unwrap();
    let both = [nic(0, "mlx5_0"), Nic { device: "mlx5_0:2".to_owned(), ..nic(1, "") }];
    record(root.path(), &both[0], 7).unwrap();
    record(root.path(), &Nic { device: "mlx5_0".to_owned(), ..both[1].clone() }, 7).unwrap();
    let port = root.path().join("sys/class/infiniband/mlx5_0/ports");
    fs::create_dir_all(port.join("2/hw_counters")).unwrap();
    fs::write(port.join("2/hw_counters/packet_seq_err"), "9\n").unwrap();
    fs::write(port.join("2/state"), "1: DOWN\n").unwrap();
    let statistics = FolderStatistics::new(root.path());
    let mut reader = PortReader::open(&Tree::new(root.path()), &both[1], &statistics, 1).unwrap();
    assert_eq!(reader.key().port, 2);
    assert_eq!(reader.read(&both[1], Timestamp(1)).unwrap().link, Some(false));
    let hardware = reader.layout().columns().iter().filter(|column| column.row.source == Source::Hardware);
    assert_eq!(hardware.count(), 1);
}

#[test]
fn a_device_that_was_never_there_is_no_ones_fault() {
    let root = tempfile::tempdir().unwrap();
    let mut poller = Poller::new(Tree::new(root.path()), Box::new(none()));
    poller.watch(&[nic(0, "tcp0")]);
    let mut state = State::new(Config::default());
    for second in 1..10 {
        assert_eq!(poller.check(&mut state, Timestamp(second * 1000)), []);
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
