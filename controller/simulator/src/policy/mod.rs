//! Who decides: ours, and what others do.

pub mod easy;
pub mod fifo;
mod lot;
pub mod ours;
mod queue;
pub(crate) mod scheduler;

use crate::{site::Site, workload::Workload};

pub use scheduler::{Act, Rules, Scheduler};

/// The schedulers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// The production scheduler: `controller-queue` over `controller-scheduler`.
    Ours,
    /// EASY backfill with tree best fit: what Slurm's `select/cons_tres` and `topology/tree` do.
    Easy,
    /// Strictly in order, tree best fit.
    Fifo,
    /// In order, on random servers.
    Random,
}

impl Policy {
    /// All schedulers, the production scheduler first.
    pub const ALL: [Self; 4] = [Self::Ours, Self::Easy, Self::Fifo, Self::Random];

    /// The name that options and results use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Easy => "easy",
            Self::Fifo => "fifo",
            Self::Random => "random",
        }
    }

    /// A scheduler that has seen nothing yet.
    #[must_use]
    pub fn scheduler(
        self,
        site: &Site,
        workload: &Workload,
        rules: &Rules,
        seed: u64,
    ) -> Box<dyn Scheduler + Send + 'static> {
        match self {
            Self::Ours => Box::new(ours::Ours::new(site, workload, rules)),
            Self::Easy => Box::new(easy::Easy::new(site, rules)),
            Self::Fifo => Box::new(fifo::Fifo::tree(site)),
            Self::Random => Box::new(fifo::Fifo::random(site, seed)),
        }
    }
}
