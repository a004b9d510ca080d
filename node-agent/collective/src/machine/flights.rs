//! Frames that were handed to a rail and that the peer has not acknowledged.

use std::collections::{BTreeMap, VecDeque};

use crate::header::Header;
use crate::machine::keep::CopyId;
use crate::machine::scratch::Slot;
use crate::memory::Region;
use crate::units::Node;

/// Where a payload lies until its arrival is known.
#[derive(Debug, Clone, Copy)]
pub enum Hold {
    /// The frame has no payload.
    Nothing,
    /// In a rank's buffer.
    Loan,
    /// In a sending slot.
    Slot(Slot),
    /// In a copy that was made before the buffers became the ranks' own again.
    Copy(CopyId),
}

/// One frame that was handed to a rail.
#[derive(Debug, Clone, Copy)]
pub struct Flight {
    pub peer: Node,
    /// As it was first handed; its place on the link is set again each time.
    pub header: Header,
    pub payload: Option<Region>,
    pub hold: Hold,
    /// A rail may still read the payload.
    pub handed: bool,
}

/// All flights, and those that wait to fly again.
#[derive(Debug, Clone, Default)]
pub struct Flights {
    pub all: BTreeMap<u64, Flight>,
    pub(super) next: u64,
    /// By peer: frames that were lost with their rail, in the order in which they were sent.
    pub again: BTreeMap<Node, VecDeque<u64>>,
}

impl Flights {
    /// Takes a frame in and names it.
    pub fn insert(&mut self, flight: Flight) -> u64 {
        self.next += 1;
        self.all.insert(self.next, flight);
        self.next
    }
}
