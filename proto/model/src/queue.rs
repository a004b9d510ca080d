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
    /// Short waits in the mean: a job stands as if it had come later, the longer it will run; or, where GPU-hours count,
    /// the more of those it asks for.
    MeanWait {
        /// The most by which a job can be put back.
        patience: Duration,
        /// A job that asks for so many GPU-hours (GPUs x the time that it says it runs) is put back by all of the patience,
        /// one of fewer by the square of its part of them, in place of by its length; `None`: by its length.
        full_delay_gpu_hours: Option<u32>,
    },
    /// Short waits of large jobs: a job stands as if it had come later, the fewer GPUs it asks for.
    LargeFirst {
        /// The most by which a job can be put back.
        patience: Duration,
        /// The same, beside what a job is put back by its GPUs; `None`: by its GPUs alone.
        full_delay_gpu_hours: Option<u32>,
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
    /// The most GPU-hours that may be given as those that are put back by all of the patience.
    pub const GPU_HOURS_MAX: u32 = 1_000_000_000;

    /// [`Self::MeanWait`] by the length of jobs.
    #[must_use]
    pub const fn mean_wait(patience: Duration) -> Self {
        Self::MeanWait { patience, full_delay_gpu_hours: None }
    }

    /// [`Self::LargeFirst`] by the GPUs of jobs alone.
    #[must_use]
    pub const fn large_first(patience: Duration) -> Self {
        Self::LargeFirst { patience, full_delay_gpu_hours: None }
    }

    /// The same with the GPU-hours that are put back by all of the patience; [`Self::Fair`] puts nobody back.
    #[must_use]
    pub const fn with_gpu_hours(self, full_delay_gpu_hours: Option<u32>) -> Self {
        match self {
            Self::MeanWait { patience, .. } => Self::MeanWait { patience, full_delay_gpu_hours },
            Self::LargeFirst { patience, .. } => Self::LargeFirst { patience, full_delay_gpu_hours },
            Self::Fair => Self::Fair,
        }
    }

    /// Reads `fair`, `mean-wait`, `large-first`, and the latter two with a patience, and behind that with the GPU-hours that
    /// are put back by all of it: `mean-wait:2d`, `mean-wait:16d:12000`. Of times the caller knows the form.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(text: &str, time: impl Fn(&str) -> Result<Duration, String>) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let (patience, hours) = match rest.map(|rest| rest.split_once(':').unwrap_or((rest, ""))) {
            Some((patience, "")) => (Some(time(patience)?), None),
            Some((patience, hours)) => (Some(time(patience)?), Some(gpu_hours(hours)?)),
            None => (None, None),
        };
        let within = Duration::from_secs(1)..=Self::PATIENCE_MAX;
        if let Some(patience) = patience.filter(|patience| !within.contains(patience)) {
            return Err(format!("a patience of {} s is not from 1 second to 90 days", patience.as_secs()));
        }
        let objective = match (name, patience) {
            ("mean-wait", patience) => Self::mean_wait(patience.unwrap_or(Self::MEAN_WAIT_PATIENCE)),
            ("large-first", patience) => Self::large_first(patience.unwrap_or(Self::LARGE_FIRST_PATIENCE)),
            ("fair", None) => Self::Fair,
            ("fair", Some(_)) => {
                return Err("fair has no patience: nobody goes ahead of who came earlier".to_owned());
            }
            _ => return Err(format!("`{text}` is no objective: write mean-wait, large-first or fair")),
        };
        Ok(objective.with_gpu_hours(hours))
    }

    /// By how much a job may have come later at most and go ahead.
    #[must_use]
    pub fn patience(self) -> Duration {
        match self {
            Self::MeanWait { patience, .. } | Self::LargeFirst { patience, .. } => patience,
            Self::Fair => Duration::ZERO,
        }
    }

    /// How many GPU-hours are put back by all of the patience, where those count.
    #[must_use]
    pub fn full_delay_gpu_hours(self) -> Option<u32> {
        match self {
            Self::MeanWait { full_delay_gpu_hours, .. } | Self::LargeFirst { full_delay_gpu_hours, .. } => {
                full_delay_gpu_hours
            }
            Self::Fair => None,
        }
    }
}

/// Reads the GPU-hours that are put back by all of the patience.
fn gpu_hours(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|hours| (1..=Objective::GPU_HOURS_MAX).contains(hours));
    number.ok_or_else(|| format!("`{text}` is no number of GPU-hours from 1 to {}", Objective::GPU_HOURS_MAX))
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
