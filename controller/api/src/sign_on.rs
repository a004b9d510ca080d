//! Callers for whom an OpenID provider vouches: its keys are fetched beside all calls and kept, and a token becomes an identity by what
//! `proto-oidc` decides. A provider that is away keeps nobody out who shows anything else.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use proto_oidc::{
    Claims, Document, Keeper, Keys, Policy, Provider, ProviderError, Refused,
    jose::Signed,
    provider::{Client, Given},
    verify,
};
use proto_rpc::{ErrorClass, Identity, RpcError, metrics::CounterBy};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::sealed::Sealer;

/// The longest that a call waits for keys.
const PATIENCE: Duration = Duration::from_secs(5);
/// Codes that are exchanged for tokens at a time.
const EXCHANGES: usize = 16;

/// How a provider's tokens are taken.
#[derive(Debug, Clone)]
pub struct SignOnOptions {
    /// What is taken of it.
    pub policy: Policy,
    /// How it is called.
    pub provider: Provider,
    /// How long its keys count while it gives no others.
    pub keys_for: Duration,
    /// How the web pages sign on; `None`: they do not.
    pub pages: Option<PagesOptions>,
}

/// How the web pages sign on.
#[derive(Debug, Clone)]
pub struct PagesOptions {
    /// Where the provider sends browsers back to: `/ui/login/callback` of this cluster, as they reach it.
    pub redirect: String,
    /// What is asked of the provider.
    pub scopes: String,
    /// The client that the pages are.
    pub client: Client,
    /// How long the token of a page is good.
    pub session: Duration,
}

/// The pages' side of the provider.
#[derive(Debug)]
pub(crate) struct Pages {
    pub redirect: String,
    pub scopes: String,
    pub client: Client,
    pub session: Duration,
    /// Of sign-ons that have begun, which anybody can begin, and of those that are done: neither crowds out the other.
    pub begun: Sealer,
    pub done: Sealer,
    /// What an answer to a page's sign-on has to keep to: it is for the pages alone.
    policy: Policy,
    /// Codes that are exchanged at a time.
    places: Semaphore,
}

/// Takes tokens of one provider; clones share it.
#[derive(Debug, Clone)]
pub struct SignOn(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: SignOnOptions,
    pages: Option<Arc<Pages>>,
    state: Mutex<Fetching>,
    /// Somebody wants keys at once.
    wanted: Notify,
    /// Counts attempts to fetch that have ended.
    rounds: watch::Sender<u64>,
}

#[derive(Debug)]
struct Fetching {
    keeper: Keeper,
    /// What the provider said of itself last.
    document: Option<Arc<Document>>,
    /// Keys are being fetched, or will be at once.
    busy: bool,
}

/// For whom the provider has vouched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vouched {
    /// Who that is here; a user is not bound to a tenant's uid yet.
    pub identity: Identity,
    /// The issuer and the subject, as audit records have it.
    pub subject: String,
    /// When the provider has said so, at the earliest: its clock may be ahead.
    pub issued: SystemTime,
    /// Until when that counts: the end of the token, and as long as clocks may be apart.
    pub until: SystemTime,
}

/// A token that was not taken.
#[derive(Debug)]
pub(crate) struct NotTaken {
    /// Who has shown it, where that is sure although nothing is granted to them; else empty.
    pub subject: String,
    /// What they are told.
    pub error: RpcError,
}

impl From<RpcError> for NotTaken {
    fn from(error: RpcError) -> Self {
        Self { subject: String::new(), error }
    }
}

