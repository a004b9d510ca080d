//! Calls to whichever member of the etcd cluster answers: one at a time, the next one when it does not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, files};
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

use super::failure::{Failure, Kind};
use super::options::{EtcdLogin, EtcdOptions, EtcdTls};
use super::wire::{
    AuthenticateRequest, auth_client::AuthClient, kv_client::KvClient, lease_client::LeaseClient,
    maintenance_client::MaintenanceClient, watch_client::WatchClient,
};
use crate::error::StoreError;
use crate::hub::lock;

/// Largest answer that is decoded: a page of a range, or all events of one revision.
const LARGEST_ANSWER: usize = 1 << 30;
/// First and longest wait before an operation is tried again.
const AGAIN_FIRST: Duration = Duration::from_millis(20);
const AGAIN_LONGEST: Duration = Duration::from_millis(400);

/// One member.
struct Member {
    name: String,
    client: Client,
}

/// The way to etcd.
pub(crate) struct Link {
    members: Vec<Member>,
    current: AtomicUsize,
    credentials: Option<Credentials>,
    tls: EtcdTls,
    login: Option<EtcdLogin>,
    token: RwLock<Option<MetadataValue<Ascii>>>,
    patience: Duration,
    /// Why no member answers, while none does.
    down: Mutex<Option<String>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({})", self.names())
    }
}

/// One member and our login, for one call.
#[derive(Clone)]
pub(crate) struct Session {
    client: Client,
    token: Option<MetadataValue<Ascii>>,
}

impl Session {
    pub fn kv(&self) -> KvClient<Client> {
        KvClient::new(self.client.clone()).max_decoding_message_size(LARGEST_ANSWER)
    }

    pub fn lease(&self) -> LeaseClient<Client> {
        LeaseClient::new(self.client.clone())
    }

    pub fn maintenance(&self) -> MaintenanceClient<Client> {
        MaintenanceClient::new(self.client.clone())
    }

    /// Calls with a time of their own: streams, and work that takes long.
    pub fn with_timeout(&self, timeout: Option<Duration>) -> Self {
        let client = match timeout {
            Some(timeout) => self.client.with_timeout(timeout),
            None => self.client.without_timeout(),
        };
        Self { client, token: self.token.clone() }
    }

    pub fn watch(&self) -> WatchClient<Client> {
        WatchClient::new(self.client.without_timeout()).max_decoding_message_size(LARGEST_ANSWER)
    }

    /// A request with our login. A member that is cut off from its leader shall say so instead of keeping us waiting.
    pub fn ask<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }
}

impl Link {
    /// # Errors
    /// [`StoreError::Denied`] names an address or a file that cannot be used. Nobody is called yet.
    pub fn new(options: &EtcdOptions) -> Result<Self, StoreError> {
        let denied = |cause: String| StoreError::Denied { cause };
        if options.endpoints.is_empty() {
            return Err(denied("no address of etcd is given".to_owned()));
        }
        let open = options.endpoints.iter().find(|endpoint| !endpoint.tls && !endpoint.is_local());
        if let Some(endpoint) = open.filter(|_| !options.plaintext) {
            return Err(denied(format!(
                "{endpoint} is another machine and not encrypted; the store holds secrets: use https://, or allow it explicitly"
            )));
        }
        let credentials = if options.endpoints.iter().any(|endpoint| endpoint.tls) {
            let files = CredentialFiles {
                ca: options.tls.ca.clone(),
                certificate: options.tls.certificate.clone(),
                key: options.tls.key.clone(),
                ..CredentialFiles::default()
            };
            if files.ca.is_none() {
                return Err(denied(
                    "an https:// address of etcd needs the CA that signed its certificate".to_owned(),
                ));
            }
            Some(Credentials::load(&files).map_err(|error| denied(error.to_string()))?)
        } else {
            None
        };
        let calls = ClientOptions {
            connect_timeout: options.deadline,
            timeout: Some(options.deadline),
            keepalive_interval: options.ping_every,
            keepalive_timeout: options.pong_within,
            keepalive_while_idle: false,
        };
        let member = |endpoint: &super::options::EtcdEndpoint| {
            let trust = credentials.clone().filter(|_| endpoint.tls).or(options.dial.map(Credentials::over));
            let client = Client::of_others(&endpoint.at, trust.as_ref(), &calls);
            let client = client.map_err(|error| denied(format!("{endpoint}: {error}")))?;
            Ok(Member { name: endpoint.to_string(), client })
        };
        Ok(Self {
            members: options.endpoints.iter().map(member).collect::<Result<_, StoreError>>()?,
            current: AtomicUsize::new(0),
            credentials,
            tls: options.tls.clone(),
            login: options.login.clone(),
            token: RwLock::default(),
            patience: options.patience,
            down: Mutex::default(),
        })
    }

