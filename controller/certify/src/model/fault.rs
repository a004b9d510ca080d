//! What can be wrong in the model.

/// One fault. Rails and nodes by number; shares are of the full speed.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// One rail of one node is slow.
    SlowRail {
        /// Whose.
        node: u32,
        /// Which.
        rail: u32,
        /// What is left.
        share: f64,
    },
    /// All rails of one node are.
    SlowNode {
        /// Whose.
        node: u32,
        /// What is left.
        share: f64,
    },
    /// A whole rail is.
    SlowPlane {
        /// Which.
        rail: u32,
        /// What is left.
        share: f64,
    },
    /// The port beside this NIC passes only smaller packets than the NIC's own MTU.
    SmallMtu {
        /// Whose.
        node: u32,
        /// Which.
        rail: u32,
        /// Bytes that pass.
        mtu: u32,
    },
    /// The NIC itself is set to a smaller MTU.
    SmallPort {
        /// Whose.
        node: u32,
        /// Which.
        rail: u32,
        /// Its MTU.
        mtu: u32,
    },
    /// A leaf writes another DSCP on what comes through it.
    DscpLeaf {
        /// On this rail.
        rail: u32,
        /// Which leaf of it.
        leaf: u32,
        /// What it writes.
        dscp: u8,
    },
    /// One port does.
    DscpPort {
        /// Whose.
        node: u32,
        /// Which.
        rail: u32,
        /// What it writes.
        dscp: u8,
    },
    /// NIC k of a node is cabled to plane `planes[k]`, counted in the gang's rails.
    Cabled {
        /// Whose.
        node: u32,
        /// Where each NIC is.
        planes: Vec<usize>,
    },
    /// Nothing passes.
    DeadRail {
        /// Whose.
        node: u32,
        /// Which.
        rail: u32,
    },
    /// Packets are lost both ways.
    Lossy {
        /// Whose.
        node: u32,
        /// Which.
        rail: u32,
        /// How many of 1,000.
        per_mille: u32,
    },
    /// The node never reports, and answers nobody.
    Silent {
        /// Whose.
        node: u32,
    },
    /// A port has no GID of its address.
    NoGid {
        /// Whose.
        node: u32,
        /// Which.
        rail: u32,
    },
    /// A port's GID is of another address than the others are told.
    OtherGid {
        /// Whose.
        node: u32,
        /// Which.
        rail: u32,
    },
    /// A port counts packets in another priority.
    WrongPriority {
        /// Whose.
        node: u32,
        /// Which.
        rail: u32,
    },
    /// A port carries much of another priority, which is no fault.
    Storage {
        /// Whose.
        node: u32,
        /// Which.
        rail: u32,
    },
}
