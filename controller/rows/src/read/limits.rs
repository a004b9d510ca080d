//! What a job may ask for at most, whatever the cluster.

use proto_model::fields::Fields;

/// What a job spec may ask for at most, whatever the cluster.
#[derive(Debug, Clone, Copy)]
pub struct SpecLimits {
    /// Nodes of a gang: as many as the engine joins, and as a stored placement has room for.
    pub nodes: u32,
    /// GPUs of one node.
    pub gpus_per_node: u32,
    /// Ranks of one node.
    pub ranks_per_node: u32,
    /// CPUs of one node: as many as a node may report.
    pub cpus_per_node: u32,
    /// Bytes of main memory of one node: as many as a node may report.
    pub memory_per_node: u64,
    /// Bytes of one rank's message.
    pub collective_bytes: u64,
    /// Iterations and warm-up runs.
    pub iterations: u32,
    /// Bytes of arguments and environment together; Linux refuses more than 128 KiB in one string.
    pub command_bytes: usize,
    /// Entries of a map.
    pub entries: usize,
    /// Restarts, and replacements of nodes.
    pub restarts: u32,
}

/// The limits in force.
pub const LIMITS: SpecLimits = SpecLimits {
    nodes: 1024,
    gpus_per_node: 64,
    ranks_per_node: 256,
    cpus_per_node: 65_536,
    memory_per_node: 1 << 52,
    collective_bytes: 16 << 30,
    iterations: 1_000_000,
    command_bytes: 96 << 10,
    entries: 1024,
    restarts: 1000,
};

/// Bytes of memory that a job asks for at least, if it asks for any: below that no program starts, and whoever writes 64 means 64 GiB.
const MEMORY_LEAST: u64 = 16 << 20;

/// Bytes of memory of each node, which may be 0.
pub(crate) fn memory_per_node(fields: &mut Fields, field: &str, memory: u64) {
    let most = LIMITS.memory_per_node;
    if memory > most {
        fields.fail(field, format!("{memory} bytes are more than any node has; at most {most}"));
    } else if (1..MEMORY_LEAST).contains(&memory) {
        let message = format!("{memory} bytes are too few for any program; at least {MEMORY_LEAST}, or 0");
        fields.fail(field, message);
    }
}

/// Ranks of each node: without a number one for each GPU of a command's.
pub(crate) fn ranks_per_node(given: u32, gpus: u32, is_command: bool) -> u32 {
    match given {
        0 if is_command => gpus.max(1),
        given => given.max(1),
    }
}
