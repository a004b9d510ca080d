//! A standby's side: it receives the leader's heartbeats, and reports evidence when they stop.

use std::{io, sync::Arc, time::Duration};

use controller_election::witness::{Evidence, Heard, Verdict, Witness};
use controller_leader::{Clock, Gone, Leader, takes_writes};
use proto_rpc::{Client, ClientOptions, Credentials, Endpoint, RpcError};
use proto_wire::v1::{self, controller_service_client::ControllerServiceClient};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;
use tonic::Code;

use crate::leadership::{Leadership, LeadershipWatch};

/// Heartbeats per longest silence.
const HEARTBEATS: u32 = 8;
/// Pause between two attempts to reach a leader, and between two reports that the same leader is gone.
const PACE: Duration = Duration::from_millis(10);
const ACCUSE_EVERY: Duration = Duration::from_millis(250);
/// Pause between two log lines that say that the leader refuses this controller.
const REPORT_EVERY: Duration = Duration::from_secs(30);
/// Observations that wait to be taken in.
const WAITING: usize = 16;

/// What a monitor needs.
pub struct MonitorConfig {
    /// A leader without a heartbeat for longer is considered gone.
    pub silence: Duration,
    /// Name of this controller in the logs of the leader.
    pub holder: String,
    /// A controller's certificate and whom it trusts.
    pub credentials: Credentials,
    /// Where a standby tries whether the store takes writes.
    pub store: controller_leader::SharedStore,
}

/// Monitors whichever controller leads, for the life of the process.
pub struct LeaderMonitor {
    config: Arc<MonitorConfig>,
    clock: Clock,
    witness: Witness,
    /// The newest evidence that was reported, with the epoch that it is about.
    brought: Option<(u64, Evidence)>,
}

impl LeaderMonitor {
    /// One that follows no leader yet.
    #[must_use]
    pub fn new(config: MonitorConfig) -> Self {
        let witness = Witness::new(config.silence);
        Self { config: Arc::new(config), clock: Clock::start(), witness, brought: None }
    }

    /// Monitors each leader that `seen` names, forwards calls to it through `leadership`, and reports on `gone` that it is gone.
    /// Returns when the sender of `seen` is dropped.
    pub async fn run(
        &mut self,
        leadership: &LeadershipWatch,
        mut seen: watch::Receiver<Option<Leader>>,
        gone: mpsc::Sender<Gone>,
    ) {
        loop {
            let leader = seen.borrow_and_update().clone();
            let Some(leader) = leader else {
                if seen.changed().await.is_err() {
                    return;
                }
                continue;
            };
            self.witness.follows(leader.epoch, self.clock.now());
            tracing::info!(epoch = leader.epoch, holder = leader.holder, "following");
            let changed = tokio::select! {
                () = self.follow(&leader, leadership, &gone) => Ok(()),
                changed = seen.changed() => changed,
            };
            leadership.lost(leader.epoch);
            if changed.is_err() {
                return;
            }
        }
    }

    /// This process leads now; if it took over by evidence, it backs off before it acts on evidence again.
    pub fn led(&mut self) {
        if let Some((_, evidence)) = self.brought.take() {
            self.witness.took_over(evidence, self.clock.now());
        }
    }

    async fn follow(&mut self, leader: &Leader, leadership: &LeadershipWatch, gone: &mpsc::Sender<Gone>) {
        let epoch = leader.epoch;
        let endpoints: Vec<Endpoint> = leader.endpoints.iter().filter_map(|text| text.parse().ok()).collect();
        if let Some(client) = leader_client(&endpoints, &self.config.credentials, self.config.silence) {
            leadership.set(Leadership::Remote(epoch, client));
        }
        let (to, mut hears) = mpsc::channel(WAITING);
        let _listens =
            AbortOnDropHandle::new(tokio::spawn(listen(Arc::clone(&self.config), epoch, endpoints, to)));
        loop {
            let now = self.clock.now();
            let well = self.witness.says_unwritable() && takes_writes(&self.config.store, epoch).await;
            let wait = match self.witness.judge(well, now) {
                Verdict::Wait(at) => self.clock.until(at).min(self.config.silence),
                Verdict::Gone(evidence) => {
                    if self.brought.replace((epoch, evidence)) != Some((epoch, evidence)) {
                        let (holder, why) = (&leader.holder, evidence.as_str());
                        tracing::warn!(epoch, holder, why, "the leader is taken for gone");
                    }
                    leadership.lost(epoch);
                    // A full channel does no harm: the report is repeated.
                    let _ = gone.try_send(Gone(epoch));
                    ACCUSE_EVERY
                }
            };
            tokio::select! {
                heard = hears.recv() => {
                    let Some(heard) = heard else { return };
                    self.witness.hears(epoch, heard, self.clock.now());
                }
                () = tokio::time::sleep(wait.max(Duration::from_millis(1))) => {}
            }
        }
    }
}

