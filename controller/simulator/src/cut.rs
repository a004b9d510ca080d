//! What a ring pays where it leaves leaves and pods, counted from the placement alone.

/// A connection between servers of one pod on other leaves.
pub const ACROSS_LEAVES: u64 = controller_scheduler::place::ACROSS_LEAVES;
/// Weight of a connection between pods.
pub const ACROSS_PODS: u64 = controller_scheduler::place::ACROSS_PODS;

/// The weight of one connection, between places of `(pod, leaves)`.
pub(crate) fn weight<P: PartialEq, L: PartialEq>(a: &(P, L), b: &(P, L)) -> u64 {
    if a.0 != b.0 {
        ACROSS_PODS
    } else if a.1 != b.1 {
        ACROSS_LEAVES
    } else {
        0
    }
}
