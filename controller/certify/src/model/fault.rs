//! What can be wrong in the model.

/// One fault. Rails and nodes by number; shares are of the full speed.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// One rail of one node is slow.
    SlowRail {
        /// The node, by position in the gang.
        node: u32,
        /// The rail, by number.
        rail: u32,
        /// The share of full speed that is left, from 0 to 1.
        share: f64,
    },
    /// All rails of one node are slow.
    SlowNode {
        /// The node, by position in the gang.
        node: u32,
        /// The share of full speed that is left, from 0 to 1.
        share: f64,
    },
    /// A whole rail is slow.
    SlowPlane {
        /// The rail, by number.
        rail: u32,
        /// The share of full speed that is left, from 0 to 1.
        share: f64,
    },
    /// The port beside this NIC passes only smaller packets than the NIC's own MTU.
    SmallMtu {
        /// The node, by position in the gang.
        node: u32,
        /// The rail, by number.
        rail: u32,
        /// The largest IP packet that passes, in bytes.
        mtu: u32,
    },
    /// The NIC itself is set to a smaller MTU.
    SmallPort {
        /// The node, by position in the gang.
        node: u32,
        /// The rail, by number.
        rail: u32,
        /// The MTU that the NIC is set to, in bytes.
        mtu: u32,
    },
    /// A leaf writes another DSCP on what comes through it.
    DscpLeaf {
        /// The rail of the leaf, by number.
        rail: u32,
        /// Number of the leaf on that rail.
        leaf: u32,
        /// The DSCP that the leaf writes.
        dscp: u8,
    },
    /// One port writes another DSCP on what it passes.
    DscpPort {
        /// The node, by position in the gang.
        node: u32,
        /// The rail, by number.
        rail: u32,
        /// The DSCP that the port writes.
        dscp: u8,
    },
    /// NIC k of a node is cabled to plane `planes[k]`, counted in the gang's rails.
    Cabled {
        /// The node, by position in the gang.
        node: u32,
        /// The plane that each NIC is cabled to.
        planes: Vec<usize>,
    },
    /// Nothing passes on one rail of one node.
    DeadRail {
        /// The node, by position in the gang.
        node: u32,
        /// The rail, by number.
        rail: u32,
    },
    /// Packets are lost both ways.
    Lossy {
        /// The node, by position in the gang.
        node: u32,
        /// The rail, by number.
        rail: u32,
        /// Packets of 1,000 that are lost.
        per_mille: u32,
    },
    /// The node never reports, and answers nobody.
    Silent {
        /// The node, by position in the gang.
        node: u32,
    },
    /// A port has no GID of its address.
    NoGid {
        /// The node, by position in the gang.
        node: u32,
        /// The rail, by number.
        rail: u32,
    },
    /// A port's GID is of another address than the one that the others are given.
    OtherGid {
        /// The node, by position in the gang.
        node: u32,
        /// The rail, by number.
        rail: u32,
    },
    /// A port counts packets in another priority.
    WrongPriority {
        /// The node, by position in the gang.
        node: u32,
        /// The rail, by number.
        rail: u32,
    },
    /// A port carries much of another priority, which is no fault.
    Storage {
        /// The node, by position in the gang.
        node: u32,
        /// The rail, by number.
        rail: u32,
    },
}
