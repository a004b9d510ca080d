//! What the probe cannot see of this server's ports while rails are measured: their GIDs, the DSCP of what they send, and the priorities
//! in which their NICs count the bytes. What cannot be read is not known; it is never zero.

use std::{collections::BTreeMap, sync::Arc};

use node_agent_health::{Layout, layout::Priorities};
use node_agent_host::{
    counters::{KernelStatistics, OpenStatistics, PortReader},
    placed_nic,
    sysfs::Tree,
};
use node_agent_netlink::{RealKernel, gid};
use node_agent_qos::DataClass;
use proto_model::{Measured, Nic, NicPlace, NodePlace, PortGid, PriorityBytes, Timestamp};

/// All NICs that are known here have one port.
const PORT: u32 = 1;

/// The private statistics of this kernel's devices.
pub fn kernel_statistics() -> KernelStatistics {
    KernelStatistics::new(Arc::new(RealKernel::new()))
}

/// The ports of a job on this server, as they were before its rails were measured.
#[derive(Debug)]
pub struct Ports {
    /// The DSCP that the job sends with.
    dscp: u8,
    ports: Vec<Port>,
}

#[derive(Debug)]
struct Port {
    nic: Nic,
    gid: Option<PortGid>,
    /// As which it is kept.
    data_class: DataClass,
    counters: Option<(PortReader, Vec<Option<u64>>)>,
}

impl Ports {
    /// Looks at them. `data_classes`: as which each rail's NIC is kept.
    pub fn check(
        place: &NodePlace,
        data_classes: &BTreeMap<u32, DataClass>,
        tree: &Tree,
        statistics: &dyn OpenStatistics,
    ) -> Self {
        let own = DataClass::of_most(data_classes.values().copied()).unwrap_or_default();
        let port = |place: &NicPlace| {
            let nic = placed_nic(place);
            let counters = PortReader::open(tree, &nic, statistics, 0).ok();
            let counters = counters.and_then(|mut reader| {
                let before = reader.read(&nic, Timestamp::default()).ok()?.values.to_vec();
                Some((reader, before))
            });
            let data_class = data_classes.get(&place.rail).copied().unwrap_or(own);
            Port { gid: gid_of(tree, place), data_class, nic, counters }
        };
        Self { dscp: own.dscp().get(), ports: place.nics.iter().map(port).collect() }
    }

    /// Looks again, and adds what was found to what was measured meanwhile.
    pub fn report(self, measured: &mut Measured) {
        for mut port in self.ports {
            let priority_bytes = port.priority_bytes();
            for reported in measured.ports.iter_mut().filter(|reported| reported.rail == port.nic.rail) {
                (reported.gid, reported.dscp, reported.priority_bytes) =
                    (port.gid, Some(self.dscp), priority_bytes);
            }
        }
    }
}

impl Port {
    fn priority_bytes(&mut self) -> Option<PriorityBytes> {
        let (reader, before) = self.counters.as_mut()?;
        let layout = reader.layout().clone();
        let after = reader.read(&self.nic, Timestamp::default()).ok()?.values;
        priority_bytes(&layout, self.data_class, before, after)
    }
}

/// The GID of the address that the job uses there; where there is none, another of the same network device.
fn gid_of(tree: &Tree, place: &NicPlace) -> Option<PortGid> {
    if !tree.at(&format!("sys/class/infiniband/{}/ports/{PORT}/gids", place.device)).exists() {
        return None;
    }
    let table = gid::table(tree, &place.device, PORT);
    let own: Vec<_> = place.address.into_iter().collect();
    let found = gid::roce_v2(&table, &place.netdev, &own);
    let found = found.or_else(|| gid::roce_v2(&table, &place.netdev, &[]));
    Some(found.map_or(PortGid::Missing, |gid| PortGid::Found { index: gid.index, gid: gid.raw }))
}

