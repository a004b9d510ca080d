//! The claims that kubelet has prepared, as it keeps them over its own starts: the file `dra_manager_state` in its folder.
//!
//! Kubelets of Kubernetes 1.32 and later write `{"Data": "<JSON>", "Checksum": n}`, and within `Data` an object with `Entries`, of which each has a
//! `ClaimUID` (pkg/kubelet/cm/dra/state of Kubernetes). A kubelet that runs always has the file: one that is not there says nothing.

use std::{collections::BTreeSet, fs::File, io, io::Read as _, path::PathBuf};

use serde::Deserialize;
use thiserror::Error;

/// The longest file that is read, in bytes: a claim takes some 1 KiB of it.
const LENGTH_MAX: u64 = 16 * 1024 * 1024;
/// The version that is understood.
const VERSION: &str = "checkpoint.dra.kubelet.k8s.io/v1";

/// Why it is not known which claims kubelet has.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The file is not there, or cannot be read.
    #[error("kubelet's list of claims, {} (--kubelet-state): {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system answered.
        source: io::Error,
    },
    /// Another form.
    #[error("kubelet's list of claims, {} (--kubelet-state), is none that this release understands: {message}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Outer {
    data: String,
}

#[derive(Deserialize)]
struct Inner {
    #[serde(rename = "apiVersion")]
    version: String,
    /// Kubelet writes null for none; a form without the field is another.
    #[serde(rename = "Entries")]
    entries: serde_json::Value,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "ClaimUID")]
    uid: String,
}

/// Kubelet's file.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    path: PathBuf,
}

impl Checkpoint {
    /// At this path.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// UIDs of the claims that kubelet has.
    ///
    /// # Errors
    /// [`CheckpointError`]; then it may have any.
    pub fn claims(&self) -> Result<BTreeSet<String>, CheckpointError> {
        let file = |source| CheckpointError::File { path: self.path.clone(), source };
        let mut text = Vec::new();
        let opened = File::open(&self.path).map_err(file)?;
        opened.take(LENGTH_MAX + 1).read_to_end(&mut text).map_err(file)?;
        let form = |message| CheckpointError::Form { path: self.path.clone(), message };
        if text.len() as u64 > LENGTH_MAX {
            return Err(form(format!("it is longer than {LENGTH_MAX} bytes")));
        }
        listed(&text).map_err(form)
    }
}

fn listed(text: &[u8]) -> Result<BTreeSet<String>, String> {
    let outer: Outer = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let inner: Inner = serde_json::from_str(&outer.data).map_err(|error| format!("Data: {error}"))?;
    if inner.version != VERSION {
        return Err(format!("its version is {:?}, not {VERSION:?}", inner.version));
    }
    let entries = Option::<Vec<Entry>>::deserialize(inner.entries);
    let entries = entries.map_err(|error| format!("Entries: {error}"))?.unwrap_or_default();
    Ok(entries.into_iter().map(|entry| entry.uid).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(data: &serde_json::Value) -> Vec<u8> {
        json!({"Data": data.to_string(), "Checksum": 1_597_924_435_u32}).to_string().into_bytes()
    }

    fn data(entries: serde_json::Value) -> serde_json::Value {
        json!({"kind": "DRACheckpoint", "apiVersion": VERSION, "Entries": entries})
    }

    #[test]
    fn the_claims_of_a_list_are_found_and_an_empty_one_has_none() {
        let entry = |uid: &str| {
            json!({"ClaimUID": uid, "ClaimName": "c", "Namespace": "ml", "PodUIDs": {"p": {}},
                "DriverState": {"rail.railyard.io": {"Devices": null}}})
        };
        let two = listed(&file(&data(json!([entry("u1"), entry("u2")])))).unwrap();
        assert_eq!(two, ["u1", "u2"].map(str::to_owned).into());
        for none in [json!(null), json!([])] {
            assert_eq!(listed(&file(&data(none))), Ok(BTreeSet::new()));
        }
    }

    #[test]
    fn what_is_not_understood_is_not_an_empty_list() {
        let old = json!({"version": "v1", "entries": [], "checksum": 1}).to_string().into_bytes();
        let mut newer = data(json!([]));
        newer["apiVersion"] = "checkpoint.dra.kubelet.k8s.io/v2".into();
        let mut without = data(json!([]));
        without.as_object_mut().unwrap().remove("Entries");
        let nameless = file(&data(json!([{"ClaimName": "c"}])));
        for text in [old, file(&newer), file(&without), nameless, b"{".to_vec(), Vec::new()] {
            assert!(listed(&text).is_err(), "{}", String::from_utf8_lossy(&text));
        }
        let error = Checkpoint::at("/nowhere/dra_manager_state").claims().unwrap_err().to_string();
        assert!(error.contains("/nowhere/dra_manager_state") && error.contains("--kubelet-state"), "{error}");
    }
}
