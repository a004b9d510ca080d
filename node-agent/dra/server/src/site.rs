//! A server with the driver on it, before an API server of ours.

use std::{ops::Deref, path::Path};

use node_agent_dra::{key::DRIVER, slice};
use serde_json::{Value, json};

use crate::{api::ApiServer, server::Server};

/// Name of the server.
pub const NODE: &str = "n0";

/// A server and its API server.
#[derive(Debug)]
pub struct Site {
    /// The API server.
    pub api: ApiServer,
    server: Server,
}

impl Site {
    /// The server [`NODE`] with so many rails, see [`Server::new`], and an API server that knows its Node.
    pub async fn new(program: &Path, rails: usize) -> Self {
        let api = ApiServer::start().await;
        let server = Server::new(program, NODE, rails, api.endpoint.clone());
        api.write_credentials(&server.path(""));
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "uid": "uid-of-the-node"}});
        api.objects().put(&format!("/api/v1/nodes/{NODE}"), node);
        Self { api, server }
    }

    /// Allocates devices to a claim: what the scheduler writes.
    pub fn allocate(&self, uid: &str, name: &str, rails: &[usize]) {
        self.api.objects().put(&claim_path(name), claim(uid, name, rails));
    }

    /// Deletes a claim.
    pub fn delete_claim(&self, name: &str) {
        self.api.objects().remove(&claim_path(name));
    }

    /// The ResourceSlice, as it is stored.
    #[must_use]
    pub fn slice(&self) -> Option<Value> {
        self.api.objects().get(&format!("/apis/resource.k8s.io/v1/resourceslices/{}", slice::name(NODE)))
    }
}

impl Deref for Site {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn claim_path(name: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/{name}")
}

/// A claim of the namespace `ml` that was given these rails, as Kubernetes stores it.
#[must_use]
pub fn claim(uid: &str, name: &str, rails: &[usize]) -> Value {
    let result = |k: &usize| json!({"request": "rails", "driver": DRIVER, "pool": NODE, "device": format!("nic-0000-{k:02x}-00-0")});
    let results: Vec<Value> = rails.iter().map(result).collect();
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": name, "namespace": "ml", "uid": uid, "resourceVersion": "7",
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "rails", "exactly": {
            "deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": rails.len(),
        }}]}},
        "status": {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": [NODE]},
                ]}]},
            },
            "reservedFor": [{"resource": "pods", "name": "trainer", "uid": "uid-of-the-pod"}],
        },
    })
}
