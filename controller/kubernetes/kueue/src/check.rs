//! The state of an admission check, as it is written into a Workload's status by server-side apply. [pure]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    names::{GROUP, HOLD, NODES, VERSION, node_label},
    shape::Shape,
    workload::{CheckState, Workload},
};

/// Bytes of a message (Kueue takes 32768).
const MESSAGE_MAX: usize = 2000;
/// Bytes of a list of servers in an annotation; all annotations of a pod together have 256 KiB.
const NODES_MAX: usize = 128 * 1024;

/// State of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not decided yet.
    Pending,
    /// The workload may run.
    Ready,
    /// Not now: Kueue takes its quota back, and tries again later.
    Retry,
    /// Never: Kueue deactivates the workload.
    Rejected,
}

impl State {
    /// As Kueue writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Ready => "Ready",
            Self::Retry => "Retry",
            Self::Rejected => "Rejected",
        }
    }
}

/// What pods of one set get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The pod set.
    pub pod_set: String,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Labels that their nodes must have.
    pub node_selector: BTreeMap<String, String>,
}

/// What is written of a workload's check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    /// Names of the checks, with the times since when they are in their state.
    pub(crate) checks: Vec<(String, String)>,
    /// The state.
    pub state: State,
    /// Why.
    pub message: String,
    /// Of Retry: seconds before it is tried again.
    pub requeue_after: Option<u32>,
    /// Of Ready: what pods get.
    pub updates: Vec<Update>,
}

impl Report {
    /// These checks of the workload get this state.
    #[must_use]
    pub fn of(workload: &Workload, checks: &[&CheckState], state: State, message: String, now: u64) -> Self {
        let since = |check: &&CheckState| {
            let stays = check.state == state.as_str() && !check.last_transition_time.is_empty();
            (check.name.clone(), if stays { check.last_transition_time.clone() } else { time(now) })
        };
        Self {
            namespace: workload.metadata.namespace.clone(),
            name: workload.metadata.name.clone(),
            uid: workload.metadata.uid.clone(),
            version: workload.metadata.resource_version.clone(),
            checks: checks.iter().map(since).collect(),
            state,
            message: message.chars().take(MESSAGE_MAX).collect(),
            requeue_after: None,
            updates: Vec::new(),
        }
    }

    /// Namespace and name of the workload.
    #[must_use]
    pub fn workload(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// What is applied to the status. It names the version that was decided on: where the workload has changed since, the API server refuses it
    /// (409), and it is decided again. `retryCount` is not named: Kueue counts.
    #[must_use]
    pub fn patch(&self) -> Value {
        let entry = |(at, (name, since)): (usize, &(String, String))| {
            let mut entry = json!({
                "name": name, "state": self.state.as_str(), "message": self.message, "lastTransitionTime": since,
            });
            if let Some(after) = self.requeue_after {
                entry["requeueAfterSeconds"] = json!(after);
            }
            // One check alone may add the same to pods.
            if at == 0 && !self.updates.is_empty() {
                entry["podSetUpdates"] = self.updates.iter().map(Update::json).collect();
            }
            entry
        };
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "Workload",
            "metadata": {"name": self.name, "namespace": self.namespace, "uid": self.uid, "resourceVersion": self.version},
            "status": {"admissionChecks": self.checks.iter().enumerate().map(entry).collect::<Vec<_>>()},
        })
    }
}

impl Update {
    fn json(&self) -> Value {
        let mut update = json!({"name": self.pod_set, "annotations": self.annotations});
        if !self.node_selector.is_empty() {
            update["nodeSelector"] = json!(self.node_selector);
        }
        update
    }
}

/// What pods get of an allocation of this name, with these servers for each set: whose they are, and the nodes where they may run. Where
/// topology-aware scheduling binds each pod to its node, no more than the first.
#[must_use]
pub fn updates(uid: &str, name: &str, shape: &Shape, shares: &BTreeMap<String, Vec<String>>) -> Vec<Update> {
    let one = |(pod_set, nodes): (&String, &Vec<String>)| {
        let mut annotations = BTreeMap::from([(HOLD.to_owned(), name.to_owned())]);
        let nodes = nodes.join(",");
        if nodes.len() <= NODES_MAX {
            annotations.insert(NODES.to_owned(), nodes);
        }
        let node_selector = match shape {
            Shape::Anywhere(_) => [(node_label(uid), pod_set.clone())].into(),
            Shape::Nothing | Shape::Chosen(_) => BTreeMap::new(),
        };
        Update { pod_set: pod_set.clone(), annotations, node_selector }
    };
    shares.iter().map(one).collect()
}

/// Seconds since 1970 as Kubernetes writes a time.
#[must_use]
pub fn time(seconds: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(i64::try_from(seconds).unwrap_or_default());
    time.unwrap_or(OffsetDateTime::UNIX_EPOCH).format(&Rfc3339).unwrap_or_default()
}
