//! What a controller's process opens, serves and ends, whether it leads alone or among several.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::Router;
use controller_api::ApiMetrics;
use controller_leader::{Handle, Options, Seal};
use controller_store::Lock;
use proto_rpc::{
    Authority, CertificateSlot, Endpoint, Listen, Metrics, Outbound, RefusedPeer, Revocations,
    outbound::BundleError,
    server::{Limits, Server, ServerError, ServerMetrics, ServerTls},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{args::Run, certificates, oidc_args::OidcArgsError, ready, refused, store_args::Kind};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The time that open calls have to end at shutdown.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);

/// How often expired tokens and revocations are removed.
pub(crate) const TOKEN_PURGE: Duration = Duration::from_secs(3600);

/// Sockets that are bound, with the certificate that they show.
pub(crate) struct Opened {
    pub(crate) server: Server,
    pub(crate) plain: Server,
    pub slot: CertificateSlot,
    pub(crate) names: Vec<String>,
    pub(crate) refused: mpsc::Receiver<RefusedPeer>,
}

/// The sockets of a controller and the tasks that serve on them.
pub(crate) struct Served {
    pub(crate) announced: ready::Ready,
    pub servers: JoinHandle<usize>,
    pub scraper: JoinHandle<usize>,
}

impl Served {
    /// Withdraws the announcement that this controller is there.
    pub fn goes(&self) {
        self.announced.withdraw();
    }
}

impl Opened {
    /// Binds every address that the options name, with a certificate for all names.
    ///
    /// # Errors
    /// If the controller's certificate cannot be issued, or an address cannot be listened on.
    pub async fn bind(
        run: &Run,
        ca: &Authority,
        metrics: &Metrics,
        revocations: &Revocations,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut listen = run.listen.clone();
        listen.extend(run.listen_unix.clone().map(Listen::Unix));
        let mut further = run.server_name.clone();
        let anywhere =
            |listen: &Listen| matches!(listen, Listen::Tcp(address) if address.ip().is_unspecified());
        if listen.iter().any(anywhere) && run.store.store == Kind::Etcd {
            // The name under which others reach it, unless `--advertise` gives another.
            further.extend(host().filter(|_| run.advertise.is_empty()));
        }
        further.extend(run.advertise.iter().filter_map(|endpoint| match endpoint {
            Endpoint::Tcp { host, .. } => Some(host.clone()),
            Endpoint::Unix { .. } => None,
        }));
        let names = certificates::names(&listen, &further);
        let slot = certificates::first(ca, &names)?;
        let tls = ServerTls {
            trust: ca.trust().clone(),
            cluster: ca.cluster().to_owned(),
            slot: slot.clone(),
            revocations: revocations.clone(),
        };
        let limits = Limits { drain: DRAIN, ..run.limits.connections() };
        let server_metrics = ServerMetrics::new(metrics);
        let (reports, refused) = mpsc::channel(refused::WAITING);
        let server = Server::bind(&listen, &tls, limits, server_metrics.clone()).await?.reporting(reports);
        let plain = Server::bind_plain(run.metrics, limits, server_metrics).await?;
        Ok(Self { server, plain, slot, names, refused })
    }

    /// The addresses in use.
    ///
    /// # Errors
    /// [`ServerError::Address`] if the system does not tell the address of a socket.
    pub fn addresses(&self) -> Result<Vec<Listen>, ServerError> {
        self.server.addresses()
    }

    /// Serves until `stop.calls`, and says so to who waits for it. Refused certificates are recorded by who leads.
    ///
    /// # Errors
    /// If the system does not tell the address of a socket, or the addresses cannot be written into the data folder.
    pub fn serve(
        self,
        run: &Run,
        ca: &Arc<Authority>,
        router: Router,
        scraped: Router,
        leading: watch::Receiver<Option<Handle>>,
        stop: &Stop,
    ) -> Result<Served, Box<dyn std::error::Error>> {
        let (serving, scraping) = (self.server.addresses()?, self.plain.addresses()?);
        let servers = tokio::spawn(self.server.serve(router, stop.calls.clone()));
        tokio::spawn(refused::record(self.refused, leading));
        let scraper = tokio::spawn(self.plain.serve(scraped, stop.state.clone()));
        tokio::spawn(certificates::renew(Arc::clone(ca), self.names, self.slot, stop.calls.clone()));
        let (data_dir, pin) = (&run.cluster.data_dir, ca.pin().to_string());
        let announced = ready::announce(data_dir, &serving, &scraping, ca.cluster(), &pin)?;
        let addresses: Vec<String> = serving.iter().map(ToString::to_string).collect();
        tracing::info!(addresses = addresses.join(", "), version = VERSION, "serving");
        Ok(Served { announced, servers, scraper })
    }
}

