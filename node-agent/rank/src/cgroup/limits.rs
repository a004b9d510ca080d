//! What a job's ranks may use of this server: the site's policy, the server and the job's part of it make the numbers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::Args;
use proto_model::{Inventory, IsolationFeature, IsolationSet, NodePlace};
use serde::{Deserialize, Serialize};

use super::{cpus, devices};

/// What the server's own programs keep at least, where memory is shared out.
const RESERVE: u64 = 1 << 30;
/// Below this no program starts.
const LEAST_MEMORY: u64 = 16 << 20;

/// How much memory ranks may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimit {
    /// The job's part of the server's, by its GPUs.
    Share,
    /// This number of bytes, whatever the job's part of the server.
    Bytes(u64),
    /// No limit on memory.
    None,
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is neither `share`, `none`, nor a size of at least 16M such as 64G");
        match text {
            "share" => return Ok(Self::Share),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let (digits, unit) = match text.strip_suffix(['K', 'M', 'G', 'T']) {
            Some(digits) => (digits, text.chars().last()),
            None => (text, None),
        };
        let shift = unit.map_or(0, |unit| match unit {
            'K' => 10,
            'M' => 20,
            'G' => 30,
            _ => 40,
        });
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes >= LEAST_MEMORY);
        bytes.map(Self::Bytes).ok_or_else(wrong)
    }
}

/// How many processes and threads ranks may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PidsLimit {
    /// This number of processes and threads.
    Count(u64),
    /// No limit on the number.
    None,
}

impl FromStr for PidsLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        let number = text.parse().ok().filter(|number| *number >= 16);
        number
            .map(Self::Count)
            .ok_or_else(|| format!("'{text}' is neither `none` nor a number of at least 16"))
    }
}

/// Which CPUs ranks may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CpusLimit {
    /// Those near the job's GPUs, in proportion to its part of them.
    NearGpus,
    /// All.
    All,
}

/// Which devices ranks may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DevicesLimit {
    /// What every program needs, and the job's own GPUs.
    Own,
    /// All.
    All,
}

/// What the command line says.
#[derive(Debug, Clone, Copy, Args)]
pub struct RankGroups {
    /// Memory of a job's ranks on this server together: `share`, a size such as 64G, or `none`
    ///
    /// `share` is the job's part of the server's memory by its GPUs (without GPUs as if it had one), less a 16th, at least 1 GiB,
    /// for the server itself. A job that asks for memory (`gang.memoryPerNode`) has that, but for `none`. Whoever needs more is ended, and the job says OutOfMemory
    #[arg(long, env = "RAIL_RANK_MEMORY", default_value = "share", value_name = "SIZE")]
    pub rank_memory: MemoryLimit,
    /// Processes and threads of a job's ranks on this server together, or `none`
    #[arg(long, env = "RAIL_RANK_PIDS", default_value = "32768", value_name = "COUNT")]
    pub rank_pids: PidsLimit,
    /// CPUs of a job's ranks: near-gpus or all
    ///
    /// With `near-gpus` a job that asks for CPUs (`gang.cpusPerNode`) has so many of its own, the nearest to its GPUs first
    #[arg(long, env = "RAIL_RANK_CPUS", value_enum, default_value_t = CpusLimit::NearGpus)]
    pub rank_cpus: CpusLimit,
    /// Devices that a job's ranks may open, where control groups can say so (version 1): own, its GPUs and what every program needs, or
    /// all
    #[arg(long, env = "RAIL_RANK_DEVICES", value_enum, default_value_t = DevicesLimit::Own)]
    pub rank_devices: DevicesLimit,
}

/// Limits of one attempt on this server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory; none: any.
    #[serde(default)]
    pub memory: Option<u64>,
    /// Processes and threads; none: any number.
    #[serde(default)]
    pub pids: Option<u64>,
    /// CPUs as the kernel writes them, for example `0-3,8-11`; none: all.
    #[serde(default)]
    pub cpus: Option<String>,
    /// Rules of the devices that may be opened; none: any.
    #[serde(default)]
    pub devices: Option<Vec<String>>,
}

/// What the kernel says of this server: CPUs of each NUMA node, and its memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Server {
    /// CPUs by NUMA node, as ranges.
    pub cpus: BTreeMap<u32, Vec<(u32, u32)>>,
    /// Bytes; 0 if not known.
    pub memory: u64,
    /// Its GPUs and NUMA nodes are those of the inventory: not where a file describes another server.
    pub is_real: bool,
}

impl Server {
    /// Reads it below a root folder.
    #[must_use]
    pub fn read(root: &Path, is_real: bool) -> Self {
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let folder = root.join("sys/devices/system/node");
        let nodes = fs::read_dir(&folder).into_iter().flatten().flatten().filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            Some((number, ranges(&text(&entry.path().join("cpulist")))))
        });
        let meminfo = text(&root.join("proc/meminfo"));
        let total = meminfo
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
        let cpus = nodes.filter(|_| is_real).collect();
        Self { cpus, memory: total.unwrap_or(0_u64) << 10, is_real }
    }
}