/// What the counters of each priority moved by, both ways, where data is to be in `data_class`. `None` where a direction is not counted
/// by priority at all, or a counter of it was not read or went back.
fn priority_bytes(
    layout: &Layout,
    data_class: DataClass,
    before: &[Option<u64>],
    after: &[Option<u64>],
) -> Option<PriorityBytes> {
    let (lossless, cnp) = (data_class.lossless.index(), data_class.cnp.index());
    let mut sum = PriorityBytes { right: 0, wrong: 0 };
    let split = |priorities: &&Priorities| priorities.is_split();
    let mut directions = [layout.tx(), layout.rx()].into_iter().filter(split).peekable();
    directions.peek()?;
    for priorities in directions {
        for (priority, at) in priorities.by_priority.iter().enumerate() {
            let at = (*at)?;
            let moved = (*after.get(at)?)?.checked_sub((*before.get(at)?)?)?;
            match priority {
                _ if priority == lossless => sum.right = sum.right.saturating_add(moved),
                // Notifications of congestion have a priority of their own.
                _ if priority == cnp => {}
                _ => sum.wrong = sum.wrong.saturating_add(moved),
            }
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use node_agent_health::Source;
    use node_agent_host::counters::{FolderStatistics, recorded};
    use node_agent_qos::words::Priority;
    use proto_model::{NodeName, PortReport};

    use super::*;

    fn place(rail: u32) -> NicPlace {
        NicPlace {
            device: format!("mlx5_{rail}"),
            netdev: format!("ens{rail}"),
            rail,
            leaf: String::new(),
            address: Some(format!("10.{rail}.0.1").parse().unwrap()),
        }
    }

    fn gid(root: &Path, rail: u32, index: u32, kind: &str, gid: &str) {
        let port = root.join(format!("sys/class/infiniband/mlx5_{rail}/ports/1"));
        for (folder, text) in
            [("gids", gid), ("gid_attrs/types", kind), ("gid_attrs/ndevs", &format!("ens{rail}"))]
        {
            std::fs::create_dir_all(port.join(folder)).unwrap();
            std::fs::write(port.join(folder).join(index.to_string()), format!("{text}\n")).unwrap();
        }
    }

    fn count(root: &Path, rail: u32, name: &str, value: &str) {
        let nic = recorded::nic(rail, &format!("mlx5_{rail}"), &format!("ens{rail}"));
        std::fs::write(root.join(recorded::place(&nic, Source::Ethtool, name)), value).unwrap();
    }

    /// What is told of rails 0 to 3 where `change` happens while they are measured.
    fn reported(root: &Path, change: impl FnOnce()) -> Vec<PortReport> {
        reported_in(&BTreeMap::new(), root, change)
    }

    fn reported_in(
        data_classes: &BTreeMap<u32, DataClass>,
        root: &Path,
        change: impl FnOnce(),
    ) -> Vec<PortReport> {
        let node = NodePlace {
            node: NodeName::new("n0").unwrap(),
            pod: String::new(),
            gpus: Vec::new(),
            nics: (0..4).map(place).collect(),
            remapped: false,
            cpus: 0,
            memory_bytes: 0,
        };
        let ports = Ports::check(&node, data_classes, &Tree::new(root), &FolderStatistics::new(root));
        change();
        let port = |rail| PortReport { rail, mtu: None, dscp: None, gid: None, priority_bytes: None };
        let mut measured = Measured { ports: (0..4).map(port).collect(), ..Measured::default() };
        ports.report(&mut measured);
        measured.ports
    }

    #[test]
    fn gids_are_told_by_kind_and_address() {
        let room = tempfile::tempdir().unwrap();
        let root = room.path();
        gid(root, 0, 1, "IB/RoCE v1", "::ffff:10.0.0.1");
        gid(root, 0, 3, "RoCE v2", "::ffff:10.0.0.1");
        gid(root, 1, 0, "RoCE v2", "fe80::1");
        gid(root, 1, 5, "RoCE v2", "::ffff:10.1.0.77");
        gid(root, 2, 0, "IB/RoCE v1", "::ffff:10.2.0.1");
        let found = |index, gid: &str| Some(PortGid::Found { index, gid: gid.parse().unwrap() });
        let gids: Vec<_> = reported(root, || {}).iter().map(|port| port.gid).collect();
        let expected =
            [found(3, "::ffff:10.0.0.1"), found(5, "::ffff:10.1.0.77"), Some(PortGid::Missing), None];
        assert_eq!(gids, expected);
    }

    #[test]
    fn bytes_are_told_by_priority_or_not_at_all() {
        let room = tempfile::tempdir().unwrap();
        let root = room.path();
        for rail in 0..3 {
            let nic = recorded::nic(rail, &format!("mlx5_{rail}"), &format!("ens{rail}"));
            recorded::record(root, &nic, 100).unwrap();
        }
        let change = || {
            count(root, 0, "tx_prio3_bytes", "5100");
            count(root, 0, "rx_prio3_bytes", "1100");
            count(root, 0, "tx_prio0_bytes", "107");
            // Of notifications nothing is said, of frames neither.
            count(root, 0, "rx_prio6_bytes", "900");
            count(root, 0, "tx_prio1_packets", "900");
            count(root, 1, "tx_prio0_bytes", "9100");
            count(root, 2, "tx_prio3_bytes", "50");
        };
        let all: Vec<_> = reported(root, change).iter().map(|port| port.priority_bytes).collect();
        let bytes = |right, wrong| Some(PriorityBytes { right, wrong });
        assert_eq!(all, [bytes(6000, 7), bytes(0, 9000), None, None], "one went back, one has no counters");
    }
    /// What moved is right or wrong by the profile that the NIC is kept as; what is sent, by that of most of them.
    #[test]
    fn another_profile_has_another_data_class() {
        let room = tempfile::tempdir().unwrap();
        let root = room.path();
        for rail in 0..2 {
            let nic = recorded::nic(rail, &format!("mlx5_{rail}"), &format!("ens{rail}"));
            recorded::record(root, &nic, 100).unwrap();
        }
        let other = DataClass { traffic_class: 98, lossless: Priority::of(2), cnp: Priority::of(7) };
        let data_classes = BTreeMap::from([(0, other), (1, DataClass::default()), (2, other), (3, other)]);
        let change = || {
            for rail in 0..2 {
                count(root, rail, "tx_prio2_bytes", "5100");
                count(root, rail, "rx_prio3_bytes", "1100");
                count(root, rail, "rx_prio7_bytes", "107");
            }
        };
        let reported = reported_in(&data_classes, root, change);
        assert!(reported.iter().all(|port| port.dscp == Some(24)), "{reported:?}");
        let all: Vec<_> = reported.iter().take(2).map(|port| port.priority_bytes).collect();
        let bytes = |right, wrong| Some(PriorityBytes { right, wrong });
        assert_eq!(all, [bytes(5000, 1000), bytes(1000, 5007)]);
    }
}
