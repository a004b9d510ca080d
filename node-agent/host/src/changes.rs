//! What has changed between two passes over a server: typed, in a fixed order, and whole: two inventories that differ have changes.
//! Pure: no IO, no clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use proto_model::{
    Gpu, GpuDirect, GpuLink, Inventory, LinkPeer, Neighbor, Nic, NicFacts, Reason, ReasonCode, Timestamp,
};

use crate::finding::line;

/// One thing that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What kind of change it is.
    pub kind: ChangeKind,
    /// What changed: `nic/DEVICE`, `gpu/INDEX`, `netdev/NAME` or `machine`.
    pub subject: String,
    /// What it was; empty if there was nothing, or if it does not fit a line.
    pub from: String,
    /// What it is; empty if there is nothing, or if it does not fit a line.
    pub to: String,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $words:literal,)*) => {
        /// What can change between two inventories of a server.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ChangeKind {
            $($(#[$doc])* $kind,)*
        }

        impl ChangeKind {
            /// All kinds of changes, in the order in which they are listed.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// As programs read it.
            #[must_use]
            pub const fn code(self) -> ReasonCode {
                match self { $(Self::$kind => ReasonCode::$kind,)* }
            }

            /// As people read it.
            const fn words(self) -> &'static str {
                match self { $(Self::$kind => $words,)* }
            }
        }
    };
}

kinds! {
    /// A NIC is there that was not there before.
    NicAdded = "the NIC is there",
    /// A NIC that was there before is gone.
    NicGone = "the NIC is gone",
    /// A NIC has another name.
    NicRenamed = "the NIC's name changed",
    /// A NIC's link came up.
    NicUp = "the link is up",
    /// A NIC's link went down.
    NicDown = "the link is down",
    /// A NIC's RDMA port is in another state.
    NicPort = "the RDMA port's state changed",
    /// A NIC serves another rail.
    NicRail = "the rail changed",
    /// A NIC has another address on its rail.
    NicAddress = "the address changed",
    /// The GID of a NIC's address has another index.
    NicGidIndex = "the GID's index changed",
    /// A NIC's GID table changed.
    NicGids = "the GID table changed",
    /// A NIC's speed changed.
    NicSpeed = "the speed in Mbit/s changed",
    /// A NIC's MTU changed.
    NicMtu = "the MTU changed",
    /// A NIC has another firmware.
    NicFirmware = "the firmware changed",
    /// A NIC has another driver.
    NicDriver = "the driver changed",
    /// A NIC's place on the bus or the speed of its PCIe link changed.
    NicPci = "the PCIe place or link changed",
    /// Something else of a NIC changed.
    NicOther = "something else of the NIC changed",
    /// A GPU is there that was not there before.
    GpuAdded = "the GPU is there",
    /// A GPU that was there before is gone.
    GpuGone = "the GPU is gone",
    /// Under this index is another GPU.
    GpuReplaced = "another GPU is there",
    /// A GPU's driver changed.
    GpuDriver = "the driver changed",
    /// Links of a GPU came or went.
    GpuLinks = "the links to other GPUs changed",
    /// Another NIC is nearest to a GPU.
    GpuNic = "the nearest NIC changed",
    /// Memory of a GPU takes another way to its NIC.
    GpuPath = "the way from its memory to the NIC changed",
    /// Something else of a GPU changed.
    GpuOther = "something else of the GPU changed",
    /// A network device hears another switch, or none any more.
    Neighbor = "the switch that is heard changed",
    /// Processors, memory or NUMA nodes changed.
    Machine = "the machine changed",
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.words())?;
        match (self.from.as_str(), self.to.as_str()) {
            ("", "") => Ok(()),
            (from, "") => write!(f, ": was {from}"),
            ("", to) => write!(f, ": {to}"),
            (from, to) => write!(f, ": {from} -> {to}"),
        }
    }
}

impl Change {
    fn new(kind: ChangeKind, subject: &str, from: impl fmt::Display, to: impl fmt::Display) -> Self {
        Self { kind, subject: subject.to_owned(), from: from.to_string(), to: to.to_string() }
    }

    /// As a controller takes it.
    #[must_use]
    pub fn reason(&self, now: Timestamp) -> Reason {
        Reason::new(self.kind.code(), line(&self.to_string())).scope(line(&self.subject)).since(now)
    }
}

/// All changes from one pass to the next: NICs, GPUs, what network devices hear, and the machine. Not what is wrong with NICs (health):
/// that has events of its own.
#[must_use]
pub fn diff(before: &Inventory, after: &Inventory) -> Vec<Change> {
    let mut changes = Vec::new();
    nics(&before.nics, &after.nics, &mut changes);
    gpus(&before.gpus, &after.gpus, &mut changes);
    neighbors(&before.neighbors, &after.neighbors, &mut changes);
    let machine = |one: &Inventory| {
        format!("{} CPUs, {} bytes, {} NUMA nodes", one.cpus, one.memory_bytes, one.numa_nodes)
    };
    let (from, to) = (machine(before), machine(after));
    if from != to {
        changes.push(Change::new(ChangeKind::Machine, "machine", from, to));
    }
    changes
}

