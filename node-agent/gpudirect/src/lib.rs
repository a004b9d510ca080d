//! Which way a GPU's memory takes to a NIC, decided: by dma-buf, by a peer-memory module, or through host memory; with what speaks
//! against each better way, and what fixes it.
//!
//! Contracts:
//! 1. [`choose`] takes the best way that nothing rules out. Host staging is always possible.
//! 2. Every way that is better than the one taken has at least one cause, and every cause has a fix.
//! 3. What is not known ([`facts`]: `None`, `Unknown`) rules nothing out: registration itself shows it, and falls back.
//! 4. What only makes the way taken slow (ACS redirect, an IOMMU that translates, a small BAR1) is a cause about that way.
//!
//! [`config`] reads PCI configuration space; it is the only decoder here.

mod causes;
mod choose;
pub mod config;
pub mod facts;

pub use choose::choose;
pub use facts::{Iommu, Library, Pair, Peer, Server, Vendor};
