//! A whole controller on a loopback port: store, loop, API, TLS. And clients of every kind.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use controller_api::{Api, ApiMetrics, Context, SignOnOptions, fair::FairLimits};
use controller_core::Event;
use controller_leader::{Handle, LoopMetrics, Options, Seal, keys};
use controller_store::{
    EmbeddedOptions, EmbeddedStore, KeyValue, LeaseGrant, LeaseId, Limits as StoreLimits, RangeRequest,
    RangeResult, Store, StoreError, StoreStatus, Txn, TxnOutcome, WatchStream,
};
use proto_audit::Actor;
use proto_model::NodeName;
use proto_rpc::{
    Authority, Ca, CertificateSlot, Client, ClientOptions, Credentials, Endpoint, Identity, KeyRequest,
    Listen, Metrics, Role, SignedToken, Standing, Token, TokenKind,
    exposition::Exposition,
    server::{Limits, Server, ServerMetrics, ServerTls},
    tls::Trust,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const CLUSTER: &str = "test";

/// A store that can be told to be full.
pub struct Fickle {
    inner: Arc<dyn Store>,
    pub full: AtomicBool,
}

#[async_trait::async_trait]
impl Store for Fickle {
    async fn get(&self, key: Bytes) -> Result<Option<KeyValue>, StoreError> {
        self.inner.get(key).await
    }
    async fn range(&self, request: RangeRequest) -> Result<RangeResult, StoreError> {
        self.inner.range(request).await
    }
    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        if self.full.load(Ordering::Relaxed) {
            return Err(StoreError::Full { cause: "No space left on device".to_owned() });
        }
        self.inner.txn(txn).await
    }
    async fn watch(&self, prefix: Bytes, start_revision: u64) -> Result<WatchStream, StoreError> {
        self.inner.watch(prefix, start_revision).await
    }
    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.inner.compact(revision).await
    }
    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseGrant, StoreError> {
        self.inner.lease_grant(ttl).await
    }
    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<LeaseGrant, StoreError> {
        self.inner.lease_keep_alive(lease).await
    }
    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.inner.lease_revoke(lease).await
    }
    async fn status(&self) -> Result<StoreStatus, StoreError> {
        self.inner.status().await
    }
    fn limits(&self) -> StoreLimits {
        self.inner.limits()
    }
}

/// Who does what a test needs done.
pub fn who() -> Arc<Actor> {
    Arc::new(Actor { who: "test".to_owned(), rpc: "Test".to_owned(), ..Actor::default() })
}

