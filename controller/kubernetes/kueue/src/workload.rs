//! A Workload of Kueue (`kueue.x-k8s.io/v1beta2`), as far as it is read here. [pure]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::assignment::TopologyAssignment;

/// The object.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// What every object has.
    pub metadata: Metadata,
    /// What is asked for.
    pub spec: WorkloadSpec,
    /// How it stands.
    pub status: WorkloadStatus,
}

/// Metadata of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Its name in its namespace.
    pub name: String,
    /// Its namespace; empty for an object of the cluster.
    pub namespace: String,
    /// Never given to another object.
    pub uid: String,
    /// Changes with every write.
    pub resource_version: String,
    /// Set as soon as it is being deleted.
    pub deletion_timestamp: Option<String>,
    /// Of whoever made it.
    pub annotations: BTreeMap<String, String>,
}

/// What a workload asks for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// Sets of pods that are all alike.
    pub pod_sets: Vec<PodSet>,
    /// Whether it may be admitted; absent means that it may.
    pub active: Option<bool>,
    /// Kueue ends it after so many seconds.
    pub maximum_execution_time_seconds: Option<u32>,
}

/// Pods that are all alike.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodSet {
    /// Unique in the workload.
    pub name: String,
    /// How many.
    pub count: u32,
    /// What each of them is.
    pub template: PodTemplate,
}

/// A pod before it is made.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    /// Its annotations, above all.
    pub metadata: Metadata,
    /// Its containers.
    pub spec: PodSpec,
}

/// Of a pod, what it needs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Those that run beside one another.
    pub containers: Vec<Container>,
    /// Those that run before, or all the time.
    pub init_containers: Vec<Container>,
}

/// Of a container, what it needs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Its requests and limits.
    pub resources: Resources,
    /// `Always` of an init container that runs beside the others.
    pub restart_policy: Option<String>,
}

/// Amounts by the name of the resource, as Kubernetes writes them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// What it needs.
    pub requests: BTreeMap<String, Value>,
    /// What it may have; of a resource such as GPUs both are equal, and either may be left out.
    pub limits: BTreeMap<String, Value>,
}

/// How a workload stands.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// QuotaReserved, Evicted, Finished and others.
    pub conditions: Vec<Condition>,
    /// What it was given, while it has quota.
    pub admission: Option<Admission>,
    /// The checks of its ClusterQueue.
    pub admission_checks: Vec<CheckState>,
}

/// One condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// Which.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// Since when, as RFC 3339 says it.
    pub last_transition_time: String,
}

/// What a workload was given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Admission {
    /// By which ClusterQueue.
    pub cluster_queue: String,
    /// One entry for each pod set.
    pub pod_set_assignments: Vec<PodSetAssignment>,
}

/// What a pod set was given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSetAssignment {
    /// The pod set.
    pub name: String,
    /// Pods that were admitted; absent means all.
    pub count: Option<u32>,
    /// Where topology-aware scheduling puts them.
    pub topology_assignment: Option<TopologyAssignment>,
}

/// State of one check of one workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CheckState {
    /// Name of the AdmissionCheck.
    pub name: String,
    /// Pending, Ready, Retry or Rejected.
    pub state: String,
    /// For people.
    pub message: String,
    /// Since when, as RFC 3339 says it.
    pub last_transition_time: String,
    /// How often it was Retry; Kueue counts.
    pub retry_count: Option<u32>,
    /// What the check adds to pods.
    pub pod_set_updates: Vec<PodSetUpdate>,
}

/// What a check adds to the pods of a pod set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSetUpdate {
    /// The pod set.
    pub name: String,
    /// Annotations that they get.
    pub annotations: BTreeMap<String, String>,
    /// Labels that their nodes must have.
    pub node_selector: BTreeMap<String, String>,
}

impl Workload {
    /// Reads the object.
    ///
    /// # Errors
    /// What it is not like a Workload in, in serde's words.
    pub fn read(object: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(object)
    }

    /// Whether the condition holds.
    #[must_use]
    pub fn is(&self, condition: &str) -> bool {
        self.condition(condition).is_some()
    }

    /// The condition, if it holds.
    #[must_use]
    pub fn condition(&self, condition: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|one| one.kind == condition && one.status == "True")
    }

    /// When its quota was reserved, in seconds since 1970; nothing while it has none.
    #[must_use]
    pub fn reserved(&self) -> Option<u64> {
        let condition = self.condition("QuotaReserved")?;
        self.status.admission.as_ref()?;
        seconds(&condition.last_transition_time)
    }

    /// Whether it may still run: it has quota and has not ended. One that is evicted keeps its quota until its pods are gone, and one that is being
    /// deleted is there until then.
    #[must_use]
    pub fn is_present(&self) -> bool {
        !self.is("Finished") && self.reserved().is_some()
    }

    /// The tenant's way to name it: namespace and name.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }
}

/// Seconds since 1970 of a time as Kubernetes writes it.
#[must_use]
pub fn seconds(text: &str) -> Option<u64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_read_of_a_workload() {
        let object = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"name": "job-a", "namespace": "ml", "uid": "u", "labels": {"a": "b"}},
            "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 4, "template": {
                "metadata": {"annotations": {"railyard.io/rail-count": "2"}},
                "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}}]},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-30T05:00:00Z"}],
                "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 4}]},
                "admissionChecks": [{"name": "railyard", "state": "Pending", "message": "", "retryCount": 2}]},
        });
        let workload = Workload::read(object).unwrap();
        assert_eq!((workload.path().as_str(), workload.reserved()), ("ml/job-a", Some(1_796_014_800)));
        assert!(workload.is_present() && !workload.is("Evicted"));
        assert_eq!(workload.status.admission_checks[0].retry_count, Some(2));
        let mut without = workload.clone();
        without.status.admission = None;
        assert!(!without.is_present());
        let mut ending = workload;
        ending.metadata.deletion_timestamp = Some("2026-11-30T05:00:01Z".into());
        // Its pods may still be there.
        assert!(ending.is_present());
    }

    #[test]
    fn times_before_1970_and_other_words_are_no_times() {
        assert_eq!(seconds("1970-01-01T00:00:07Z"), Some(7));
        assert_eq!((seconds("1969-12-31T23:59:59Z"), seconds("today")), (None, None));
    }
}
