//! Rails, leaves and pods over the same nodes: what is cabled where, who is aligned with whom, what does not fit.
//!
//! Contracts:
//! 1. [`check`] reports every fault of a document, not only the first.
//! 2. A [`Topology`] is a function of the document and the present inventories alone; joining and leaving in any
//!    order gives the same answers, and undoing the last change gives back the very same value.
//! 3. Inside, nodes, pods and leaves are dense indices and sets of rails are bitmaps; names live at the border.

pub mod check;
pub mod findings;
mod flat;
pub mod index;
pub mod plan;
mod ports;
pub mod railset;
#[cfg(test)]
mod tests;
pub mod topology;

pub use check::check;
pub use index::{IslandIx, LeafIx, NodeIx, PodIx};
pub use plan::LeafFacts;
pub use railset::RailSet;
pub use topology::{Port, Server, Topology};
