//! Reservations: servers that are kept for somebody, or for maintenance, at a time to come.

use std::time::Duration;

use crate::{NodeName, ReservationName, TenantName, Timestamp};

/// Servers kept from `start` for `duration`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub name: ReservationName,
    /// Never reused.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When it was made.
    pub created: Timestamp,
    /// Which servers.
    pub nodes: ReservationNodes,
    /// From when.
    pub start: Timestamp,
    /// For how long; never zero.
    pub duration: Duration,
    /// Whose jobs may run in it; empty for maintenance.
    pub tenants: Vec<TenantName>,
    /// No job at all runs in it.
    pub maintenance: bool,
    /// For people.
    pub reason: String,
}

impl Reservation {
    /// When it ends.
    #[must_use]
    pub fn end(&self) -> Timestamp {
        self.start.plus(self.duration)
    }
}

/// Which servers a reservation keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationNodes {
    /// These.
    Names(Vec<NodeName>),
    /// So many, chosen when it begins.
    Count {
        /// How many.
        nodes: u32,
        /// From so many pods at most; 0: no limit.
        pods_at_most: u32,
    },
}
