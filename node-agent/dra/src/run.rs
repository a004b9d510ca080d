//! The process: what it begins with, and what it ends with.

use std::{env, io, io::Write as _, sync::Arc, time::Duration};

use node_agent_host::{FileHost, RealHost};
use node_agent_qos::DataClass;
use proto_rpc::{
    CredentialFiles, Credentials, Endpoint, otlp,
    telemetry::{self, TelemetryOptions},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Notify, watch},
    task::JoinSet,
};

use crate::{
    arguments::{RunArguments, ServerArguments},
    checkpoint::Checkpoint,
    devices::{RailDevice, devices},
    driver::{Driver, Parts},
    error::DriverError,
    files::DeviceFiles,
    key::is_name,
    kube::Kube,
    plugin::{self, Registrar},
    publish::Publisher,
    slice::{self, Change, NodeRef, UnfitRails},
    sockets::{KubeletFolders, Socket},
    source::{ControllerSource, Source},
    store::Store,
    sweep::Sweep,
};

/// How often claims are compared with those that Kubernetes has.
const SWEPT: Duration = Duration::from_secs(300);

/// Serves until SIGTERM or SIGINT; what is prepared stays.
///
/// # Errors
/// Why it could not begin.
pub fn run(arguments: &RunArguments) -> Result<(), DriverError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        let _telemetry = telemetry::init(&TelemetryOptions {
            service: "rail-dra-driver",
            version: env!("CARGO_PKG_VERSION"),
            level: arguments.log.clone(),
            format: arguments.log_format,
            collector: otlp::from_env()?,
        })?;
        serve(arguments).await
    });
    // Steps on the disk are brought to their end.
    drop(runtime);
    done
}

async fn serve(arguments: &RunArguments) -> Result<(), DriverError> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let server = &arguments.server;
    let source = source(server)?;
    let kube = kube(arguments)?;
    let store = Arc::new(Store::open(&arguments.state, &arguments.cdi)?);
    let known = store.devices().unwrap_or_else(|error| {
        tracing::warn!(%error, "the rails of the last start are not known");
        None
    });
    let prepare_from = watch::Sender::new(Arc::new(known.unwrap_or_default()));
    let published = watch::Sender::new(None);
    let driver = Driver::start(Parts {
        node: node_of(server)?,
        pool: server.kubernetes_node.clone(),
        store: Arc::clone(&store),
        kube: kube.clone(),
        devices: prepare_from.subscribe(),
        files: DeviceFiles::below(&arguments.root),
        data_class: DataClass::default(),
    })?;
    let folders = KubeletFolders { plugins: arguments.plugins.clone(), registry: arguments.registry.clone() };
    let registered = Arc::new(Notify::new());
    let registrar = Registrar::new(folders.plugin(), Arc::clone(&registered));
    // Kubelet calls as soon as it sees the second one.
    let claims_socket = Socket::bind(&folders.plugin())?;
    let registration = Socket::bind(&folders.registration())?;
    let stop = watch::Sender::new(false);
    let mut tasks = JoinSet::new();
    let served = driver.clone();
    tasks.spawn(claims_socket.serve(move || plugin::routes(&served), stop.subscribe()));
    tasks.spawn(registration.serve(move || registrar.routes(), stop.subscribe()));
    let swept = Sweep::new(driver, Checkpoint::at(&arguments.kubelet_state));
    let publisher = Publisher::new(kube, server.kubernetes_node.clone());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = publisher.keep(published.subscribe(), &registered) => {}
        () = watch_rails(source, store, arguments.every, &prepare_from, &published) => {}
        () = swept.keep(SWEPT) => {}
    }
    stop.send_replace(true);
    tasks.join_all().await;
    Ok(())
}

