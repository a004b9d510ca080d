//! CPUs and main memory: what a node has of them, what jobs hold, and what a job asks for.

use proto_model::{Gang, Inventory};

/// CPUs and main memory of a node, or a part of them. Jobs share what none of them asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Host {
    /// The number of logical processors.
    pub cpus: u32,
    /// Main memory in bytes.
    pub memory: u64,
}

impl Host {
    /// No CPUs and no memory.
    pub const NONE: Self = Self { cpus: 0, memory: 0 };

    /// What a node's agent reports.
    #[must_use]
    pub fn of(inventory: &Inventory) -> Self {
        Self { cpus: inventory.cpus, memory: inventory.memory_bytes }
    }

    /// What a gang asks for on each of its nodes.
    #[must_use]
    pub fn asked(gang: &Gang) -> Self {
        Self { cpus: gang.cpus_per_node, memory: gang.memory_per_node }
    }

    /// Whether there is neither.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Whether what is asked for is there.
    #[must_use]
    pub fn covers(self, asked: Self) -> bool {
        self.cpus >= asked.cpus && self.memory >= asked.memory
    }

    /// With what a job takes.
    #[must_use]
    pub fn with(self, more: Self) -> Self {
        Self { cpus: self.cpus.saturating_add(more.cpus), memory: self.memory.saturating_add(more.memory) }
    }

    /// Without what jobs hold; a node that has become smaller has nothing left.
    #[must_use]
    pub fn without(self, less: Self) -> Self {
        Self { cpus: self.cpus.saturating_sub(less.cpus), memory: self.memory.saturating_sub(less.memory) }
    }
}
