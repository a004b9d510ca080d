//! Keeps the server's ResourceSlice as its rails are: reads what is there, writes the difference, and goes on for ever, with longer pauses while the
//! API server is away.

use std::{sync::Arc, time::Duration};

use proto_rpc::{Jitter, RetryPolicy};
use serde_json::Value;
use thiserror::Error;
use tokio::sync::{Notify, watch};

use crate::{
    devices::{Fitness, RailDevice},
    kube::{Kube, KubeError, Writing},
    slice::{self, Change, NodeRef, SliceError, UnfitRails},
};

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
/// What others may have changed is found in this time: kubelet removes all slices of its server when it starts, and again until it succeeds.
const AGAIN: Duration = Duration::from_secs(10);
/// Pauses while it cannot be published.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why the slice is not as it should be.
#[derive(Debug, Error)]
pub enum PublishError {
    /// The API server is away, or refuses.
    #[error(transparent)]
    Api(#[from] KubeError),
    /// What is there is not ours, or there is too much.
    #[error(transparent)]
    Slice(#[from] SliceError),
    /// There is no Node of this name.
    #[error(
        "there is no Node '{0}' in Kubernetes: name it with --kubernetes-node (spec.nodeName of the driver's pod)"
    )]
    NoNode(String),
}

/// Publishes the rails of one node.
#[derive(Debug)]
pub struct Publisher {
    kube: Kube,
    node: String,
    /// Whether the API server keeps taints of devices; `None`: not needed so far.
    taints: Option<bool>,
}

impl Publisher {
    /// For the Node of this name.
    #[must_use]
    pub fn new(kube: Kube, node: String) -> Self {
        Self { kube, node, taints: None }
    }

    /// Brings the slice in step with the devices; says whether anything was written.
    ///
    /// # Errors
    /// [`PublishError`]; it can be tried again.
    pub async fn publish(&mut self, devices: &[RailDevice]) -> Result<bool, PublishError> {
        let node = self.kube.get(&format!("/api/v1/nodes/{}", self.node)).await?;
        let node = node.ok_or_else(|| PublishError::NoNode(self.node.clone()))?;
        let uid = node["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let node = NodeRef { name: self.node.clone(), uid };
        let found = self.kube.get(&format!("{SLICES}/{}", slice::name(&self.node))).await?;
        let unfit = self.unfit(&node, devices).await?;
        let change = slice::change(found.as_ref(), &node, devices, unfit)?;
        let Some(stored) = self.write(&change).await? else { return Ok(false) };
        if unfit == UnfitRails::Tainted && has_unfit(devices) && !slice::keeps_taints(&stored) {
            // It said otherwise when it was asked: another API server of the cluster answered.
            self.taints = Some(false);
            let again = slice::change(Some(&stored), &node, devices, UnfitRails::LeftOut)?;
            self.write(&again).await?;
        }
        Ok(true)
    }

    /// What becomes of rails that no new job should use. An API server without the feature drops taints in silence, and pods would be given the rails
    /// all the same: so it is asked what it would store. Taints that it has stored while it had the feature it keeps without it, and its scheduler does
    /// not heed them: so it is asked about a slice that is not there.
    async fn unfit(&mut self, node: &NodeRef, devices: &[RailDevice]) -> Result<UnfitRails, PublishError> {
        if self.taints.is_none()
            && let Some(trial) = slice::trial(node, devices)
        {
            let kept = slice::keeps_taints(&self.kube.create(SLICES, &trial, Writing::Tried).await?);
            if !kept {
                tracing::warn!(
                    "this cluster does not keep taints of devices (feature gate DRADeviceTaints): unfit rails are left out instead"
                );
            }
            self.taints = Some(kept);
        }
        Ok(if self.taints == Some(false) { UnfitRails::LeftOut } else { UnfitRails::Tainted })
    }

    async fn write(&self, change: &Change) -> Result<Option<Value>, KubeError> {
        match change {
            Change::None => Ok(None),
            Change::Create(object) => self.kube.create(SLICES, object, Writing::Done).await.map(Some),
            Change::Replace(object) => {
                let path = format!("{SLICES}/{}", slice::name(&self.node));
                self.kube.replace(&path, object, Writing::Done).await.map(Some)
            }
        }
    }

    /// Publishes, for ever: at once when the rails change or kubelet has registered the driver, and every so often for what others may have changed.
    pub async fn keep(
        mut self,
        mut devices: watch::Receiver<Option<Arc<Vec<RailDevice>>>>,
        registered: &Notify,
    ) {
        let policy = RetryPolicy { longest: LONGEST_PAUSE, ..RetryPolicy::default() };
        let (mut jitter, mut failures) = (Jitter::from_os(), 0_u32);
        loop {
            // Before it is known what there is, what was published before stands.
            let known = devices.borrow_and_update().clone();
            let Some(known) = known else {
                if devices.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let pause = match self.publish(&known).await {
                Ok(written) => {
                    if failures > 0 {
                        tracing::info!(failures, "the ResourceSlice can be published again");
                    }
                    if written {
                        tracing::info!(devices = known.len(), "ResourceSlice written");
                    }
                    failures = 0;
                    AGAIN
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    if failures.is_power_of_two() {
                        tracing::warn!(%error, failures, "the ResourceSlice is not as it should be; trying again");
                    }
                    let ceiling = policy.backoff_ceiling(failures);
                    ceiling / 2 + jitter.up_to(ceiling / 2)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = registered.notified() => {}
                changed = devices.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

fn has_unfit(devices: &[RailDevice]) -> bool {
    devices.iter().any(|device| matches!(device.fitness, Fitness::Unfit(_)))
}