/// A list such as `0-3,8` as ranges.
pub(super) fn ranges(text: &str) -> Vec<(u32, u32)> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = (first.parse().ok()?, last.parse().ok()?);
        (range.0 <= range.1).then_some(range)
    };
    text.trim().split(',').filter_map(range).collect()
}

impl Limits {
    /// Whether the CPUs are those that the job asks for, and so its alone.
    #[must_use]
    pub fn gives_cpus(&self, place: &NodePlace) -> bool {
        let count = |list: &String| cpus::listed(list).len();
        place.cpus > 0 && self.cpus.as_ref().map(count) == usize::try_from(place.cpus).ok()
    }

    /// Only those that can be set here.
    #[must_use]
    pub fn only(self, active: IsolationSet) -> Self {
        Self {
            memory: self.memory.filter(|_| active.has(IsolationFeature::CgroupMemory)),
            pids: self.pids.filter(|_| active.has(IsolationFeature::CgroupPids)),
            cpus: self.cpus.filter(|_| active.has(IsolationFeature::CgroupCpuset)),
            devices: self.devices.filter(|_| active.has(IsolationFeature::CgroupDevices)),
        }
    }
}

impl RankGroups {
    /// The limits of a job that has this place, with the device files of its GPUs. `given` are CPUs that are other jobs' alone.
    #[must_use]
    pub fn limits(
        &self,
        server: &Server,
        inventory: &Inventory,
        place: &NodePlace,
        gpu_files: &[PathBuf],
        given: &BTreeSet<u32>,
    ) -> Limits {
        Limits {
            memory: self.memory(server, inventory, place),
            pids: match self.rank_pids {
                PidsLimit::Count(count) => Some(count),
                PidsLimit::None => None,
            },
            cpus: (self.rank_cpus == CpusLimit::NearGpus)
                .then(|| cpus::of(server, &inventory.gpus, place, given))
                .flatten(),
            devices: (self.rank_devices == DevicesLimit::Own && server.is_real)
                .then(|| devices::rules(gpu_files)),
        }
    }

    /// Limits of each kind that is asked for, to try out whether they can be set.
    #[must_use]
    pub fn sample(&self, server: &Server, own_cpus: &str) -> Limits {
        Limits {
            memory: (self.rank_memory != MemoryLimit::None).then_some(1 << 30),
            pids: (self.rank_pids != PidsLimit::None).then_some(1024),
            cpus: (self.rank_cpus == CpusLimit::NearGpus && !own_cpus.is_empty())
                .then(|| own_cpus.to_owned()),
            devices: (self.rank_devices == DevicesLimit::Own && server.is_real).then(Vec::new),
        }
    }