impl SignOn {
    /// Begins to fetch keys, until `stop`. Every attempt is counted by its outcome.
    #[must_use]
    pub(crate) fn start(options: SignOnOptions, attempts: CounterBy<1>, stop: CancellationToken) -> Self {
        let keeper = Keeper::new(options.keys_for);
        let state = Mutex::new(Fetching { keeper, document: None, busy: true });
        let pages = options.pages.clone().and_then(|pages| Pages::new(pages, &options.policy)).map(Arc::new);
        let (wanted, rounds) = (Notify::new(), watch::Sender::new(0));
        let sign_on = Self(Arc::new(Shared { options, pages, state, wanted, rounds }));
        tokio::spawn({
            let shared = Arc::clone(&sign_on.0);
            async move {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = shared.follow(&attempts) => {}
                }
            }
        });
        sign_on
    }

    /// Who shows a token.
    ///
    /// # Errors
    /// [`NotTaken`]: `Unavailable` if no keys are there to check it with, else `Unauthenticated`.
    pub(crate) async fn bearer(&self, token: &str, now: SystemTime) -> Result<Vouched, NotTaken> {
        let claims = self.verified(token, &self.0.options.policy, None, now).await?;
        self.vouched(&claims)
    }

    /// What the answer to a page's sign-on says.
    pub(crate) async fn answered(
        &self,
        pages: &Pages,
        id_token: &str,
        nonce: &str,
        now: SystemTime,
    ) -> Result<Claims, RpcError> {
        self.verified(id_token, &pages.policy, Some(nonce), now).await
    }

    /// The issuer.
    pub(crate) fn issuer(&self) -> &str {
        &self.0.options.policy.issuer
    }

    /// What the provider said of itself last; `None` before it has said anything.
    pub(crate) fn document(&self) -> Option<Arc<Document>> {
        self.0.state().document.clone()
    }

    /// The pages' side, where they sign on.
    pub(crate) fn pages(&self) -> Option<Arc<Pages>> {
        self.0.pages.clone()
    }

    /// What a good token says.
    async fn verified(
        &self,
        token: &str,
        policy: &Policy,
        nonce: Option<&str>,
        now: SystemTime,
    ) -> Result<Claims, RpcError> {
        // What is no token at all is nobody's reason to wait.
        Signed::read(token).map_err(refused)?;
        let mut waited = false;
        loop {
            let heard = self.0.rounds.subscribe();
            let checked = self.0.keys(now).map(|keys| verify(token, &keys, policy, nonce, now));
            let missing = match checked {
                // Also where a provider has changed a key under its old name.
                Some(Err(why @ (Refused::UnknownKey | Refused::WrongKey | Refused::Signature))) => {
                    refused(why)
                }
                Some(checked) => return checked.map_err(refused),
                None => away(),
            };
            if waited || !self.0.ask(now) {
                return Err(missing);
            }
            waited = true;
            Shared::round(heard).await;
        }
    }

    /// Who the holder of a good token is here.
    pub(crate) fn vouched(&self, claims: &Claims) -> Result<Vouched, NotTaken> {
        let policy = &self.0.options.policy;
        let subject = format!("{} {}", claims.issuer, claims.subject);
        match policy.identity(claims) {
            Ok(identity) => {
                let until = claims.expires + policy.skew;
                // What is taken back now takes back what was issued now by a clock that is ahead.
                let issued = claims.issued.checked_sub(policy.skew).unwrap_or(SystemTime::UNIX_EPOCH);
                Ok(Vouched { identity, subject, issued, until })
            }
            Err(error) => {
                let text = format!("the token of {subject}: {error}");
                let error = RpcError::new(ErrorClass::Unauthenticated, "NO_GRANT", text);
                Err(NotTaken { subject, error })
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Fetching> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self, now: SystemTime) -> Option<Arc<Keys>> {
        self.state().keeper.keys(now)
    }

    /// Has keys fetched at once, unless that was done just now; whether it is worth to wait for them.
    fn ask(&self, now: SystemTime) -> bool {
        let mut state = self.state();
        if !state.busy && state.keeper.urge(now) {
            state.busy = true;
            self.wanted.notify_one();
        }
        state.busy
    }

    /// Waits for the end of the attempt that goes on, but not for long.
    async fn round(mut heard: watch::Receiver<u64>) {
        // Whoever asked looks at the keys next, whatever came of it.
        let _ = tokio::time::timeout(PATIENCE, heard.changed()).await;
    }

    async fn follow(&self, attempts: &CounterBy<1>) {
        loop {
            let now = SystemTime::now();
            {
                let mut state = self.state();
                state.busy = true;
                state.keeper.asks(now);
            }
            let fetched = self.fetch().await;
            attempts.inc([if fetched.is_ok() { "fetched" } else { "failed" }]);
            let wait = self.ended(fetched, SystemTime::now());
            self.rounds.send_modify(|rounds| *rounds += 1);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.wanted.notified() => {}
            }
        }
    }

    async fn fetch(&self) -> Result<(Document, Keys), ProviderError> {
        // A provider that moves its keys says so in its document: both are asked for together.
        let document = self.options.provider.document().await?;
        let keys = self.options.provider.keys(&document).await?;
        Ok((document, keys))
    }

    /// Takes in what came of an attempt; how long to wait for the next one.
    fn ended(&self, fetched: Result<(Document, Keys), ProviderError>, now: SystemTime) -> Duration {
        let mut state = self.state();
        state.busy = false;
        match fetched {
            Ok((document, keys)) => {
                state.document = Some(Arc::new(document));
                state.keeper.came(keys, now);
            }
            Err(error) => {
                state.keeper.failed();
                let counts =
                    if state.keeper.keys(now).is_some() { "the last ones count" } else { "there are none" };
                let issuer = &self.options.policy.issuer;
                tracing::warn!(%error, issuer, "the keys of the OpenID provider cannot be fetched; {counts}");
            }
        }
        state.keeper.wait(now)
    }
}

