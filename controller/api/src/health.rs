//! HealthService: the cluster at a glance.

use std::sync::Arc;

use controller_core::State;
use proto_model::SwitchConfig;
use proto_wire::{
    convert::time_to_wire,
    v1::{self, health_service_server::HealthService},
};
use tokio::task::spawn_blocking;
use tonic::{Request, Response, Status};

use crate::{
    context::{Context, unexpected},
    switch::{self, board::Inputs, ports::SwitchReports},
    views,
};

/// The handler of `HealthService`.
#[derive(Clone)]
pub struct Health {
    context: Context,
    known: SwitchReports,
}

impl Health {
    /// A handler over the loop, and over what is known of switches.
    #[must_use]
    pub(crate) fn new(context: Context, known: SwitchReports) -> Self {
        Self { context, known }
    }
}

#[tonic::async_trait]
impl HealthService for Health {
    async fn get_health(
        &self,
        _: Request<v1::GetHealthRequest>,
    ) -> Result<Response<v1::ClusterHealth>, Status> {
        let ask = |state: &State, now| {
            let observed = |switch: &Arc<SwitchConfig>| state.switch_observed(&switch.name, now);
            let observed: Vec<_> = state.switches().map(observed).collect();
            (views::health(state), Inputs::of(state), observed, state.stalled_rails(), now)
        };
        let (mut health, inputs, observed, stalled, now) = self.context.query(ask).await?;
        if !observed.is_empty() {
            let known = self.known.clone();
            let usages = self.context.handle.sessions().usages();
            let work = move || {
                let shown = known.ports.shown(&inputs, now, &switch::ports::nics(stalled, &usages, now));
                switch::health::rows(&inputs, &observed, &shown)
            };
            let (rows, left_out) = spawn_blocking(work).await.map_err(|_| unexpected())?;
            (health.switches, health.switches_left_out) = (rows, left_out);
        }
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
