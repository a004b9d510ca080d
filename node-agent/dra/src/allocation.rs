//! What a ResourceClaim was given of this driver. [pure]
//!
//! Fields as in `resource.k8s.io/v1`, of which v1beta1 differs in nothing that is read here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    error::ClaimError,
    key::{ClaimKey, DRIVER},
};

/// Devices that one claim may have (`AllocationResultsMaxSize` of the API).
const RESULTS_MAX: usize = 32;

/// One device that a claim was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocated {
    /// Its name in this server's pool.
    pub device: String,
    /// The requests of the claim that it is for, each once and without subrequests.
    pub requests: Vec<String>,
    /// For an administrator: others may have it too.
    pub shared: bool,
}

#[derive(Debug, Deserialize)]
struct Claim {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    uid: String,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    allocation: Option<Allocation>,
}

#[derive(Debug, Deserialize)]
struct Allocation {
    #[serde(default)]
    devices: Devices,
}

#[derive(Debug, Default, Deserialize)]
struct Devices {
    #[serde(default)]
    results: Vec<Outcome>,
    #[serde(default)]
    config: Vec<Parameters>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    request: String,
    driver: String,
    pool: String,
    device: String,
    admin_access: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Parameters {
    opaque: Option<Opaque>,
}

#[derive(Debug, Deserialize)]
struct Opaque {
    #[serde(default)]
    driver: String,
}

/// What an answer of the API server says of a claim: the devices of `pool` that it was given, in the order of the allocation.
///
/// # Errors
/// [`ClaimError`] if it is another claim of the name, has nothing of this driver, something of another server, or parameters.
pub fn allocated(answer: &Value, key: &ClaimKey, pool: &str) -> Result<Vec<Allocated>, ClaimError> {
    let called = || format!("{}/{}", key.namespace, key.name);
    let unreadable =
        |error: String| ClaimError::Api { claim: called(), source: crate::kube::KubeError::Answer(error) };
    let claim = Claim::deserialize(answer).map_err(|error| unreadable(error.to_string()))?;
    if claim.metadata.uid != key.uid {
        return Err(gone(key));
    }
    let devices = claim.status.allocation.map(|allocation| allocation.devices).unwrap_or_default();
    let ours = |parameters: &Parameters| parameters.opaque.as_ref().is_some_and(|one| one.driver == DRIVER);
    if devices.config.iter().any(ours) {
        return Err(ClaimError::Parameters(called()));
    }
    if devices.results.len() > RESULTS_MAX {
        return Err(unreadable(format!("it has {} devices, more than {RESULTS_MAX}", devices.results.len())));
    }
    let mut found: Vec<Allocated> = Vec::new();
    let mut places = BTreeMap::new();
    for one in devices.results.into_iter().filter(|one| one.driver == DRIVER) {
        if one.pool != pool {
            return Err(ClaimError::OtherPool { device: one.device, pool: one.pool, own: pool.to_owned() });
        }
        let at = *places.entry(one.device.clone()).or_insert(found.len());
        if at == found.len() {
            found.push(Allocated { device: one.device, requests: Vec::new(), shared: true });
        }
        let Some(device) = found.get_mut(at) else { continue };
        // A subrequest ("rails/fast") is the scheduler's choice; containers name the request.
        let request = one.request.split('/').next().unwrap_or_default();
        if !device.requests.iter().any(|known| known == request) {
            device.requests.push(request.to_owned());
        }
        device.shared &= one.admin_access == Some(true);
    }
    if found.is_empty() { Err(ClaimError::NotAllocated(called())) } else { Ok(found) }
}

/// The claim is not there any more.
#[must_use]
pub fn gone(key: &ClaimKey) -> ClaimError {
    ClaimError::Gone { namespace: key.namespace.clone(), name: key.name.clone(), uid: key.uid.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key() -> ClaimKey {
        ClaimKey::new("u1", "ml", "rails").unwrap()
    }

    fn result(request: &str, driver: &str, pool: &str, device: &str) -> Value {
        json!({"request": request, "driver": driver, "pool": pool, "device": device})
    }

    fn claim(results: &[Value]) -> Value {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "rails", "namespace": "ml", "uid": "u1", "resourceVersion": "5"},
            "status": {"allocation": {"devices": {"results": results, "config": []}, "nodeSelector": {}}, "reservedFor": []}
        })
    }

    #[test]
    fn devices_of_others_are_left_to_them() {
        let answer = claim(&[
            result("gpu", "gpu.example.com", "n0", "gpu-0"),
            result("rails", DRIVER, "n0", "nic-a"),
            result("rails/fast", DRIVER, "n0", "nic-b"),
            result("rails/slow", DRIVER, "n0", "nic-b"),
        ]);
        let found = allocated(&answer, &key(), "n0").unwrap();
        let names: Vec<&str> = found.iter().map(|one| one.device.as_str()).collect();
        assert_eq!(names, ["nic-a", "nic-b"]);
        assert_eq!(found[1].requests, ["rails"], "kubelet compares it with what the container names");
        assert!(!found[0].shared);
    }

    #[test]
    fn every_allocation_that_cannot_be_prepared_says_why() {
        let error = |answer: &Value| allocated(answer, &key(), "n0").unwrap_err().to_string();
        let mut other = claim(&[result("rails", DRIVER, "n0", "nic-a")]);
        other["metadata"]["uid"] = "u2".into();
        assert!(error(&other).contains("is gone"));
        assert!(error(&claim(&[])).contains("no device of"));
        assert!(error(&claim(&[result("r", "gpu.example.com", "n0", "gpu-0")])).contains("no device of"));
        let elsewhere = error(&claim(&[result("r", DRIVER, "n7", "nic-a")]));
        assert!(elsewhere.contains("pool n7") && elsewhere.contains("pool n0"), "{elsewhere}");
        let mut parameters = claim(&[result("rails", DRIVER, "n0", "nic-a")]);
        parameters["status"]["allocation"]["devices"]["config"] =
            json!([{"source": "FromClaim", "requests": [], "opaque": {"driver": DRIVER, "parameters": {}}}]);
        assert!(error(&parameters).contains("opaque parameters"));
        assert!(error(&json!({"metadata": {}})).contains("cannot be read"));
        assert!(error(&json!({"metadata": {"uid": "u1"}})).contains("no device of"));
        let many: Vec<Value> = (0..33).map(|k| result("r", DRIVER, "n0", &format!("nic-{k}"))).collect();
        assert!(error(&claim(&many)).contains("more than 32"));
    }

    #[test]
    fn a_device_that_is_allocated_twice_is_one_device_and_shared_only_for_administrators() {
        let mut admin = result("watch", DRIVER, "n0", "nic-a");
        admin["adminAccess"] = true.into();
        let both = allocated(&claim(&[admin.clone(), result("rails", DRIVER, "n0", "nic-a")]), &key(), "n0")
            .unwrap();
        assert_eq!((both.len(), both[0].shared), (1, false));
        assert_eq!(both[0].requests, ["watch", "rails"]);
        assert!(allocated(&claim(&[admin]), &key(), "n0").unwrap()[0].shared);
    }
}
