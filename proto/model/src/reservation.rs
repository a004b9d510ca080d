//! Reservations: servers that are kept for somebody, or for maintenance, at a time to come.

use std::time::Duration;

use crate::{NodeName, ReservationName, TenantName, Timestamp};

/// Servers kept from `start` for `duration`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Name of the reservation, unique in the cluster.
    pub name: ReservationName,
    /// Identifier of this very reservation; a later one of the same name has another.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When the reservation was made.
    pub created: Timestamp,
    /// The servers that are kept, by name or by number.
    pub nodes: ReservationNodes,
    /// Begin of the time for which they are kept.
    pub start: Timestamp,
    /// For how long the servers are kept; never zero.
    pub duration: Duration,
    /// Whose jobs may run in it; empty for maintenance.
    pub tenants: Vec<TenantName>,
    /// No job at all runs in it.
    pub maintenance: bool,
    /// A text for people, for example what the maintenance is for; may be empty.
    pub reason: String,
}

impl Reservation {
    /// The first moment at which the servers are no longer kept.
    #[must_use]
    pub fn end(&self) -> Timestamp {
        self.start.plus(self.duration)
    }
}

/// Which servers a reservation keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationNodes {
    /// Exactly the servers of these names.
    Names(Vec<NodeName>),
    /// So many, chosen when it begins.
    Count {
        /// Number of servers to keep.
        nodes: u32,
        /// From so many pods at most; 0: no limit.
        pods_at_most: u32,
    },
}
