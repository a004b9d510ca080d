//! Nodes as the engine's parts count them.

/// Node numbers are checked to be far below this type's bound when the configuration is.
pub(crate) fn node_index(node: usize) -> u16 {
    u16::try_from(node).unwrap_or(u16::MAX)
}

/// The peers of `node` among `nodes`.
pub(crate) fn peers(node: usize, nodes: usize) -> impl Iterator<Item = u16> {
    (0..nodes).filter(move |peer| *peer != node).map(node_index)
}