    /// All members, for people.
    pub fn names(&self) -> String {
        self.members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// Why no member answers; `None` while one does.
    pub fn down(&self) -> Option<String> {
        lock(&self.down).clone()
    }

    /// The member that is asked now.
    pub fn session(&self) -> (Session, usize) {
        let at = self.current.load(Ordering::Relaxed) % self.members.len();
        (self.session_of(at), at)
    }

    pub fn session_of(&self, at: usize) -> Session {
        let token = self.token.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        Session { client: self.members[at].client.clone(), token }
    }

    pub fn name_of(&self, at: usize) -> &str {
        &self.members[at].name
    }

    /// Another member next time, unless somebody else has moved on already.
    pub fn move_on(&self, from: usize) {
        let next = (from + 1) % self.members.len();
        // If it fails, another call has chosen one.
        let _ = self.current.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// One call at one member; logs in first where that is needed.
    pub async fn once<T, F, Fut>(&self, call: F) -> Result<T, Failure>
    where
        F: Fn(Session) -> Fut,
        Fut: Future<Output = Result<T, Status>>,
    {
        self.log_in(false).await?;
        let (session, at) = self.session();
        match call(session).await {
            Ok(answer) => {
                *lock(&self.down) = None;
                Ok(answer)
            }
            Err(status) => {
                let failure = Failure::of(&status, &self.members[at].name);
                self.learn(at, &failure).await;
                Err(failure)
            }
        }
    }

    async fn learn(&self, at: usize, failure: &Failure) {
        match failure.kind {
            Kind::Unreachable => self.move_on(at),
            Kind::LoginExpired => {
                // If it fails now, the next call says why.
                let _ = self.log_in(true).await;
            }
            _ => {}
        }
    }

    /// A call that may be repeated at will: until a member answers, for as long as our patience lasts.
    pub async fn call<T, F, Fut>(&self, call: F) -> Result<T, Failure>
    where
        F: Fn(Session) -> Fut,
        Fut: Future<Output = Result<T, Status>>,
    {
        let mut trying = Trying::new(self);
        loop {
            match self.once(&call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => trying.again(self, failure).await?,
            }
        }
    }

    /// Logs in where a user is given and there is no token, or an old one.
    async fn log_in(&self, anew: bool) -> Result<(), Failure> {
        let Some(login) = &self.login else { return Ok(()) };
        let has = self.token.read().unwrap_or_else(std::sync::PoisonError::into_inner).is_some();
        if has && !anew {
            return Ok(());
        }
        let (session, at) = self.session();
        let ask = AuthenticateRequest { name: login.user.clone(), password: login.password.clone() };
        match AuthClient::new(session.client).authenticate(Request::new(ask)).await {
            Ok(answer) => {
                let token = answer.into_inner().token.parse::<MetadataValue<Ascii>>();
                let token = token.map_err(|_| Failure::unreachable("a token that cannot be sent"))?;
                *self.token.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(token);
                Ok(())
            }
            Err(status) => {
                let failure = Failure::of(&status, &self.members[at].name);
                if failure.text.contains("authentication is not enabled") {
                    // A user was given that nobody asks for.
                    return Ok(());
                }
                if failure.kind == Kind::Unreachable {
                    self.move_on(at);
                }
                // Only the login was tried, so nothing of the call itself is in doubt.
                Err(Failure { doubt: false, ..failure })
            }
        }
    }

    /// Reads the certificate again; a file that cannot be used is told, and the old certificate stays.
    pub fn reload(&self) {
        let slot = self.credentials.as_ref().and_then(Credentials::slot);
        let (Some(slot), Some(certificate), Some(key)) = (slot, &self.tls.certificate, &self.tls.key) else {
            return;
        };
        let read = files::read_text(certificate).and_then(|chain| Ok((chain, files::read_text(key)?)));
        let swapped = match read {
            Ok((chain, key)) => slot.swap(&chain, &key).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = swapped {
            tracing::warn!(%error, "etcd's client certificate cannot be read again; the old one stays");
        }
    }
}

/// How long an operation has been tried.
pub(crate) struct Trying {
    begin: Instant,
    patience: Duration,
    wait: Duration,
    made: usize,
}

impl Trying {
    /// While no member answers at all, each is asked once and no operation waits: callers shall hear quickly.
    pub fn new(link: &Link) -> Self {
        let patience = if link.down().is_some() { Duration::ZERO } else { link.patience };
        Self { begin: Instant::now(), patience, wait: AGAIN_FIRST, made: 0 }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// The failure itself, when no other attempt would help or the time is over.
    pub async fn again(&mut self, link: &Link, failure: Failure) -> Result<(), Failure> {
        self.made += 1;
        if !matches!(failure.kind, Kind::Unreachable | Kind::LoginExpired) {
            return Err(failure);
        }
        let login_is_useless = failure.kind == Kind::LoginExpired && self.made > 3;
        if login_is_useless || (self.begin.elapsed() >= self.patience && self.made >= link.count()) {
            *lock(&link.down) = Some(failure.text.clone());
            return Err(failure);
        }
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(AGAIN_LONGEST);
        Ok(())
    }
}
