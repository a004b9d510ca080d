//! HealthService: the cluster at a glance.

use proto_wire::{
    convert::time_to_wire,
    v1::{self, health_service_server::HealthService},
};
use tonic::{Request, Response, Status};

use crate::{context::Context, views};

/// The handler of `HealthService`.
#[derive(Clone)]
pub struct Health {
    context: Context,
}

impl Health {
    /// A handler over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }
}

#[tonic::async_trait]
impl HealthService for Health {
    async fn get_health(
        &self,
        _: Request<v1::GetHealthRequest>,
    ) -> Result<Response<v1::ClusterHealth>, Status> {
        let mut health = self.context.query(|state, _| views::health(state)).await?;
        let store = self.context.handle.store_health();
        health.version = self.context.version.to_owned();
        health.epoch = self.context.handle.epoch();
        health.leader = self.context.handle.holder().to_owned();
        let newest = self.context.handle.store().status().await;
        health.store_revision = newest.map_or(store.revision, |status| status.revision);
        health.store_writable = store.writable;
        health.time = Some(time_to_wire(self.context.handle.now()));
        if let Some(cause) = store.cause {
            let message = format!("{cause}; submits are refused, running jobs go on");
            health.reasons.push(v1::Reason {
                code: "StoreUnwritable".to_owned(),
                message,
                ..v1::Reason::default()
            });
        }
        Ok(Response::new(health))
    }
}
