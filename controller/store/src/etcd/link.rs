//! Calls to whichever member of the etcd cluster answers: one at a time, the next one when it does not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, files};
use tokio::time::Instant;
use tonic::Status;
use tonic::codegen::http::HeaderValue;

use super::calls::{self, Session, Token};
use super::failure::{Failure, Kind};
use super::options::{EtcdLogin, EtcdOptions, EtcdTls};
use crate::error::StoreError;
use crate::hub::lock;

/// First and longest wait before an operation is tried again.
const AGAIN_FIRST: Duration = Duration::from_millis(20);
const AGAIN_LONGEST: Duration = Duration::from_millis(400);

/// One member of the etcd cluster.
struct Member {
    name: String,
    session: Session,
}

/// The way to etcd.
pub(crate) struct Link {
    members: Vec<Member>,
    current: AtomicUsize,
    credentials: Option<Credentials>,
    tls: EtcdTls,
    login: Option<EtcdLogin>,
    token: Token,
    patience: Duration,
    /// Why no member answers, while none does.
    down: Mutex<Option<String>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({})", self.names())
    }
}

impl Link {
    /// # Errors
    /// [`StoreError::Denied`] names an address or a file that cannot be used. Nobody is called yet.
    pub async fn new(options: &EtcdOptions) -> Result<Self, StoreError> {
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
        let token = Token::default();
        let mut members = Vec::with_capacity(options.endpoints.len());
        for endpoint in &options.endpoints {
            let named = |error: &dyn std::error::Error| denied(format!("{endpoint}: {error}"));
            let trust = credentials.clone().filter(|_| endpoint.tls).or(options.dial.map(Credentials::over));
            let client =
                Client::of_others(&endpoint.at, trust.as_ref(), &calls).map_err(|error| named(&error))?;
            let session = Session::new(&client, &token).await.map_err(|error| named(&error))?;
            members.push(Member { name: endpoint.to_string(), session });
        }
        Ok(Self {
            members,
            current: AtomicUsize::new(0),
            credentials,
            tls: options.tls.clone(),
            login: options.login.clone(),
            token,
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
        self.members[at].session.clone()
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
    ///
    /// # Errors
    /// The login or the call failed at this member; [`Failure::doubt`] says whether it may have had its
    /// effect.
    pub async fn once<T, F, Fut>(&self, call: F) -> Result<T, Failure>
    where
        F: FnOnce(Session) -> Fut,
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
    ///
    /// # Errors
    /// etcd refused it, or no member answered within the patience.
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
        if calls::read(&self.token).is_some() && !anew {
            return Ok(());
        }
        let (session, at) = self.session();
        match session.log_in(&login.user, &login.password).await {
            Ok(token) => {
                let token = HeaderValue::try_from(token);
                let token = token.map_err(|_| Failure::unreachable("a token that cannot be sent"))?;
                *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
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

    /// Reads the certificate again; a file that cannot be used is logged, and the old certificate stays.
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
    /// While no member answers at all, each is asked once and no operation waits: callers shall have an answer quickly.
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
