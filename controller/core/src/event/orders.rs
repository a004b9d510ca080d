//! What people ask of jobs that are there: to be held, released or changed; and of rollouts.

use std::{collections::BTreeMap, time::Duration};

use proto_model::{Authority, JobId, QueueName, RequestId};

/// The client's own id for a change, by which a late copy is told from another change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The id that the client gave to its request.
    pub request: RequestId,
    /// Digest of all that is asked.
    pub digest: [u8; 32],
}

/// Jobs that are meant, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOrder {
    /// Which: a job or an array.
    pub id: JobId,
    /// Of an array only these elements.
    pub indices: Vec<u32>,
    /// Who asks, with the role by which it may.
    pub by: Authority,
    /// `None`: a repeated change is a change of its own.
    pub asked: Option<Asked>,
}

/// What of a job is changed; the rest stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobChange {
    /// Of a job that waits.
    pub priority: Option<i32>,
    /// The limit; `Some(None)`: none.
    pub time_limit: Option<Option<Duration>>,
    /// Of a job that waits: the queue; `Some(None)`: the tenant itself.
    pub queue: Option<Option<QueueName>>,
    /// Of a job that waits: nodes that it wants. Without `min_nodes` it is exactly so many.
    pub nodes: Option<u32>,
    /// Of a job that waits: it starts with so many at least.
    pub min_nodes: Option<u32>,
    /// Labels that are set (with a value) or taken away, also of a job that has ended.
    pub labels: BTreeMap<String, Option<String>>,
}

impl JobChange {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a job that holds its place can be changed so.
    #[must_use]
    pub fn only_time_limit(&self) -> bool {
        *self == Self { time_limit: self.time_limit, labels: self.labels.clone(), ..Self::default() }
    }

    /// Whether a job that has ended can be changed so.
    #[must_use]
    pub fn only_labels(&self) -> bool {
        *self == Self { labels: self.labels.clone(), ..Self::default() }
    }

    /// A job's labels after it.
    #[must_use]
    pub fn labels_of(&self, before: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut labels = before.clone();
        for (key, value) in &self.labels {
            match value {
                Some(value) => drop(labels.insert(key.clone(), value.clone())),
                None => drop(labels.remove(key)),
            }
        }
        labels
    }
}

/// A change of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobUpdate {
    /// Which jobs, and who asks.
    pub order: JobOrder,
    /// What of them.
    pub change: JobChange,
    /// If not 0, refused unless it is the job's resource version. Not for several elements.
    pub if_version: u64,
}

/// What may be done with a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QosAction {
    /// What is on trial is taken back; what is kept stays.
    Pause,
    /// It goes on, and what failed is tried again.
    Resume,
    /// The profile before it is rolled out.
    RollBack,
    /// It ends where it is, for good: what is on trial is taken back, what is kept stays.
    Cancel,
}
