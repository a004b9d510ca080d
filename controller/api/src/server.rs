//! All services on one router: gRPC, REST, health and reflection, with the door before every one of them.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
};

use axum::{Router, middleware::from_fn_with_state};
use controller_leader::Handle;
use proto_rpc::{Authority, MAX_FABRIC_BYTES, MAX_MESSAGE_BYTES, router};
use proto_wire::{
    FILE_DESCRIPTOR_SET,
    v1::{
        agent_service_server::AgentServiceServer, audit_service_server::AuditServiceServer,
        config_service_server::ConfigServiceServer, deleted_service_server::DeletedServiceServer,
        document_service_server::DocumentServiceServer, enroll_service_server::EnrollServiceServer,
        fabric_service_server::FabricServiceServer, health_service_server::HealthServiceServer,
        job_service_server::JobServiceServer, license_service_server::LicenseServiceServer,
        node_service_server::NodeServiceServer, qos_service_server::QosServiceServer,
        queue_service_server::QueueServiceServer, rail_service_server::RailServiceServer,
        reservation_service_server::ReservationServiceServer, schedule_service_server::ScheduleServiceServer,
        secret_service_server::SecretServiceServer, service_class_service_server::ServiceClassServiceServer,
        step_service_server::StepServiceServer, switch_agent_service_server::SwitchAgentServiceServer,
        switch_service_server::SwitchServiceServer, tenant_service_server::TenantServiceServer,
        usage_service_server::UsageServiceServer, webhook_service_server::WebhookServiceServer,
    },
};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    accounting::Usage,
    agent::Agents,
    audit::Audit,
    context::Context,
    deleted::Undeletes,
    documents::Documents,
    enroll::Enroll,
    fabric::Fabrics,
    guard::{ApiMetrics, Guard, at_the_door},
    health::Health,
    job::Jobs,
    license::Licenses,
    node::Nodes,
    qos::Qos,
    queue::Queues,
    rail::Rails,
    reservation::Reservations,
    rest,
    schedule::Schedules,
    service_class::ServiceClasses,
    step::Steps,
    switch::{Switches, agent::SwitchAgents, board::FILES_MAX, ports::SwitchReports},
    tenant::Tenants,
    values::SecretsAndConfigs,
    webhook::Webhooks,
};

