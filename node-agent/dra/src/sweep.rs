//! Claims that kubelet has forgotten: those that Kubernetes does not have any more are removed. Kubelet's own list goes with its folder, and a
//! server that was set up anew would else keep NICs for claims of its past.

use std::time::Duration;

use crate::driver::Driver;

/// Removes, every so often, what is left of claims that are gone. Ends never.
pub async fn keep(driver: Driver, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let removed = once(&driver).await;
        if removed > 0 {
            tracing::warn!(
                removed,
                "claims that Kubernetes does not have any more were still prepared, and were removed"
            );
        }
    }
}

/// Removes what is left of claims that are gone; says how many. What cannot be found out now is left for the next time.
pub async fn once(driver: &Driver) -> usize {
    let mut removed = 0;
    for key in driver.keys() {
        match driver.is_gone(&key).await {
            Ok(false) => {}
            Ok(true) => match driver.unprepare(&key.uid).await {
                Ok(()) => removed += 1,
                Err(error) => {
                    tracing::error!(uid = key.uid, %error, "a claim that is gone cannot be removed")
                }
            },
            Err(error) => {
                tracing::debug!(%error, "claims cannot be compared with Kubernetes now");
                break;
            }
        }
    }
    removed
}
