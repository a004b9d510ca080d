//! Claims that nobody has any more are removed: Kubernetes does not have them, and kubelet does not list them either. Kubelet's list goes with its
//! folder, and a server that was set up anew would else keep NICs for claims of its past. Kubernetes alone is not enough: it forgets a pod that is
//! deleted by force while the container still runs.

use std::{sync::Arc, time::Duration};

use crate::{checkpoint::Checkpoint, driver::Driver, error::ClaimError, kube::KubeError};

/// Compares claims with those that others have.
#[derive(Debug)]
pub struct Sweep {
    driver: Driver,
    kubelet: Arc<Checkpoint>,
    /// Whether it is logged already that kubelet's list cannot be read.
    logged: bool,
}

impl Sweep {
    /// Of this driver's claims.
    #[must_use]
    pub fn new(driver: Driver, kubelet: Checkpoint) -> Self {
        Self { driver, kubelet: Arc::new(kubelet), logged: false }
    }

    /// Removes, every so often, what is left of claims that are gone. Ends never.
    pub async fn keep(mut self, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let removed = self.once().await;
            if removed > 0 {
                tracing::warn!(
                    removed,
                    "claims that neither Kubernetes nor kubelet has any more were still prepared, and were removed"
                );
            }
        }
    }

    /// Removes what is left of claims that are gone; says how many. What cannot be found out now is left for the next time.
    pub async fn once(&mut self) -> usize {
        let mut removed = 0;
        for key in self.driver.keys() {
            match self.driver.is_gone(&key).await {
                Ok(false) => continue,
                Ok(true) => {}
                Err(error @ ClaimError::Api { source: KubeError::Away { .. }, .. }) => {
                    tracing::debug!(%error, "claims cannot be compared with Kubernetes now");
                    break;
                }
                Err(error) => {
                    tracing::warn!(uid = key.uid, %error, "this claim cannot be compared with Kubernetes; it stays");
                    continue;
                }
            }
            if self.kubelet_has(&key.uid).await {
                continue;
            }
            match self.driver.unprepare(&key.uid).await {
                Ok(()) => removed += 1,
                Err(error) => {
                    tracing::error!(uid = key.uid, %error, "a claim that is gone cannot be removed");
                }
            }
        }
        removed
    }

    /// Whether kubelet lists the claim, or may: its list is read after Kubernetes was asked, so that what is not in it does not come back.
    async fn kubelet_has(&mut self, uid: &str) -> bool {
        let kubelet = Arc::clone(&self.kubelet);
        let Ok(listed) = tokio::task::spawn_blocking(move || kubelet.claims()).await else { return true };
        match listed {
            Ok(listed) => {
                self.logged = false;
                listed.contains(uid)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.logged, true) {
                    tracing::error!(
                        uid, %error,
                        "this claim is gone from Kubernetes and keeps its devices: whether kubelet still runs its container cannot be found out"
                    );
                }
                true
            }
        }
    }
}