fn port(nic: &Nic) -> (String, u32) {
    let port = nic.facts.as_deref().and_then(|facts| facts.port).map_or(0, |port| port.number);
    (nic.pci_address.clone(), port)
}

fn nics(before: &[Nic], after: &[Nic], changes: &mut Vec<Change>) {
    let old: BTreeMap<&str, &Nic> = before.iter().map(|nic| (nic.device.as_str(), nic)).collect();
    let new: BTreeSet<&str> = after.iter().map(|nic| nic.device.as_str()).collect();
    let gone: Vec<&Nic> = before.iter().filter(|nic| !new.contains(nic.device.as_str())).collect();
    let mut renamed: BTreeSet<&str> = BTreeSet::new();
    for nic in after {
        let subject = format!("nic/{}", nic.device);
        if let Some(old) = old.get(nic.device.as_str()) {
            nic_changes(&subject, old, nic, changes);
            continue;
        }
        // The same port of the same device under another name.
        let same = |old: &&&Nic| {
            !old.pci_address.is_empty() && port(old) == port(nic) && !renamed.contains(old.device.as_str())
        };
        match gone.iter().find(same).copied() {
            Some(old) => {
                renamed.insert(&old.device);
                changes.push(Change::new(ChangeKind::NicRenamed, &subject, &old.device, &nic.device));
                nic_changes(&subject, old, nic, changes);
            }
            None => {
                let to = format!("rail {}, {}", nic.rail, if nic.up { "up" } else { "down" });
                changes.push(Change::new(ChangeKind::NicAdded, &subject, "", to));
            }
        }
    }
    for nic in gone.into_iter().filter(|nic| !renamed.contains(nic.device.as_str())) {
        let from = format!("rail {}", nic.rail);
        changes.push(Change::new(ChangeKind::NicGone, &format!("nic/{}", nic.device), from, ""));
    }
}

fn text<T: fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn nic_changes(subject: &str, old: &Nic, new: &Nic, changes: &mut Vec<Change>) {
    let before = changes.len();
    let mut say = |kind, from: String, to: String| {
        if from != to {
            changes.push(Change { kind, subject: subject.to_owned(), from, to });
        }
    };
    if old.up != new.up {
        let kind = if new.up { ChangeKind::NicUp } else { ChangeKind::NicDown };
        say(kind, String::new(), format!("rail {}", new.rail));
    }
    let none = NicFacts::default();
    let (a, b) = (old.facts.as_deref().unwrap_or(&none), new.facts.as_deref().unwrap_or(&none));
    let state = |facts: &NicFacts| {
        let port = facts
            .port
            .map(|port| format!("{} {}", known(port.state.as_ref()), known(port.physical.as_ref())));
        text(port)
    };
    say(ChangeKind::NicPort, state(a), state(b));
    say(ChangeKind::NicRail, old.rail.to_string(), new.rail.to_string());
    say(ChangeKind::NicAddress, text(old.address), text(new.address));
    say(ChangeKind::NicGidIndex, text(old.gid_index), text(new.gid_index));
    say(ChangeKind::NicSpeed, old.speed_mbps.to_string(), new.speed_mbps.to_string());
    say(ChangeKind::NicMtu, old.mtu.to_string(), new.mtu.to_string());
    say(ChangeKind::NicFirmware, a.firmware.clone(), b.firmware.clone());
    say(ChangeKind::NicDriver, a.driver.clone(), b.driver.clone());
    if a.gids != b.gids {
        let count = |facts: &NicFacts| format!("{} entries", facts.gids.len());
        changes.push(Change::new(ChangeKind::NicGids, subject, count(a), count(b)));
    }
    if (&a.pci, &old.pci_address) != (&b.pci, &new.pci_address) {
        let place = |nic: &Nic, facts: &NicFacts| {
            format!("{} {} x{}", nic.pci_address, facts.pci.speed, facts.pci.width)
        };
        changes.push(Change::new(ChangeKind::NicPci, subject, place(old, a), place(new, b)));
    }
    let rest = |nic: &Nic, facts: &NicFacts| {
        let number = facts.port.map(|port| port.number);
        (nic.netdev.clone(), nic.numa_node, nic.facts.is_some(), number, facts.rail_reason.clone())
    };
    if rest(old, a) != rest(new, b)
        || (changes.len() == before && (&old.facts, &old.rail) != (&new.facts, &new.rail))
    {
        changes.push(Change::new(ChangeKind::NicOther, subject, "", ""));
    }
}

