//! Queues: how tenants share what there is.

use std::time::Duration;

use crate::{QueueName, TenantName, Timestamp};

/// A queue of a tenant. The tenant itself is the root of its queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The tenant that the queue belongs to.
    pub tenant: TenantName,
    /// Its name, unique within the tenant.
    pub name: QueueName,
    /// The queue that it is part of; `None`: right below the tenant.
    pub parent: Option<QueueName>,
    /// What its jobs can always have; part of its parent's.
    pub guaranteed: Shape,
    /// GPUs that its jobs hold at most, borrowed ones too; `None`: as many as are free.
    pub limit: Option<u32>,
    /// Share of what is free, against its siblings' weights; at least 1.
    pub weight: u32,
    /// What the order of its waiting jobs is for; `None`: as the queue above it, at last as the cluster's policy says.
    pub objective: Option<Objective>,
    /// Identifier of this very queue; a later one of the same name has another.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When the queue was made.
    pub created: Timestamp,
}

/// What the order of waiting jobs of equal priority is for. Each but [`Objective::Fair`] has its patience: the longest
/// time by which a job may have come after another one and go ahead of it for the objective. Nobody starves: who has
/// waited so long stands ahead of all who come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objective {
    /// Short waits in the mean: a job stands as if it had come later, the longer it will run.
    MeanWait {
        /// The most by which a job can be put back.
        patience: Duration,
    },
    /// Short waits of large jobs: a job stands as if it had come later, the fewer GPUs it asks for.
    LargeFirst {
        /// The most by which a job can be put back.
        patience: Duration,
    },
    /// First come, first served.
    Fair,
}

impl Objective {
    /// The patience of [`Objective::MeanWait`] where nothing is said.
    pub const MEAN_WAIT_PATIENCE: Duration = Duration::from_secs(86_400);
    /// The patience of [`Objective::LargeFirst`] where nothing is said: half a day for every doubling of GPUs.
    pub const LARGE_FIRST_PATIENCE: Duration = Duration::from_secs(8 * 86_400);
    /// The longest patience that may be given: 90 days.
    pub const PATIENCE_MAX: Duration = Duration::from_secs(90 * 86_400);

    /// Reads `fair`, `mean-wait`, `large-first`, and the latter two with a patience: `mean-wait:2d`. Of times the caller
    /// knows the form.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(text: &str, time: impl Fn(&str) -> Result<Duration, String>) -> Result<Self, String> {
        let (name, patience) = match text.split_once(':') {
            Some((name, patience)) => (name, Some(time(patience)?)),
            None => (text, None),
        };
        let within = Duration::from_secs(1)..=Self::PATIENCE_MAX;
        if let Some(patience) = patience.filter(|patience| !within.contains(patience)) {
            return Err(format!("a patience of {} s is not from 1 second to 90 days", patience.as_secs()));
        }
        match (name, patience) {
            ("mean-wait", patience) => {
                Ok(Self::MeanWait { patience: patience.unwrap_or(Self::MEAN_WAIT_PATIENCE) })
            }
            ("large-first", patience) => {
                Ok(Self::LargeFirst { patience: patience.unwrap_or(Self::LARGE_FIRST_PATIENCE) })
            }
            ("fair", None) => Ok(Self::Fair),
            ("fair", Some(_)) => {
                Err("fair has no patience: nobody goes ahead of who came earlier".to_owned())
            }
            _ => Err(format!("`{text}` is no objective: write mean-wait, large-first or fair")),
        }
    }

    /// By how much a job may have come later at most and go ahead.
    #[must_use]
    pub fn patience(self) -> Duration {
        match self {
            Self::MeanWait { patience } | Self::LargeFirst { patience } => patience,
            Self::Fair => Duration::ZERO,
        }
    }
}

/// Quota by usable shape: whole pods, further whole nodes, further single GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Shape {
    /// Whole pods of the fabric.
    pub pods: u32,
    /// Whole nodes beside them.
    pub nodes: u32,
    /// Single GPUs beside them.
    pub gpus: u32,
}

impl Shape {
    /// Whether the quota grants nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}
