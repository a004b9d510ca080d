//! What one node has, what jobs hold of it, and whether it takes any.

use controller_topology::RailSet;
use proto_model::NodePlace;

use crate::host::Host;

/// GPUs of one server that can be scheduled; further ones are ignored.
pub const GPUS_MAX: u32 = 64;

/// Why a node takes no new job at the moment; all false is "it does".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gate {
    /// The administrator said so.
    pub unschedulable: bool,
    /// Not heard for longer than the limit.
    pub not_ready: bool,
    /// Its agent is not connected.
    pub away: bool,
    /// Something runs there that nobody desired; it is being stopped.
    pub draining: bool,
}

impl Gate {
    /// Whether new jobs may be placed.
    #[must_use]
    pub fn is_open(self) -> bool {
        self == Self::default()
    }
}

/// What jobs hold on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allocated {
    /// GPUs by index, as a bitmap.
    pub gpus: u64,
    /// Rails whose NIC is held.
    pub rails: RailSet,
    /// A job wants nobody beside it.
    pub whole: bool,
    /// CPUs and memory of jobs that asked for some.
    pub host: Host,
}

impl Allocated {
    /// With what a job holds.
    pub(crate) fn with(self, job: Self) -> Self {
        Self {
            gpus: self.gpus | job.gpus,
            rails: self.rails.or(job.rails),
            whole: self.whole | job.whole,
            host: self.host.with(job.host),
        }
    }

    /// Without what a job gives back.
    pub(crate) fn without(self, job: Self) -> Self {
        Self {
            gpus: self.gpus & !job.gpus,
            rails: self.rails.without(job.rails),
            whole: self.whole & !job.whole,
            host: self.host.without(job.host),
        }
    }

    pub(crate) fn changed(self, job: Self, take: bool) -> Self {
        if take { self.with(job) } else { self.without(job) }
    }

    /// What a placed job holds on a node.
    pub(crate) fn of(place: &NodePlace, whole: bool) -> Self {
        Self {
            gpus: place.gpus.iter().filter(|gpu| **gpu < GPUS_MAX).fold(0, |set, gpu| set | 1 << gpu),
            rails: place.nics.iter().map(|nic| nic.rail).collect(),
            whole,
            host: Host { cpus: place.cpus, memory: place.memory_bytes },
        }
    }
}

/// What one node can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// Whether it takes new jobs.
    pub gate: Gate,
    /// Its GPUs by index, as a bitmap.
    pub gpus: u64,
    /// Its CPUs and memory.
    pub host: Host,
    /// What jobs hold on the node.
    pub held: Allocated,
}

impl Capacity {
    /// GPUs that nobody holds, as a bitmap.
    #[must_use]
    pub fn free_gpus(&self) -> u64 {
        if self.held.whole { 0 } else { self.gpus & !self.held.gpus }
    }

    /// CPUs and memory that nobody holds.
    #[must_use]
    pub fn free_host(&self) -> Host {
        if self.held.whole { Host::NONE } else { self.host.without(self.held.host) }
    }
}
