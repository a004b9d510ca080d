//! The agent's certificate: bought once with a single-use token, renewed at half its life. The key is made here and
//! never leaves this server.

use std::{sync::Arc, time::Duration, time::SystemTime};

use proto_rpc::{
    CaPin, CertificateSlot, Client, ClientOptions, Credentials, IdentityFiles, Jitter, KeyRequest,
    MAX_MESSAGE_BYTES, Renewal, RetryPolicy, RpcError, TrustSlot,
    files::{self, FileError},
    identity_files::Answer,
    retry,
    tls::Trust,
};
use proto_wire::v1::{
    self, agent_service_client::AgentServiceClient, enroll_service_client::EnrollServiceClient,
};
use tokio::sync::watch;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    agent::{error::IdentityError, setup::Setup},
    arguments::RunArguments,
};

/// Joining is tried for this long while the controller cannot be reached.
const JOIN_LIMIT: Duration = Duration::from_secs(120);

/// Whatever a controller says, an agent waits no longer with a renewal that another authority makes necessary.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

fn paths(setup: &Setup) -> IdentityFiles {
    IdentityFiles::new(setup.data.identity(), "node")
}

/// The token that was given, if one was.
fn given_token(arguments: &RunArguments) -> Result<Option<String>, IdentityError> {
    let given = match (&arguments.join_token, &arguments.join_token_file) {
        // A file that is gone was removed once its token was used.
        (None, Some(file)) if file.exists() => Some(files::read_text(file)?),
        (token, _) => token.clone(),
    };
    Ok(given.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()))
}

/// The certificate on disk if it is good, else a new one for the token.
///
/// # Errors
/// Why there is none.
pub(crate) async fn obtain(setup: &Setup, arguments: &RunArguments) -> Result<Credentials, IdentityError> {
    let at = paths(setup);
    let given = given_token(arguments)?;
    let token = given.as_deref();
    if at.exist() {
        let found = at.name()?;
        if found != setup.node.as_str() {
            let dir = at.dir().to_owned();
            return Err(IdentityError::OtherNode { dir, found, wanted: setup.node.to_string() });
        }
        match (at.load_valid(SystemTime::now()).map_err(IdentityError::from), token) {
            (Ok(credentials), _) => return Ok(credentials),
            (Err(error), None) => return Err(error),
            (Err(error), Some(_)) => tracing::warn!(%error, "joining again with the token"),
        }
    }
    let token = token.ok_or_else(|| IdentityError::NoToken { node: setup.node.to_string() })?;
    if arguments.ca_pin.is_empty() {
        return Err(IdentityError::NoPin);
    }
    join(setup, token, arguments.ca_pin.clone(), &at).await?;
    Ok(at.load()?)
}

/// [`IdentityFiles::store`], on the thread that writes.
async fn keep_pair(
    setup: &Setup,
    at: &IdentityFiles,
    key_pem: &str,
    answer: &v1::JoinResponse,
) -> Result<(), IdentityError> {
    let dir = at.dir().to_owned();
    let (at, node, key_pem, answer) =
        (at.clone(), setup.node.to_string(), key_pem.to_owned(), answer.clone());
    let store = move || {
        let answer = Answer { certificate_pem: &answer.certificate_pem, ca_pem: &answer.ca_pem };
        at.store(&node, &key_pem, &answer)
    };
    let stored = setup.disk.run(store).await;
    Ok(stored.map_err(|source| FileError::Io { action: "write", path: dir, source })??)
}