/// The name of a state, for a line.
fn known<T: fmt::Debug>(state: Option<&T>) -> String {
    state.map_or_else(|| "unknown".to_owned(), |state| format!("{state:?}").to_lowercase())
}

fn gpus(before: &[Gpu], after: &[Gpu], changes: &mut Vec<Change>) {
    let old: BTreeMap<u32, &Gpu> = before.iter().map(|gpu| (gpu.index, gpu)).collect();
    for gpu in after {
        let subject = format!("gpu/{}", gpu.index);
        match old.get(&gpu.index) {
            None => changes.push(Change::new(ChangeKind::GpuAdded, &subject, "", &gpu.model)),
            Some(old) if *old != gpu => gpu_changes(&subject, old, gpu, changes),
            Some(_) => {}
        }
    }
    let new: BTreeSet<u32> = after.iter().map(|gpu| gpu.index).collect();
    for gpu in before.iter().filter(|gpu| !new.contains(&gpu.index)) {
        let subject = format!("gpu/{}", gpu.index);
        changes.push(Change::new(ChangeKind::GpuGone, &subject, &gpu.model, ""));
    }
}

fn gpu_changes(subject: &str, old: &Gpu, new: &Gpu, changes: &mut Vec<Change>) {
    let before = changes.len();
    let mut say = |kind, from: String, to: String| {
        if from != to {
            changes.push(Change { kind, subject: subject.to_owned(), from, to });
        }
    };
    // A UUID that was not known is no other GPU.
    let same = old.pci_address == new.pci_address
        && (old.uuid == new.uuid || old.uuid.is_empty() || new.uuid.is_empty());
    if !same {
        let who = |gpu: &Gpu| format!("{} {}", gpu.uuid, gpu.pci_address).trim().to_owned();
        say(ChangeKind::GpuReplaced, who(old), who(new));
    }
    if let (Some(a), Some(b)) = (old.facts.as_deref(), new.facts.as_deref()) {
        let driver = |driver: &str, version: &str| format!("{driver} {version}").trim().to_owned();
        say(
            ChangeKind::GpuDriver,
            driver(&a.driver, &a.driver_version),
            driver(&b.driver, &b.driver_version),
        );
        say(ChangeKind::GpuLinks, links(&a.links), links(&b.links));
        say(ChangeKind::GpuNic, a.nic.clone(), b.nic.clone());
        let way = |direct: &Option<GpuDirect>| {
            direct.as_ref().map_or("not known", |one| one.path.as_str()).to_owned()
        };
        say(ChangeKind::GpuPath, way(&a.gpu_direct), way(&b.gpu_direct));
    }
    if changes.len() == before {
        changes.push(Change::new(ChangeKind::GpuOther, subject, "", ""));
    }
}

fn links(all: &[GpuLink]) -> String {
    let one = |link: &GpuLink| match link.peer {
        LinkPeer::Gpu(gpu) => format!("{} to GPU {gpu}", link.count),
        LinkPeer::Switch => format!("{} to switches", link.count),
        LinkPeer::Other => format!("{} to others", link.count),
    };
    if all.is_empty() { "none".to_owned() } else { all.iter().map(one).collect::<Vec<_>>().join(", ") }
}

fn neighbors(before: &[Neighbor], after: &[Neighbor], changes: &mut Vec<Change>) {
    let devices: BTreeSet<&str> = before.iter().chain(after).map(|one| one.netdev.as_str()).collect();
    for netdev in devices {
        let heard = |all: &[Neighbor]| {
            let own = all.iter().filter(|one| one.netdev == netdev);
            let all: Vec<String> = own.map(|one| format!("{} {}", one.switch, one.port)).collect();
            all.join(", ")
        };
        let (from, to) = (heard(before), heard(after));
        if from != to {
            let subject = format!("netdev/{netdev}");
            changes.push(Change { kind: ChangeKind::Neighbor, subject, from, to });
        }
    }
}

/// The last changes, oldest first, as they are reported: enough for a person to see what happened, and no more.
#[derive(Debug, Clone, Default)]
pub struct Recent {
    reasons: Vec<Reason>,
}

/// Most changes that are reported.
pub const RECENT_MOST: usize = 16;

impl Recent {
    /// Takes what changed now.
    pub fn take(&mut self, changes: &[Change], now: Timestamp) {
        self.reasons.extend(changes.iter().map(|change| change.reason(now)));
        let over = self.reasons.len().saturating_sub(RECENT_MOST);
        self.reasons.drain(..over);
    }

    /// The changes that are reported now, with their reasons.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }
}

#[cfg(test)]
mod tests;
