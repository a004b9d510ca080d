//! A server: what is on its disk, its agent's process around the agent's real core.

mod events;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use node_agent_core::{self as core, Key, Record};
use proto_model::{Gpu, Inventory, Isolation, IsolationSet, Nic, NodeName};

use crate::{process::Supervised, prove::Illness};

/// A server with its disk, its agent and what the agent has started.
pub struct Node {
    /// The name of its node.
    pub name: NodeName,
    /// The number of its GPUs.
    pub gpus: u32,
    /// The number of its rails.
    pub rails: u32,
    /// Rails whose NIC is down, as a bitmap.
    pub down: u64,
    /// The cables of its first two rails are swapped.
    pub crossed: bool,
    /// NICs that are out of use until a probe passes, by rail.
    pub ill: BTreeMap<u32, Illness>,
    /// Probes that its agent was ever sent.
    pub probes: BTreeSet<u64>,
    /// Its agent has said what is not true, or it was deleted while another posed as it.
    pub suspect: bool,
    /// Whose hardware its agent says it has.
    poses: Option<usize>,
    /// What its agent has found last, and with what down.
    found: Option<(u64, Arc<Inventory>)>,
    /// It gives no user to each attempt: two tenants must not be on it at once.
    pub apart: bool,
    /// It says that it does.
    pub boasts: bool,
    /// Whether it has power; without, nothing runs on it.
    pub powered: bool,
    /// The state of its agent's process; `None` while none runs.
    pub agent: Option<core::State>,
    /// Numbers the lives of its agent.
    pub life: u64,
    /// The agent's stream to a controller, by number; `None` while it has none.
    pub connection: Option<u64>,
    /// No stream before this time.
    pub cut_until: u64,
    /// Its agent's process is stopped until this time.
    pub frozen_until: u64,
    /// On disk: the epoch.
    pub epoch: u64,
    /// On disk: the records.
    pub records: BTreeMap<Key, Record>,
    /// Supervisors, living or dead, with what they have on disk and their processes.
    pub supervised: BTreeMap<Key, Supervised>,
    /// Tries for which a supervisor was ever started.
    pub spawned: BTreeSet<Key>,
    /// It has a certificate that the controller takes.
    pub joined: bool,
    /// Nothing can be written to its disk until this time.
    pub disk_full_until: u64,
    /// The highest epoch that it has ever obeyed.
    pub applied: u64,
}

impl Node {
    /// A server that has joined and is switched on.
    #[must_use]
    pub fn new(name: NodeName, gpus: u32, rails: u32) -> Self {
        Self {
            name,
            gpus,
            rails,
            down: 0,
            crossed: false,
            ill: BTreeMap::new(),
            probes: BTreeSet::new(),
            suspect: false,
            poses: None,
            found: None,
            apart: false,
            boasts: false,
            powered: true,
            agent: None,
            life: 0,
            connection: None,
            cut_until: 0,
            frozen_until: 0,
            epoch: 0,
            records: BTreeMap::new(),
            supervised: BTreeMap::new(),
            spawned: BTreeSet::new(),
            joined: true,
            disk_full_until: 0,
            applied: 0,
        }
    }

    /// What its agent finds.
    pub fn inventory(&mut self) -> Arc<Inventory> {
        let found = self.found.take().filter(|(down, _)| *down == self.down);
        let (_, inventory) = self.found.insert(found.unwrap_or_else(|| (self.down, Arc::new(self.check()))));
        Arc::clone(inventory)
    }

    /// A NIC falls ill, has been probed, or is well again.
    pub fn change_health(&mut self, rail: u32, illness: Option<Illness>) {
        self.found = None;
        match illness {
            Some(illness) => drop(self.ill.insert(rail, illness)),
            None => drop(self.ill.remove(&rail)),
        }
    }

    /// From now on its agent says that it has that server's hardware, or its own.
    pub fn pose(&mut self, other: Option<usize>) {
        (self.poses, self.found) = (other, None);
    }

    /// Whether its agent says that it has that server's hardware.
    #[must_use]
    pub fn poses_as(&self, other: usize) -> bool {
        self.poses == Some(other)
    }

    fn check(&self) -> Inventory {
        let posed = self.poses.map_or_else(|| self.name.to_string(), |other| format!("n{other}"));
        let gpu = |index| Gpu {
            index,
            uuid: format!("GPU-{posed}-{index}"),
            model: String::new(),
            pci_address: String::new(),
            numa_node: Some(index / 2),
            memory_bytes: 0,
            facts: None,
        };
        let nic = |rail: u32| Nic {
            device: format!("mlx5_{rail}"),
            netdev: format!("eth{rail}"),
            pci_address: String::new(),
            numa_node: Some(rail / 2),
            rail,
            address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            mtu: 0,
            speed_mbps: 0,
            up: self.down >> rail & 1 == 0,
            gid_index: None,
            facts: None,
        };
        Inventory {
            gpus: (0..self.gpus).map(gpu).collect(),
            nics: (0..self.rails).map(nic).collect(),
            health: self.ill.iter().map(|(rail, illness)| illness.reported(format!("mlx5_{rail}"))).collect(),
            isolation: match self.apart && !self.boasts {
                true => Isolation::default(),
                false => Isolation::with(IsolationSet::ALL),
            },
            ..Inventory::default()
        }
    }
}
