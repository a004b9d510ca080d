//! Frames that come in, and what came for an operation that has not started here.

use std::collections::BTreeMap;

use crate::call::Call;
use crate::header::Header;
use crate::machine::scratch::Slot;
use crate::units::Node;

/// A frame that is coming in on a link.
#[derive(Debug, Clone, Copy)]
pub struct Incoming {
    pub(super) header: Header,
    pub(super) target: Target,
}

/// Where a frame belongs.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Nowhere, or it has no payload.
    Nothing,
    /// It came before, or belongs to a life of the link that is over.
    Again,
    /// Its operation has not started here.
    Early(Slot),
    /// It is a contribution to a reduction and is staged in this slot.
    Staged { flow: usize, chunk: usize, slot: Slot },
    /// Data that lands where it belongs.
    Placed { flow: usize, chunk: usize },
}

/// What came for an operation that has not started here.
#[derive(Debug, Clone, Default)]
pub struct Early {
    /// Calls that peers announced.
    pub calls: BTreeMap<Node, Call>,
    /// Chunks that they sent ahead.
    pub frames: Vec<(Node, Header, Slot)>,
}