async fn join(setup: &Setup, token: &str, pins: Vec<CaPin>, at: &IdentityFiles) -> Result<(), IdentityError> {
    let credentials = Credentials::new(Trust::Pins(pins));
    let client = Client::new(&setup.controller, &credentials, &ClientOptions::default())?;
    let key = KeyRequest::generate()?;
    let request = v1::JoinRequest {
        token: token.to_owned(),
        node: setup.node.to_string(),
        csr_pem: key.csr_pem.clone(),
    };
    let policy = RetryPolicy { attempts: u32::MAX, within: JOIN_LIMIT, ..RetryPolicy::default() };
    let call = |attempt: u32| {
        if attempt > 1 {
            tracing::info!(attempt, "joining again");
        }
        let mut enroll =
            EnrollServiceClient::new(client.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let request = request.clone();
        async move { enroll.join(request).await }
    };
    let answer = retry(&policy, &mut Jitter::from_os(), call).await.map_err(|status| {
        let controller = setup.controller.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        IdentityError::Join { controller, source: RpcError::from_status(&status) }
    })?;
    keep_pair(setup, at, &key.key_pem, answer.get_ref()).await?;
    tracing::info!(node = %setup.node, "joined the cluster");
    Ok(())
}

/// The controllers refuse this server's certificate: the next start must not take it again, but join again. Logged once.
pub(crate) fn set_aside(setup: &Setup) {
    let at = paths(setup);
    match at.set_aside() {
        Ok(Some(aside)) => tracing::error!(
            certificate = %aside.display(),
            "this server's certificate was revoked; jobs go on, but nothing new begins here: to bring it back, start the agent anew with the --join-token and --ca-pin that `railctl node token {}` prints",
            setup.node
        ),
        // It was logged before.
        Ok(None) => {}
        Err(error) => {
            tracing::error!(%error, "the revoked certificate cannot be put aside; remove {}", at.certificate().display())
        }
    }
}

/// What a renewal changes of a running agent.
pub(crate) struct RenewedIdentity {
    credentials: Credentials,
    slot: CertificateSlot,
    trust: TrustSlot,
}

impl RenewedIdentity {
    /// What these credentials show and trust; `None` where they cannot be renewed.
    pub(crate) fn of(credentials: &Credentials) -> Option<Self> {
        let (slot, trust) = (credentials.slot()?.clone(), credentials.trust()?.clone());
        Some(Self { credentials: credentials.clone(), slot, trust })
    }

    /// Whether the certificate is of another authority than the one that issues now, or others are trusted.
    fn behind(&self, authority: &v1::Authority) -> bool {
        let pins =
            |texts: &[String]| texts.iter().filter_map(|text| text.parse().ok()).collect::<Vec<CaPin>>();
        let issuing = pins(std::slice::from_ref(&authority.issuing_pin));
        let (mut trusted, mut ours) = (pins(&authority.trusted_pins), self.trust.pins());
        for pins in [&mut trusted, &mut ours] {
            pins.sort();
            pins.dedup();
        }
        let foreign = self.slot.issuer().ok().flatten().is_some_and(|ours| !issuing.contains(&ours));
        // What cannot be read is of a newer release, and no reason for anything.
        !issuing.is_empty() && (foreign || trusted != ours)
    }
}

/// Returns when the controller says that another authority issues, or others are trusted, than this agent knows of; at a
/// moment within the time that it gives. What it has said once is taken once.
async fn superseded(
    said: &mut watch::Receiver<Option<v1::Authority>>,
    kept: &RenewedIdentity,
    jitter: &mut Jitter,
) {
    while said.changed().await.is_ok() {
        let authority = said.borrow_and_update().clone();
        if let Some(authority) = authority.filter(|authority| kept.behind(authority)) {
            let within = authority.renew_within.map(proto_wire::convert::duration_from_wire);
            let within = within.and_then(Result::ok).unwrap_or_default().min(LONGEST_WAIT);
            return tokio::time::sleep(jitter.up_to(within)).await;
        }
    }
    std::future::pending().await
}

/// Renews at half the certificate's life, and when another authority issues, for ever. No outage of the controllers that
/// ends before the certificate does can cost the identity.
pub(crate) async fn keep(setup: Arc<Setup>, kept: RenewedIdentity, client: Client) {
    let (mut jitter, mut moments) = (Jitter::from_os(), Jitter::from_os());
    let at = paths(&setup);
    let mut said = setup.authority.subscribe();
    // What was just loaded can be read.
    while let Ok(shown) = kept.slot.certificate() {
        let mut plan = Renewal::of(&shown, &mut jitter);
        let mut early = true;
        loop {
            tokio::select! {
                () = plan.until_due() => {}
                () = superseded(&mut said, &kept, &mut moments), if early => {
                    tracing::info!("the cluster's authority has changed: the certificate is renewed");
                }
            }
            let Err(error) = renew(&setup, &kept, &client, &at).await else { break };
            // From here on at the times of a renewal that failed, or it would be tried without a rest.
            early = false;
            plan.failed(SystemTime::now(), &mut jitter);
            // The 1st, 2nd, 4th, 8th ... in a row.
            if !plan.failures().is_power_of_two() {
                continue;
            }
            match shown.not_after.duration_since(SystemTime::now()) {
                Ok(left) => {
                    let left = Duration::from_secs(left.as_secs());
                    tracing::warn!(%error, ?left, "the certificate could not be renewed; trying again before it ends");
                }
                Err(_) => {
                    tracing::error!(%error, "the certificate could not be renewed and {}", IdentityError::Expired)
                }
            }
        }
        tracing::info!("certificate renewed");
    }
}

async fn renew(
    setup: &Setup,
    kept: &RenewedIdentity,
    client: &Client,
    at: &IdentityFiles,
) -> Result<(), IdentityError> {
    let key = KeyRequest::generate()?;
    let mut agent = AgentServiceClient::new(client.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let request = v1::RenewCertificateRequest { csr_pem: key.csr_pem.clone() };
    let answer = agent.renew_certificate(request).await.map_err(|status| {
        let controller = setup.controller.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        IdentityError::Renew { controller, source: Box::new(RpcError::from_status(&status)) }
    })?;
    keep_pair(setup, at, &key.key_pem, answer.get_ref()).await?;
    kept.slot.swap(&answer.get_ref().certificate_pem, &key.key_pem)?;
    kept.trust.swap(&answer.get_ref().ca_pem)?;
    show(setup, kept).await;
    Ok(())
}

/// Shows the new certificate to each controller, on a connection of its own: the one that is open goes on with the old one. So
/// they know that it is in use, and this server learns of a certificate that is not good while it can still fix that.
async fn show(setup: &Setup, kept: &RenewedIdentity) {
    for endpoint in &setup.controller {
        let address = std::slice::from_ref(endpoint);
        let shown = match Client::new(address, &kept.credentials, &ClientOptions::default()) {
            Ok(client) => HealthClient::new(client).check(HealthCheckRequest::default()).await.map(drop),
            Err(error) => Err(tonic::Status::internal(error.to_string())),
        };
        if let Err(status) = shown {
            let error = RpcError::from_status(&status);
            tracing::info!(%error, %endpoint, "the new certificate could not be shown");
        }
    }
}