/// The reflection service cannot read the schema that this program carries: a defect of the build.
#[derive(Debug, thiserror::Error)]
#[error("the schema cannot be served by reflection: {0}")]
pub struct ReflectionError(#[from] tonic_reflection::server::Error);

/// Everything that is served, and the switch of what health says.
pub struct Api {
    /// Give it to `proto_rpc::Server::serve`.
    pub router: Router,
    health: HealthReporter,
}

impl Api {
    /// Builds the services over the loop.
    ///
    /// # Errors
    /// [`ReflectionError`] if the schema cannot be served by reflection.
    pub async fn new(context: Context, metrics: &ApiMetrics) -> Result<Self, ReflectionError> {
        let guard = context.guard.clone();
        let (health, health_service) = tonic_health::server::health_reporter();
        let mut routes = Routes::builder();
        let known = SwitchReports::default();
        metrics.switches.follow(&known.board);
        macro_rules! serve {
            ($server:ident, $handlers:expr) => {
                serve!($server, $handlers, MAX_MESSAGE_BYTES)
            };
            ($server:ident, $handlers:expr, $largest:expr) => {{
                let handlers = $handlers;
                routes.add_service($server::new(handlers).max_decoding_message_size($largest));
            }};
        }
        serve!(FabricServiceServer, Fabrics::new(context.clone()), MAX_FABRIC_BYTES);
        serve!(NodeServiceServer, Nodes::new(context.clone()));
        serve!(QosServiceServer, Qos::new(context.clone()));
        serve!(RailServiceServer, Rails::new(context.clone()));
        serve!(QueueServiceServer, Queues::new(context.clone()));
        serve!(ReservationServiceServer, Reservations::new(context.clone()));
        serve!(ScheduleServiceServer, Schedules::new(context.clone()));
        serve!(ServiceClassServiceServer, ServiceClasses::new(context.clone()));
        serve!(LicenseServiceServer, Licenses::new(context.clone()));
        serve!(SwitchServiceServer, Switches::new(context.clone(), known.clone()));
        serve!(SecretServiceServer, SecretsAndConfigs::new(context.clone()));
        serve!(ConfigServiceServer, SecretsAndConfigs::new(context.clone()));
        serve!(WebhookServiceServer, Webhooks::new(context.clone()));
        serve!(TenantServiceServer, Tenants::new(context.clone()));
        serve!(JobServiceServer, Jobs::new(context.clone()));
        serve!(StepServiceServer, Steps::new(context.clone()));
        serve!(UsageServiceServer, Usage::new(context.clone()));
        serve!(DeletedServiceServer, Undeletes::new(context.clone()));
        serve!(DocumentServiceServer, Documents::new(context.clone()), MAX_FABRIC_BYTES);
        serve!(AuditServiceServer, Audit::new(context.clone()));
        serve!(HealthServiceServer, Health::new(context.clone(), known.clone()));
        serve!(EnrollServiceServer, Enroll::new(context.clone()));
        serve!(
            SwitchAgentServiceServer,
            SwitchAgents::new(context.clone(), known),
            FILES_MAX + MAX_MESSAGE_BYTES
        );
        serve!(AgentServiceServer, Agents::new(context.clone()));
        routes.add_service(health_service.max_decoding_message_size(MAX_MESSAGE_BYTES));
        let grpc = routes.routes().into_axum_router().reset_fallback().merge(reflection()?);
        let grpc = grpc.layer(from_fn_with_state(guard, at_the_door));
        let rest = rest::router(grpc.clone(), context, &metrics.feed);
        let api = Self { router: router::merge(Routes::from(grpc), rest, &metrics.layers), health };
        api.set_serving(true).await;
        Ok(api)
    }

    /// What gRPC health says of the server and of each of its services.
    pub async fn set_serving(&self, serving: bool) {
        let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.health.set_service_status("", status).await;
        for service in proto_wire::descriptor_pool().services() {
            self.health.set_service_status(service.full_name(), status).await;
        }
    }
}

/// The schema, served by reflection. Made once in a process, however often it leads: to read all of it takes a while.
fn reflection() -> Result<Router, ReflectionError> {
    static MADE: OnceLock<Router> = OnceLock::new();
    if let Some(made) = MADE.get() {
        return Ok(made.clone());
    }
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = builder().build_v1()?.max_decoding_message_size(MAX_MESSAGE_BYTES);
    let v1alpha = builder().build_v1alpha()?.max_decoding_message_size(MAX_MESSAGE_BYTES);
    let made = Routes::new(v1).add_service(v1alpha).into_axum_router().reset_fallback();
    Ok(MADE.get_or_init(|| made).clone())
}

/// Routes that are being made, or why they cannot be.
pub type MadeRoutes =
    Pin<Box<dyn Future<Output = Result<Router, Box<dyn std::error::Error + Send + Sync>>> + Send>>;

/// Makes the routes over a loop, and over the next one when this process leads again. What is cancelled closes their long answers.
pub fn routes(
    ca: Arc<Authority>,
    metrics: ApiMetrics,
    version: &'static str,
) -> impl Fn(Handle, CancellationToken) -> MadeRoutes + Send + Sync {
    move |handle, ending| {
        let (ca, metrics) = (Arc::clone(&ca), metrics.clone());
        Box::pin(async move {
            let guard = guard(&handle, ca.cluster(), &metrics);
            Ok(Api::new(Context { handle, ca, guard, version, ending }, &metrics).await?.router)
        })
    }
}

/// The door of a router, with its metrics.
#[must_use]
pub fn guard(handle: &Handle, cluster: &str, metrics: &ApiMetrics) -> Guard {
    Guard::new(handle.clone(), cluster, metrics)
}