/// A client for calls that are forwarded to a leader. `silence`: longest wait for any sign of life. `None`: the addresses cannot
/// be used.
#[must_use]
pub fn leader_client(endpoints: &[Endpoint], credentials: &Credentials, silence: Duration) -> Option<Client> {
    let options = ClientOptions {
        connect_timeout: silence,
        timeout: None,
        keepalive_interval: silence,
        keepalive_timeout: silence,
        keepalive_while_idle: true,
    };
    match Client::new(endpoints, credentials, &options) {
        Ok(client) => Some(client),
        Err(error) => {
            tracing::error!(%error, "the leader's addresses cannot be used; calls wait for another");
            None
        }
    }
}

/// Sends what it observes of one leader to `to`, until the receiver is dropped.
async fn listen(config: Arc<MonitorConfig>, epoch: u64, endpoints: Vec<Endpoint>, to: mpsc::Sender<Heard>) {
    let Some(client) = leader_client(&endpoints, &config.credentials, config.silence) else {
        return std::future::pending().await;
    };
    let mut client = ControllerServiceClient::new(client);
    let interval_ms = u32::try_from((config.silence / HEARTBEATS).as_millis()).unwrap_or(u32::MAX);
    let mut reported: Option<Instant> = None;
    loop {
        let request = v1::FollowRequest { epoch, interval_ms, holder: config.holder.clone() };
        let heard = match client.follow(request).await {
            Ok(stream) => {
                let mut stream = stream.into_inner();
                while let Ok(Some(heartbeat)) = stream.message().await {
                    let heard = if heartbeat.leaving {
                        Heard::Leaving
                    } else {
                        Heard::Heartbeat { writable: heartbeat.store_writable }
                    };
                    if to.send(heard).await.is_err() {
                        return;
                    }
                }
                None
            }
            Err(status) if RpcError::from_status(&status).reason == "NOT_LEADING" => Some(Heard::Refused),
            // The leader is alive, although it refuses this controller.
            Err(status) if refuses(status.code()) => {
                if reported.is_none_or(|at| at.elapsed() > REPORT_EVERY) {
                    reported = Some(Instant::now());
                    tracing::error!(
                        leader = ?endpoints, error = status.message(),
                        "the leader cannot be followed; all controllers of a cluster need the same ca.pem and ca.key"
                    );
                }
                Some(Heard::Heartbeat { writable: true })
            }
            Err(_) => None,
        };
        let heard = match heard {
            None if nobody_listens(&config, &endpoints).await => Some(Heard::Refused),
            heard => heard,
        };
        if let Some(heard) = heard
            && to.send(heard).await.is_err()
        {
            return;
        }
        tokio::time::sleep(PACE).await;
    }
}

/// Whether the code says that a living controller refuses this one.
fn refuses(code: Code) -> bool {
    matches!(code, Code::Unauthenticated | Code::PermissionDenied | Code::ResourceExhausted)
}

/// Whether the connection is refused at each of the addresses.
async fn nobody_listens(config: &MonitorConfig, endpoints: &[Endpoint]) -> bool {
    for endpoint in endpoints {
        let Endpoint::Tcp { .. } = endpoint else { return false };
        let tried = tokio::time::timeout(config.silence, config.credentials.knock(endpoint)).await;
        let refused = matches!(tried, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused);
        if !refused {
            return false;
        }
    }
    !endpoints.is_empty()
}
