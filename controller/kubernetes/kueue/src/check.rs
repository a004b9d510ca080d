//! The state of an admission check, as it is written into a Workload's status by server-side apply. [pure]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    names::{GROUP, HOLD, NODES, VERSION, node_label},
    shape::Shape,
    workload::{CheckState, PodSetUpdate, Workload},
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
    pub(crate) checks: Vec<Entry>,
    /// The state.
    pub state: State,
    /// Why.
    pub message: String,
    /// Of Retry: seconds before it is tried again.
    pub requeue_after: Option<u32>,
}

/// What is written of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    name: String,
    /// When it came into its state.
    since: String,
    /// It was in this state before, and stays in it.
    stays: bool,
    /// What pods get.
    updates: Vec<Update>,
}

impl Entry {
    fn of(check: &CheckState, state: State, now: u64) -> Self {
        let stays = check.state == state.as_str();
        // What pods were told once is theirs: Kueue refuses to have it changed while the check is Ready.
        let said = if stays && state == State::Ready { &check.pod_set_updates[..] } else { &[] };
        let has_since = stays && !check.last_transition_time.is_empty();
        Self {
            name: check.name.clone(),
            since: if has_since { check.last_transition_time.clone() } else { time(now) },
            stays,
            updates: said.iter().map(Update::of).collect(),
        }
    }
}

impl Report {
    /// These checks of the workload get this state.
    #[must_use]
    pub fn of(workload: &Workload, checks: &[&CheckState], state: State, message: String, now: u64) -> Self {
        Self {
            namespace: workload.metadata.namespace.clone(),
            name: workload.metadata.name.clone(),
            uid: workload.metadata.uid.clone(),
            version: workload.metadata.resource_version.clone(),
            checks: checks.iter().map(|check| Entry::of(check, state, now)).collect(),
            state,
            message: message.chars().take(MESSAGE_MAX).collect(),
            requeue_after: None,
        }
    }

    /// Pods get this, by the first check that was not Ready before: one check alone may add the same to pods. Nothing where another has told them already.
    #[must_use]
    pub fn with_updates(mut self, updates: Vec<Update>) -> Self {
        let is_told = self.checks.iter().any(|entry| !entry.updates.is_empty());
        if let Some(entry) = self.checks.iter_mut().find(|entry| !entry.stays && !is_told) {
            entry.updates = updates;
        }
        self
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
        let entry = |of: &Entry| {
            // What is left out would stay, as Kueue has applied it with the rest: no updates are said too.
            let updates: Vec<Value> = of.updates.iter().map(Update::json).collect();
            let mut entry = json!({
                "name": of.name, "state": self.state.as_str(), "message": self.message,
                "lastTransitionTime": of.since, "podSetUpdates": updates,
            });
            if let Some(after) = self.requeue_after {
                entry["requeueAfterSeconds"] = json!(after);
            }
            entry
        };
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "Workload",
            "metadata": {"name": self.name, "namespace": self.namespace, "uid": self.uid, "resourceVersion": self.version},
            "status": {"admissionChecks": self.checks.iter().map(entry).collect::<Vec<_>>()},
        })
    }
}

impl Update {
    fn of(found: &PodSetUpdate) -> Self {
        Self {
            pod_set: found.name.clone(),
            annotations: found.annotations.clone(),
            node_selector: found.node_selector.clone(),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn update(pod_set: &str) -> Update {
        Update { pod_set: pod_set.into(), annotations: BTreeMap::new(), node_selector: BTreeMap::new() }
    }

    fn check(name: &str, state: &str, pod_sets: &[&str]) -> CheckState {
        let of = |set: &&str| PodSetUpdate { name: (*set).into(), ..PodSetUpdate::default() };
        let pod_set_updates = pod_sets.iter().map(of).collect();
        CheckState { name: name.into(), state: state.into(), pod_set_updates, ..CheckState::default() }
    }

    fn written(checks: &[&CheckState], state: State) -> Vec<Value> {
        let report = Report::of(&Workload::default(), checks, state, String::new(), 5);
        let patch = report.with_updates(vec![update("main")]).patch();
        let all = patch["status"]["admissionChecks"].as_array().unwrap();
        all.iter().map(|one| one["podSetUpdates"].clone()).collect()
    }

    #[test]
    fn one_check_tells_pods_and_the_others_say_that_they_tell_nothing() {
        let (first, second) = (check("a", "Pending", &[]), check("b", "Pending", &[]));
        let none = json!([]);
        let main = json!([{"name": "main", "annotations": {}}]);
        assert_eq!(written(&[&first, &second], State::Ready), [main.clone(), none.clone()]);
        // One that is Ready keeps what it has told.
        let ready = check("b", "Ready", &["main"]);
        assert_eq!(written(&[&first, &ready], State::Ready), [none.clone(), main.clone()]);
        let without = check("a", "Ready", &[]);
        assert_eq!(written(&[&without, &second], State::Ready), [none.clone(), main]);
        let report = Report::of(&Workload::default(), &[&ready], State::Retry, String::new(), 5).patch();
        assert_eq!(report["status"]["admissionChecks"][0]["podSetUpdates"], none);
    }
}
