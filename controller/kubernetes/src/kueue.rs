//! What is done for Kueue while this operator acts: a task of its own, begun again where it ends before its time.

use std::{sync::Arc, time::Duration};

use controller_kubernetes_kueue::{Connect, Settings, run};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::reconcile::Shared;

/// Pause before it is begun again.
const AGAIN: Duration = Duration::from_secs(5);

/// Serves Kueue until `stop`.
pub async fn keep(shared: Arc<Shared>, settings: Settings, stop: CancellationToken) {
    let railyard = Arc::clone(&shared.railyard);
    let connect: Connect = Arc::new(move || railyard.client());
    loop {
        match run(shared.client.clone(), Arc::clone(&connect), settings.clone(), stop.clone()).await {
            Ok(()) => return,
            Err(error) => tracing::error!(%error, "Kueue is not served; it is begun again"),
        }
        tokio::select! {
            () = sleep(AGAIN) => {}
            () = stop.cancelled() => return,
        }
    }
}