/// What the API counts, and whose tokens it takes besides its own.
///
/// # Errors
/// If the options of the OpenID provider cannot be used.
pub(crate) fn counts(run: &Run, metrics: &Metrics, stop: &Stop) -> Result<ApiMetrics, OidcArgsError> {
    let counts = ApiMetrics::new(metrics, run.limits.fair());
    Ok(match run.oidc.sign_on()? {
        Some(options) => counts.signing_on(options, stop.calls.clone()),
        None => counts,
    })
}

/// How the loop is to behave.
pub(crate) fn options(
    run: &Run,
    ca: &Arc<Authority>,
    stop: CancellationToken,
) -> Result<Options, BundleError> {
    let mut options = Options::new(holder(), stop);
    options.lead_check = run.lead_check;
    options.config.heartbeat_interval = run.heartbeat_interval;
    options.config.heartbeat_limit = run.heartbeat_limit;
    options.config.resize_after = run.resize_after.0;
    options.config.ended_retention = run.ended_jobs_retention.0;
    options.config.usage_retention = run.usage_retention.0;
    options.config.max_usage = run.usage_records as usize;
    options.config.certification = run.certification.into();
    options.config.rail_protection = run.rail_protection.into();
    options.config.isolation = run.isolation.into();
    options.config.backfill = run.backfill;
    options.config.head_start = run.head_start.0.unwrap_or_default();
    options.config.objective = run.objective;
    options.config.long_jobs = run.long_jobs;
    options.config.fair_share = run.fair_share;
    options.config.user_priority = run.user_priority;
    options.config.tenant_admin_priority = run.tenant_admin_priority;
    options.config.name_rest = run.tenant_name_quarantine;
    options.config.undelete_for = run.undelete_for;
    options.config.undelete_max = run.undelete_max as usize;
    options.config.max_audit = run.audit_records;
    options.config.max_audit_bytes = run.audit_mib << 20;
    options.config.max_denials = run.audit_denials;
    options.config.max_denials_bytes = run.audit_denials_mib << 20;
    let allowed = run.webhook_allow.clone();
    let refuses = Arc::new(move |address| proto_model::address::refused(address, &allowed));
    options.webhooks = Some(Outbound::new(run.webhook_ca.as_deref(), refuses)?);
    let signer = Arc::clone(ca);
    options.seal = Some(Seal::new(move |message| {
        let signed = signer.sign_message(message);
        signed.inspect_err(|error| tracing::error!(%error, "the authority's key does not sign")).ok()
    }));
    Ok(options)
}

/// What ends when: long streams first, then calls, then the state under them.
#[derive(Default)]
pub(crate) struct Stop {
    pub streams: CancellationToken,
    pub calls: CancellationToken,
    pub state: CancellationToken,
    /// Held to the end of the process.
    pub(crate) lock: std::sync::Mutex<Option<Lock>>,
}

impl Stop {
    pub fn keep(&self, lock: Option<Lock>) {
        *self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = lock;
    }
}

/// When this process is asked to stop. It listens from this call on, before it says to anybody that it serves: who reads that
/// may stop it at once.
pub(crate) fn asked_to_stop() -> std::io::Result<impl Future<Output = ()>> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}

pub(crate) async fn purge_tokens(handle: Handle, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TOKEN_PURGE) => {}
        }
        if let Err(error) = handle.drop_expired_revocations().await {
            tracing::warn!(%error, "revocations whose time is over could not be removed");
        }
        match handle.drop_expired_tokens().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "expired API tokens were removed"),
            Err(error) => tracing::warn!(%error, "expired API tokens could not be removed"),
        }
    }
}

/// The time now, in milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    u64::try_from(now).unwrap_or(u64::MAX)
}

/// Who leads, for people who look into the store.
pub(crate) fn holder() -> String {
    format!("{}:{}", host().unwrap_or_default(), std::process::id())
}

/// The host name of this machine; `None` if it has none.
pub(crate) fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
