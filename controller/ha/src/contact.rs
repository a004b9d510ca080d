//! A standby's side: it hears the leader beat, and brings evidence when it does not.

use std::{io, sync::Arc, time::Duration};

use controller_election::witness::{Evidence, Heard, Verdict, Witness};
use controller_reconciler::{Clock, Gone, Leader, takes_writes};
use proto_rpc::{Client, ClientOptions, Credentials, Endpoint, RpcError};
use proto_wire::v1::{self, controller_service_client::ControllerServiceClient};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;
use tonic::Code;

use crate::stand::{Stand, Stands};

/// Beats in the longest silence.
const BEATS: u32 = 8;
/// Between two attempts to reach a leader, and to judge one that was accused.
const PACE: Duration = Duration::from_millis(10);
const ACCUSE_EVERY: Duration = Duration::from_millis(250);
/// How often it is told that a leader cannot be heard because its certificates are of another authority.
const TELL_EVERY: Duration = Duration::from_secs(30);
/// What was heard and not yet taken in.
const WAITING: usize = 16;

/// What a standby needs to hear leaders.
pub struct Contact {
    /// A leader that is silent for longer is taken for gone.
    pub silence: Duration,
    /// Who this is, for people.
    pub holder: String,
    /// A controller's certificate, and the authority.
    pub credentials: Credentials,
    /// Whether the store takes writes is tried there.
    pub store: controller_reconciler::SharedStore,
}

/// Hears leaders, for the life of the process.
pub struct Contacts {
    contact: Arc<Contact>,
    clock: Clock,
    witness: Witness,
    /// The newest evidence that was brought.
    brought: Option<(u64, Evidence)>,
}

/// Begins.
#[must_use]
pub fn contacts(contact: Contact) -> Contacts {
    let witness = Witness::new(contact.silence);
    Contacts { contact: Arc::new(contact), clock: Clock::start(), witness, brought: None }
}

impl Contacts {
    /// Hears whoever leads, lets calls go there, and brings evidence. Ends when nobody tells who leads any more.
    pub async fn run(
        &mut self,
        stands: &Stands,
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
                () = self.attend(&leader, stands, &gone) => Ok(()),
                changed = seen.changed() => changed,
            };
            stands.lost(leader.epoch);
            if changed.is_err() {
                return;
            }
        }
    }

    /// This process leads now: if by evidence, it rests before it believes any again.
    pub fn led(&mut self) {
        if let Some((_, evidence)) = self.brought.take() {
            self.witness.took_over(evidence, self.clock.now());
        }
    }

    async fn attend(&mut self, leader: &Leader, stands: &Stands, gone: &mpsc::Sender<Gone>) {
        let epoch = leader.epoch;
        let endpoints: Vec<Endpoint> = leader.endpoints.iter().filter_map(|text| text.parse().ok()).collect();
        if let Some(client) = way(&endpoints, &self.contact.credentials, self.contact.silence) {
            stands.take(Stand::There(epoch, client));
        }
        let (to, mut hears) = mpsc::channel(WAITING);
        let _listens =
            AbortOnDropHandle::new(tokio::spawn(listen(Arc::clone(&self.contact), epoch, endpoints, to)));
        loop {
            let now = self.clock.now();
            let well = self.witness.says_unwritable() && takes_writes(&self.contact.store, epoch).await;
            let wait = match self.witness.judge(well, now) {
                Verdict::Wait(at) => self.clock.until(at).min(self.contact.silence),
                Verdict::Gone(evidence) => {
                    if self.brought.replace((epoch, evidence)) != Some((epoch, evidence)) {
                        let (holder, why) = (&leader.holder, evidence.as_str());
                        tracing::warn!(epoch, holder, why, "the leader is taken for gone");
                    }
                    stands.lost(epoch);
                    // Whoever does not listen hears it again.
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

/// How calls are handed on to a leader. `silence`: longest wait for any sign of life.
#[must_use]
pub fn way(endpoints: &[Endpoint], credentials: &Credentials, silence: Duration) -> Option<Client> {
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

/// Says what it hears of one leader, for ever.
async fn listen(contact: Arc<Contact>, epoch: u64, endpoints: Vec<Endpoint>, to: mpsc::Sender<Heard>) {
    let Some(client) = way(&endpoints, &contact.credentials, contact.silence) else {
        return std::future::pending().await;
    };
    let mut client = ControllerServiceClient::new(client);
    let interval_ms = u32::try_from((contact.silence / BEATS).as_millis()).unwrap_or(u32::MAX);
    let mut told: Option<Instant> = None;
    loop {
        let request = v1::FollowRequest { epoch, interval_ms, holder: contact.holder.clone() };
        let heard = match client.follow(request).await {
            Ok(stream) => {
                let mut stream = stream.into_inner();
                while let Ok(Some(beat)) = stream.message().await {
                    let heard = if beat.leaving {
                        Heard::Leaving
                    } else {
                        Heard::Beat { writable: beat.store_writable }
                    };
                    if to.send(heard).await.is_err() {
                        return;
                    }
                }
                None
            }
            Err(status) if RpcError::from_status(&status).reason == "NOT_LEADING" => Some(Heard::Refused),
            // It is there, whoever it is.
            Err(status) if refuses(status.code()) => {
                if told.is_none_or(|at| at.elapsed() > TELL_EVERY) {
                    told = Some(Instant::now());
                    tracing::error!(
                        leader = ?endpoints, error = status.message(),
                        "the leader cannot be followed; all controllers of a cluster need the same ca.pem and ca.key"
                    );
                }
                Some(Heard::Beat { writable: true })
            }
            Err(_) => None,
        };
        let heard = match heard {
            None if nobody_listens(&contact, &endpoints).await => Some(Heard::Refused),
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

/// Whether somebody answers who does not let us in.
fn refuses(code: Code) -> bool {
    matches!(code, Code::Unauthenticated | Code::PermissionDenied | Code::ResourceExhausted)
}

/// Whether a living machine says at each address that nobody listens there.
async fn nobody_listens(contact: &Contact, endpoints: &[Endpoint]) -> bool {
    for endpoint in endpoints {
        let Endpoint::Tcp { .. } = endpoint else { return false };
        let tried = tokio::time::timeout(contact.silence, contact.credentials.knock(endpoint)).await;
        let refused = matches!(tried, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused);
        if !refused {
            return false;
        }
    }
    !endpoints.is_empty()
}