    fn memory(&self, server: &Server, inventory: &Inventory, place: &NodePlace) -> Option<u64> {
        match self.rank_memory {
            MemoryLimit::None => None,
            _ if place.memory_bytes > 0 => Some(place.memory_bytes.max(LEAST_MEMORY)),
            MemoryLimit::Bytes(bytes) => Some(bytes),
            MemoryLimit::Share => {
                let total = match (server.memory, inventory.memory_bytes) {
                    (0, reported) | (reported, 0) => reported,
                    (here, reported) => here.min(reported),
                };
                let reserve = (total / 16).max(RESERVE).min(total / 4);
                let all = inventory.gpus.len().max(1) as u64;
                let own = (place.gpus.len() as u64).clamp(1, all);
                let share = u128::from(total - reserve) * u128::from(own) / u128::from(all);
                // A page at least divides it.
                let share = u64::try_from(share).unwrap_or(u64::MAX) & !0xffff;
                (share >= LEAST_MEMORY).then_some(share)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proto_model::{Gpu, NodeName};

    use super::*;

    fn gpu(index: u32, numa_node: Option<u32>) -> Gpu {
        Gpu {
            index,
            uuid: String::new(),
            model: String::new(),
            pci_address: String::new(),
            numa_node,
            memory_bytes: 0,
            facts: None,
        }
    }

    fn place(gpus: &[u32]) -> NodePlace {
        let node = NodeName::new("n0").unwrap();
        let (pod, nics, gpus) = (String::new(), Vec::new(), gpus.to_vec());
        NodePlace { node, pod, gpus, nics, remapped: false, cpus: 0, memory_bytes: 0 }
    }

    fn server() -> (Server, Inventory) {
        let cpus = BTreeMap::from([(0, vec![(0, 7), (16, 23)]), (1, vec![(8, 15), (24, 31)])]);
        let gpus = (0..8).map(|index| gpu(index, Some(index / 4))).collect();
        (Server { cpus, memory: 64 << 30, is_real: false }, Inventory { gpus, ..Inventory::default() })
    }

    fn policy(memory: &str, pids: &str, rank_cpus: CpusLimit) -> RankGroups {
        let rank_devices = DevicesLimit::Own;
        RankGroups {
            rank_memory: memory.parse().unwrap(),
            rank_pids: pids.parse().unwrap(),
            rank_cpus,
            rank_devices,
        }
    }

    #[test]
    fn memory_is_shared_by_gpus_after_what_the_server_keeps() {
        let (server, inventory) = server();
        let policy = policy("share", "32768", CpusLimit::All);
        let memory = |gpus: &[u32]| {
            policy.limits(&server, &inventory, &place(gpus), &[], &BTreeSet::new()).memory.unwrap() >> 20
        };
        assert_eq!(memory(&[0, 1, 2, 3, 4, 5, 6, 7]), 60 << 10);
        assert_eq!(memory(&[0, 5]), 15 << 10);
        assert_eq!((memory(&[3]), memory(&[])), (7680, 7680), "without GPUs as with one");
        let all: u64 = (0..8).map(|gpu| memory(&[gpu])).sum();
        assert!(all <= 60 << 10, "eight jobs of one GPU each fit beside the reserve");
        // A small machine keeps a gibibyte, not most of it.
        let small = Server { memory: 2 << 30, ..server.clone() };
        assert_eq!(
            policy.limits(&small, &Inventory::default(), &place(&[]), &[], &BTreeSet::new()).memory,
            Some((3 << 30) / 2)
        );
        assert_eq!(
            policy
                .limits(&Server::default(), &Inventory::default(), &place(&[]), &[], &BTreeSet::new())
                .memory,
            None
        );
    }

    #[test]
    fn a_job_has_the_memory_that_it_asks_for() {
        let (server, inventory) = server();
        let asks = NodePlace { memory_bytes: 20 << 30, ..place(&[0]) };
        let memory = |policy: &str| {
            let policy = self::policy(policy, "none", CpusLimit::All);
            policy.limits(&server, &inventory, &asks, &[], &BTreeSet::new()).memory
        };
        assert_eq!((memory("share"), memory("1G"), memory("none")), (Some(20 << 30), Some(20 << 30), None));
    }

    #[test]
    fn cpus_near_the_gpus_are_nobody_elses() {
        let (server, inventory) = server();
        let policy = policy("none", "none", CpusLimit::NearGpus);
        let cpus =
            |gpus: &[u32]| policy.limits(&server, &inventory, &place(gpus), &[], &BTreeSet::new()).cpus;
        assert_eq!(cpus(&[0]).as_deref(), Some("0-1,16-17"));
        assert_eq!(cpus(&[3, 4]).as_deref(), Some("6-9,22-25"));
        assert_eq!(cpus(&[0, 1, 2, 3, 4, 5, 6, 7]), None, "all of them");
        assert_eq!(cpus(&[]), None);
        let mut odd = inventory.clone();
        odd.gpus[1].numa_node = None;
        assert_eq!(
            policy.limits(&server, &odd, &place(&[1]), &[], &BTreeSet::new()).cpus,
            None,
            "nobody knows where it is"
        );
        let few = Server { cpus: BTreeMap::from([(0, vec![(0, 1)])]), ..server };
        assert_eq!(
            policy.limits(&few, &inventory, &place(&[0]), &[], &BTreeSet::new()).cpus,
            None,
            "too few to share out"
        );
        assert_eq!(policy.limits(&few, &inventory, &place(&[0]), &[], &BTreeSet::new()), Limits::default());
    }

    #[test]
    fn what_cannot_be_set_is_not_asked_for() {
        let (server, inventory) = server();
        let server = Server { is_real: true, ..server };
        let policy = policy("share", "64", CpusLimit::NearGpus);
        let limits = policy.limits(&server, &inventory, &place(&[0]), &[], &BTreeSet::new());
        assert!(limits.devices.as_ref().unwrap().contains(&"c 1:3 rwm".to_owned()));
        let only = limits.clone().only(IsolationSet::of(&[IsolationFeature::CgroupPids]));
        assert_eq!(only, Limits { pids: Some(64), ..Limits::default() });
        assert_eq!(limits.clone().only(IsolationSet::ALL), limits);
        let sample = policy.sample(&server, "0-3");
        assert_eq!((sample.cpus.as_deref(), sample.devices), (Some("0-3"), Some(Vec::new())));
        assert_eq!(policy.sample(&Server::default(), "").cpus, None);
    }

    #[test]
    fn words_of_the_command_line() {
        assert_eq!("64G".parse(), Ok(MemoryLimit::Bytes(64 << 30)));
        assert_eq!("16777216".parse(), Ok(MemoryLimit::Bytes(LEAST_MEMORY)));
        for bad in ["", "1", "G", "64g", "-1G", "99999999999T", "all"] {
            assert!(bad.parse::<MemoryLimit>().is_err(), "{bad}");
        }
        assert_eq!("100".parse(), Ok(PidsLimit::Count(100)));
        for bad in ["", "1", "-3", "many"] {
            assert!(bad.parse::<PidsLimit>().is_err(), "{bad}");
        }
        assert_eq!(ranges("0-3,8,10-11\n"), [(0, 3), (8, 8), (10, 11)]);
        assert_eq!(ranges("\n"), []);
    }
}