impl Pages {
    /// `None` if the system gives no random bytes.
    fn new(options: PagesOptions, policy: &Policy) -> Option<Self> {
        let PagesOptions { redirect, scopes, client, session } = options;
        let policy =
            Policy { client: client.id.clone(), audiences: vec![client.id.clone()], ..policy.clone() };
        let (begun, done, places) = (Sealer::new()?, Sealer::new()?, Semaphore::new(EXCHANGES));
        Some(Self { redirect, scopes, client, session, begun, done, policy, places })
    }

    /// The token for a code.
    pub(crate) async fn exchange(
        &self,
        sign_on: &SignOn,
        code: &str,
        verifier: &str,
    ) -> Result<String, RpcError> {
        let busy = || {
            let text = format!("{EXCHANGES} sign-ons are being finished already; sign in again");
            RpcError::new(ErrorClass::Overloaded, "TOO_MANY_SIGN_ONS", text)
        };
        let place = tokio::time::timeout(PATIENCE, self.places.acquire()).await;
        let _place = place.map_err(|_| busy())?.map_err(|_| busy())?;
        let document = sign_on.document().ok_or_else(away)?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.redirect),
            ("code_verifier", verifier),
        ];
        let given = sign_on.0.options.provider.tokens(&document, &self.client, &fields).await;
        given.and_then(Given::signed).map_err(|error| match error {
            ProviderError::Refused { .. } => {
                RpcError::new(ErrorClass::Unauthenticated, "BAD_SIGN_ON", error.to_string())
            }
            _ => {
                tracing::warn!(%error, "a sign-on of the pages could not be finished");
                RpcError::new(ErrorClass::Unavailable, "ISSUER_AWAY", error.to_string())
            }
        })
    }
}

fn refused(why: Refused) -> RpcError {
    let text = format!("the bearer token {why}");
    match why {
        Refused::Expired => RpcError::new(ErrorClass::Unauthenticated, "TOKEN_EXPIRED", text),
        _ => RpcError::new(ErrorClass::Unauthenticated, "BAD_ID_TOKEN", text),
    }
}

pub(crate) fn away() -> RpcError {
    let text = "the OpenID provider's keys are not there: it is away, and its last keys are too old; other credentials are taken as ever";
    RpcError::new(ErrorClass::Unavailable, "ISSUER_AWAY", text)
}