/// A running controller.
pub struct World {
    pub ca: Arc<Authority>,
    pub handle: Handle,
    pub metrics: Metrics,
    pub store: Arc<Fickle>,
    pub endpoint: Endpoint,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl World {
    /// Starts a controller on a folder, new or used.
    pub async fn start(dir: &Path) -> Self {
        let mut options = EmbeddedOptions::new(dir.join("store"));
        options.limits = StoreLimits { txn_ops: 4096, txn_bytes: 64 << 20, ..StoreLimits::default() };
        let inner: Arc<dyn Store> = Arc::new(EmbeddedStore::open(options).unwrap());
        Self::start_on(dir, inner).await
    }

    /// As `start`, on a store of any kind.
    pub async fn start_on(dir: &Path, inner: Arc<dyn Store>) -> Self {
        Self::start_with(dir, inner, FairLimits::default()).await
    }

    /// As `start_on`, with other limits between tenants.
    pub async fn start_with(dir: &Path, inner: Arc<dyn Store>, fair: FairLimits) -> Self {
        Self::begin(dir, inner, fair, None).await
    }

    /// As `start`, on a new store in memory, and takes tokens of a provider.
    pub async fn start_signing_on(dir: &Path, options: SignOnOptions) -> Self {
        let inner = Arc::new(controller_store::MemoryStore::default());
        Self::begin(dir, inner, FairLimits::default(), Some(options)).await
    }

    async fn begin(
        dir: &Path,
        inner: Arc<dyn Store>,
        fair: FairLimits,
        sign_on: Option<SignOnOptions>,
    ) -> Self {
        let ca = Ca::load_or_create(dir, CLUSTER, SystemTime::now()).unwrap();
        let ca = Arc::new(Authority::new(Standing::alone(ca)).unwrap());
        let store = Arc::new(Fickle { inner, full: AtomicBool::new(false) });
        let metrics = Metrics::new("test", "0.0.0", SystemTime::now());
        let stop = CancellationToken::new();
        let mut options = Options::new("test", stop.clone());
        let allowed = ["127.0.0.0/8".parse().unwrap()];
        let refuses = Arc::new(move |address| proto_model::address::refused(address, &allowed));
        options.webhooks = Some(proto_rpc::Outbound::new(None, refuses).unwrap());
        let signer = ca.clone();
        options.seal = Some(Seal::new(move |message| signer.sign_message(message).ok()));
        let (handle, running) =
            controller_leader::start(store.clone(), options, LoopMetrics::new(&metrics)).await.unwrap();
        controller_leader::bootstrap(&handle, "0.0.0").await.unwrap();
        let leaf =
            ca.issue_server(&["127.0.0.1".into()], Duration::from_secs(3600), SystemTime::now()).unwrap();
        let slot = CertificateSlot::new(&leaf.issued.chain_pem, &leaf.key_pem).unwrap();
        let tls = ServerTls {
            trust: ca.trust().clone(),
            cluster: CLUSTER.to_owned(),
            slot,
            revocations: handle.revoked().clone(),
        };
        let limits = Limits { drain: Duration::from_millis(500), ..Limits::default() };
        let listen: Vec<Listen> = vec!["127.0.0.1:0".parse().unwrap()];
        let server = Server::bind(&listen, &tls, limits, ServerMetrics::new(&metrics)).await.unwrap();
        let endpoint = format!("https://{}", server.addresses().unwrap()[0]).parse().unwrap();
        let mut counts = ApiMetrics::new(&metrics, fair);
        if let Some(options) = sign_on {
            counts = counts.signing_on(options, stop.clone());
        }
        let guard = controller_api::guard(&handle, CLUSTER, &counts);
        let ending = stop.clone();
        let context = Context { handle: handle.clone(), ca: ca.clone(), guard, version: "0.0.0", ending };
        let api = Api::new(context, &counts).await.unwrap();
        let serving = server.serve(api.router, stop.clone());
        let tasks = vec![
            tokio::spawn(async move {
                running.await.unwrap();
            }),
            tokio::spawn(async move {
                serving.await;
            }),
        ];
        Self { ca, handle, metrics, store, endpoint, stop, tasks }
    }

    /// Ends it; the folder can be used again.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
        drop(self.handle);
        // A stream's task may take a moment to notice that its client is gone.
        let store = self.store;
        let free = async {
            while Arc::strong_count(&store) > 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), free).await.expect("the store is still used");
    }

    fn credentials(&self) -> Credentials {
        Credentials::new(Trust::Slot(self.ca.trust().clone()))
    }

    pub fn client_with(&self, credentials: &Credentials) -> Client {
        Client::new(std::slice::from_ref(&self.endpoint), credentials, &ClientOptions::default()).unwrap()
    }

    /// A client that shows a certificate of this identity, or none for nobody.
    pub fn client(&self, identity: &Identity) -> Client {
        if *identity == Identity::Anonymous {
            return self.client_with(&self.credentials());
        }
        self.client_with(&self.credentials_of(identity))
    }

    /// A user as its certificate names it: of the tenant that there is now, if there is one.
    pub fn bound(&self, identity: &Identity) -> Identity {
        let now = identity.tenant().and_then(|tenant| self.handle.tenancies().get(tenant));
        match now.filter(|_| identity.tenant_uid().is_none()) {
            Some(tenancy) => identity.clone().of_tenant(&tenancy.uid).unwrap(),
            None => identity.clone(),
        }
    }

    /// A certificate of this identity, as the API would issue it.
    pub fn credentials_of(&self, identity: &Identity) -> Credentials {
        self.credentials_for(&self.bound(identity))
    }

    /// A certificate of exactly this identity.
    pub fn credentials_for(&self, identity: &Identity) -> Credentials {
        let request = KeyRequest::generate().unwrap();
        let issued =
            self.ca.issue(&request.csr_pem, identity, Duration::from_secs(600), SystemTime::now()).unwrap();
        let slot = CertificateSlot::new(&issued.chain_pem, &request.key_pem).unwrap();
        self.credentials().with_certificate(slot)
    }

    pub fn admin(&self) -> Client {
        self.client(&Identity::admin("root").unwrap())
    }

    /// Makes a tenant, or changes its quota.
    pub async fn tenant(&self, name: &str, gpus: u32) {
        let (name, description) = (name.parse().unwrap(), String::new());
        let quota = proto_model::Quota::new(gpus, 0);
        let apply = Event::ApplyTenant {
            name,
            description,
            quota,
            isolation: proto_model::IsolationPolicy::BestEffort,
            dry_run: false,
        };
        self.handle.apply(&who(), apply).await.unwrap();
    }

    pub fn user(&self, tenant: &str) -> Client {
        self.client(&Identity::user(tenant, "ann", [Role::User]).unwrap())
    }

    /// A client that shows the certificate of a node which has joined.
    pub async fn node(&self, name: &str) -> Client {
        let node: NodeName = name.parse().unwrap();
        if self.handle.store().get(keys::node(&node)).await.unwrap().is_none() {
            let mut hash = [0; 32];
            hash[..name.len()].copy_from_slice(name.as_bytes());
            let token = Event::CreateToken { node: node.clone(), hash, lifetime: None };
            self.handle.apply(&who(), token).await.unwrap();
            self.handle.apply(&who(), Event::Join { node, hash, csr: hash }).await.unwrap();
        }
        self.client(&Identity::node(name).unwrap())
    }

    /// A client that shows a token which somebody else has signed.
    pub fn signed(&self, token: &str) -> Client {
        self.client_with(&self.credentials().with_signed(SignedToken::parse(token).unwrap()))
    }

    pub fn bearer(&self, token: &str) -> Client {
        self.client_with(&self.credentials().with_token(Token::parse(TokenKind::User, token).unwrap()))
    }

    /// The value of a line of /metrics that begins so; 0 if there is none.
    pub fn metric(&self, begin: &str) -> f64 {
        let text = self.metrics.encode(Exposition::Text);
        let lines = text.lines().filter(|line| line.starts_with(begin));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}
