//! The process: what it begins with, who of several acts, and what it ends with.

use std::{
    env,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use proto_rpc::{
    CredentialFiles, Endpoint, Metrics, otlp,
    probes::Check,
    telemetry::{self, TelemetryOptions},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    arguments::RunArguments,
    connect,
    error::OperatorError,
    kind::Kind,
    kueue,
    leader::Candidate,
    lease::ENDING,
    metrics::OperatorMetrics,
    node_sync,
    railyard::Railyard,
    reconcile::{self, Shared},
};

/// Acts until SIGTERM or SIGINT.
///
/// # Errors
/// Why it could not begin.
pub fn run(arguments: &RunArguments) -> Result<(), OperatorError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let collector = otlp::from_env()?;
        let _telemetry = telemetry::init(&TelemetryOptions {
            service: "rail-operator",
            version: env!("CARGO_PKG_VERSION"),
            level: arguments.log.clone(),
            format: arguments.log_format,
            collector,
        })?;
        serve(arguments).await
    })
}

async fn serve(arguments: &RunArguments) -> Result<(), OperatorError> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let endpoint = match &arguments.api_server {
        Some(endpoint) => endpoint.clone(),
        None => in_cluster()?,
    };
    let client = connect::client(&endpoint, &arguments.api_ca, &arguments.api_token)?;
    let files = CredentialFiles {
        ca: Some(arguments.ca.clone()),
        certificate: arguments.cert.clone(),
        key: arguments.key.clone(),
        token: arguments.token_file.clone(),
        ..CredentialFiles::default()
    };
    let railyard = Arc::new(Railyard::new(arguments.controller.clone(), files)?);
    let registry = Metrics::new("rail-operator", env!("CARGO_PKG_VERSION"), SystemTime::now());
    let metrics = OperatorMetrics::new(&registry);
    metrics.leads.set([], 0);
    let mut tasks = JoinSet::new();
    let ending = CancellationToken::new();
    let (leads, led) = watch::channel(false);
    tasks.spawn(serve_metrics(&registry, arguments, led.clone(), ending.clone()).await?);
    let shared = Arc::new(Shared { client: client.clone(), railyard, metrics });
    if let Some(settings) = arguments.kueue.settings() {
        settings.check().map_err(|error| OperatorError::Usage(error.to_string()))?;
    }
    let mut candidate = Candidate::new(client, &arguments.lease_namespace, arguments.name.clone());
    let acting = act(shared, arguments, led, ending.clone());
    tokio::pin!(acting);
    let acts = tokio::select! {
        _ = terminate.recv() => true,
        _ = interrupt.recv() => true,
        () = candidate.run(&leads) => true,
        () = &mut acting => false,
    };
    ending.cancel();
    // Writes end before the lease is another's.
    if acts {
        acting.await;
    }
    candidate.give_away().await;
    tasks.shutdown().await;
    Ok(())
}

/// Acts while the lease is held, until the end.
async fn act(
    shared: Arc<Shared>,
    arguments: &RunArguments,
    mut led: watch::Receiver<bool>,
    ending: CancellationToken,
) {
    loop {
        let waits = tokio::select! {
            waits = led.wait_for(|leads| *leads) => waits.is_ok(),
            () = ending.cancelled() => false,
        };
        if !waits {
            return;
        }
        shared.metrics.leads.set([], 1);
        let stop = ending.child_token();
        let mut work = JoinSet::new();
        for kind in Kind::ALL {
            work.spawn(reconcile::keep(Arc::clone(&shared), kind, stop.clone()));
        }
        if !arguments.no_nodes {
            work.spawn(node_sync::keep(Arc::clone(&shared), arguments.every, stop.clone()));
        }
        if let Some(settings) = arguments.kueue.settings() {
            work.spawn(kueue::keep(Arc::clone(&shared), settings, stop.clone()));
        }
        let is_dead = tokio::select! {
            _ = led.wait_for(|leads| !*leads) => {
                tracing::warn!("the lease is lost: another operator may act");
                false
            }
            () = ending.cancelled() => false,
            why = died(&mut work) => {
                tracing::error!(why, "a part of the operator has ended: all are stopped and begun again");
                true
            }
        };
        stop.cancel();
        let done = async { while work.join_next().await.is_some() {} };
        if timeout(ENDING, done).await.is_err() {
            work.shutdown().await;
        }
        shared.metrics.leads.set([], 0);
        if is_dead {
            tokio::select! {
                () = sleep(AGAIN) => {}
                () = ending.cancelled() => {}
            }
        }
    }
}

/// Pause before what has ended by itself is begun again.
const AGAIN: Duration = Duration::from_secs(5);

/// Waits until one of these ends, which none does by itself; says why.
async fn died(work: &mut JoinSet<()>) -> String {
    match work.join_next().await {
        Some(Err(error)) => error.to_string(),
        Some(Ok(())) => "it was not asked to".to_owned(),
        None => std::future::pending().await,
    }
}

/// What serves until the end.
type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Listens; what is given back serves until the end.
async fn serve_metrics(
    registry: &Metrics,
    arguments: &RunArguments,
    led: watch::Receiver<bool>,
    ending: CancellationToken,
) -> Result<Serving, OperatorError> {
    let address = arguments.metrics;
    let listener =
        TcpListener::bind(address).await.map_err(|source| OperatorError::Listen { address, source })?;
    tracing::info!(address = %listener.local_addr()?, "metrics");
    // Who stands by is as ready as who acts.
    let words = move || if *led.borrow() { "it acts" } else { "it stands by" }.to_owned();
    let router = registry.router(Arc::new(move || vec![Check { name: "leader", outcome: Ok(words()) }]));
    Ok(Box::pin(async move {
        let served = axum::serve(listener, router).with_graceful_shutdown(ending.cancelled_owned());
        if let Err(error) = served.await {
            tracing::warn!(%error, "metrics are not served any more");
        }
    }))
}

fn in_cluster() -> Result<Endpoint, OperatorError> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"));
    let (Some(host), Some(port)) = (host, port) else {
        let text = "this is no pod of Kubernetes (KUBERNETES_SERVICE_HOST is not set): name the API server with --api-server";
        return Err(OperatorError::Usage(text.to_owned()));
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let text = format!("https://{host}:{port}");
    text.parse().map_err(|error: proto_rpc::endpoint::EndpointError| OperatorError::Usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_ends_by_itself_is_noticed_beside_one_that_goes_on() {
        for (panics, words) in [(true, "panicked"), (false, "not asked")] {
            let mut work = JoinSet::new();
            work.spawn(std::future::pending());
            work.spawn(async move { assert!(!panics, "a test's own") });
            let why = died(&mut work).await;
            assert!(why.contains(words), "{why}");
            assert_eq!(work.len(), 1);
        }
    }
}
