//! The API server of Kubernetes, as far as it is asked: Kueue's objects, and labels of nodes.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    check::Report,
    names::{CONTROLLER, GROUP, MANAGER, VERSION, node_label},
    topology,
};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(10);

/// Why a call came to nothing.
#[derive(Debug, Error)]
pub enum KubeError {
    /// The API server refuses, or cannot be reached.
    #[error("{doing}: {source}")]
    Call {
        /// What was to be done.
        doing: String,
        /// Why it was not.
        source: Box<kube::Error>,
    },
    /// It has not answered.
    #[error("{doing}: the API server has not answered within {CALL:?}")]
    Late {
        /// What was to be done.
        doing: String,
    },
}

impl KubeError {
    fn has_code(&self, code: u16) -> bool {
        let Self::Call { source, .. } = self else { return false };
        matches!(source.as_ref(), kube::Error::Api(status) if status.code == code)
    }

    /// The object is not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.has_code(404)
    }

    /// The object has changed since it was read.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.has_code(409)
    }
}

/// Objects of Kueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A gang that waits or runs.
    Workload,
    /// A check that ClusterQueues demand.
    AdmissionCheck,
    /// Levels of the fabric.
    Topology,
    /// Nodes that are alike.
    ResourceFlavor,
}

impl Kind {
    /// What the client needs to know of it.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        let (kind, plural) = match self {
            Self::Workload => ("Workload", "workloads"),
            Self::AdmissionCheck => ("AdmissionCheck", "admissionchecks"),
            Self::Topology => ("Topology", "topologies"),
            Self::ResourceFlavor => ("ResourceFlavor", "resourceflavors"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, kind), plural)
    }
}

/// The API server.
#[derive(Clone)]
pub struct Kubernetes {
    client: Client,
}

impl Kubernetes {
    /// By this connection.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// All objects of a kind.
    #[must_use]
    pub fn all(&self, kind: Kind) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &kind.resource())
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// All namespaces.
    #[must_use]
    pub fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    /// Writes the state of a workload's checks.
    ///
    /// # Errors
    /// [`KubeError`]; a conflict where the workload is not any more as it was when that was decided.
    pub async fn report(&self, report: &Report) -> Result<(), KubeError> {
        let (namespace, name) = report.workload();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &Kind::Workload.resource());
        let doing = format!("write the check of workload {namespace}/{name}");
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(report.patch());
        within(doing, api.patch_status(name, &parameters, &patch)).await?;
        Ok(())
    }

    /// Gives a node the label of a workload, or takes it away. Gives the node as it is then; none where it is not there.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn label(&self, node: &str, uid: &str, value: Option<&str>) -> Result<Option<Node>, KubeError> {
        let patch = Patch::Merge(json!({"metadata": {"labels": {node_label(uid): value}}}));
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let api = self.nodes();
        match within(format!("label node {node}"), api.patch(node, &parameters, &patch)).await {
            Ok(node) => Ok(Some(node)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says of an admission check that somebody looks after it.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn activate(&self, check: &DynamicObject, now: &str) -> Result<(), KubeError> {
        let name = check.metadata.name.clone().unwrap_or_default();
        let patch = Patch::Apply(active(&name, check.metadata.generation.unwrap_or_default(), now));
        let doing = format!("say that admission check {name} is active");
        let api = self.all(Kind::AdmissionCheck);
        within(doing, api.patch_status(&name, &PatchParams::apply(MANAGER).force(), &patch)).await?;
        Ok(())
    }

    /// Writes an object of the cluster as it should be, where it is not. True if anything was written.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn keep(&self, kind: Kind, name: &str, wanted: &Value) -> Result<bool, KubeError> {
        let api = self.all(kind);
        let found = within(format!("read {kind:?} {name}"), api.get_opt(name)).await?;
        let found = found.map(|found| found.data);
        let differs = !topology::is_there(found.as_ref().map(|data| &data["spec"]), &wanted["spec"]);
        if differs {
            let parameters = PatchParams::apply(MANAGER).force();
            let patch = Patch::Apply(wanted);
            within(format!("write {kind:?} {name}"), api.patch(name, &parameters, &patch)).await?;
        }
        Ok(differs)
    }
}

async fn within<T>(
    doing: String,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, KubeError> {
    match tokio::time::timeout(CALL, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(source)) => Err(KubeError::Call { doing, source: Box::new(source) }),
        Err(_) => Err(KubeError::Late { doing }),
    }
}

/// Whether an AdmissionCheck is ours.
#[must_use]
pub fn is_ours(check: &DynamicObject) -> bool {
    check.data["spec"]["controllerName"] == CONTROLLER
}

/// Whether it says already that somebody looks after it.
#[must_use]
pub fn is_active(check: &DynamicObject) -> bool {
    let conditions = check.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Active" && one["status"] == "True")
}

/// Names of the checks that are ours.
#[must_use]
pub fn ours<'a>(checks: impl Iterator<Item = &'a DynamicObject>) -> BTreeSet<String> {
    checks.filter(|check| is_ours(check)).filter_map(|check| check.metadata.name.clone()).collect()
}

fn active(name: &str, generation: i64, now: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "status": {"conditions": [{
            "type": "Active", "status": "True", "reason": "Active", "message": "rail-operator looks after it",
            "lastTransitionTime": now, "observedGeneration": generation,
        }]},
    })
}