/// Looks how the rails are, for ever.
async fn watch_rails(
    mut source: Source,
    store: Arc<Store>,
    every: Duration,
    prepare_from: &watch::Sender<Arc<Vec<RailDevice>>>,
    published: &watch::Sender<Option<Arc<Vec<RailDevice>>>>,
) {
    let mut failures = 0_u32;
    loop {
        match source.view().await {
            Ok(view) => {
                failures = 0;
                let found = Arc::new(devices(&view));
                if *prepare_from.borrow() != found {
                    prepare_from.send_replace(Arc::clone(&found));
                    let (store, kept) = (Arc::clone(&store), Arc::clone(&found));
                    let saved = tokio::task::spawn_blocking(move || store.save_devices(&kept)).await;
                    if let Ok(Err(error)) = saved {
                        tracing::warn!(%error, "the rails are not kept for the next start");
                    }
                }
                published.send_if_modified(|before| {
                    let differs = before.as_ref() != Some(&found);
                    *before = Some(found);
                    differs
                });
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                if failures.is_power_of_two() {
                    tracing::warn!(%error, failures, "how the rails are is not known; what was known stands");
                }
            }
        }
        tokio::time::sleep(every).await;
    }
}

/// Prints the slice.
///
/// # Errors
/// What there is cannot be found out, or standard output not written.
pub fn print(arguments: &ServerArguments) -> Result<(), DriverError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let view = runtime.block_on(async { source(arguments)?.view().await.map_err(DriverError::from) })?;
    let node = NodeRef { name: arguments.kubernetes_node.clone(), uid: String::new() };
    let change = slice::change(None, &node, &devices(&view), UnfitRails::Tainted);
    let Change::Create(mut object) = change.map_err(|error| DriverError::Usage(error.to_string()))? else {
        return Ok(());
    };
    if let Some(metadata) = object["metadata"].as_object_mut() {
        // Kubernetes knows the Node's UID, and is not asked.
        metadata.remove("ownerReferences");
    }
    writeln!(io::stdout(), "{object:#}")?;
    Ok(())
}

fn node_of(arguments: &ServerArguments) -> Result<proto_model::NodeName, DriverError> {
    let name = &arguments.kubernetes_node;
    if !is_name(name) {
        return Err(DriverError::Usage(format!("--kubernetes-node {name:?} is no name of a Node")));
    }
    arguments.node().map_err(|error| DriverError::Usage(format!("name this server with --node: {error}")))
}

fn source(arguments: &ServerArguments) -> Result<Source, DriverError> {
    let node = node_of(arguments)?;
    if arguments.controller.is_empty() {
        return Ok(Source::Host(match &arguments.inventory {
            Some(path) => Arc::new(FileHost::new(path)),
            None => Arc::new(RealHost::new(arguments.rails.clone())),
        }));
    }
    let files = CredentialFiles {
        ca: arguments.ca.clone(),
        token: arguments.token_file.clone(),
        ..CredentialFiles::default()
    };
    let source = ControllerSource::new(node, arguments.controller.clone(), files)?;
    Ok(Source::Controller(Box::new(source)))
}

fn kube(arguments: &RunArguments) -> Result<Kube, DriverError> {
    let endpoint = match &arguments.api_server {
        Some(endpoint) => endpoint.clone(),
        None => in_cluster()?,
    };
    let files = CredentialFiles { ca: Some(arguments.api_ca.clone()), ..CredentialFiles::default() };
    let credentials = Credentials::load(&files)?;
    let token = &arguments.api_token;
    if !token.exists() {
        let text =
            format!("{} is not there: name the service account's token with --api-token", token.display());
        return Err(DriverError::Usage(text));
    }
    Ok(Kube::new(&endpoint, &credentials, token.clone())?)
}

/// What kubelet gives every pod.
fn in_cluster() -> Result<Endpoint, DriverError> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"));
    let (Some(host), Some(port)) = (host, port) else {
        let text = "this is no pod of Kubernetes (KUBERNETES_SERVICE_HOST is not set): name the API server with --api-server";
        return Err(DriverError::Usage(text.to_owned()));
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let text = format!("https://{host}:{port}");
    text.parse().map_err(|error: proto_rpc::endpoint::EndpointError| DriverError::Usage(error.to_string()))
}
