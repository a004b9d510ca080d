//! The flood of row X2, in a process of its own: everything at once that a peer without an identity can do, each paced.

use std::{
    io::Read as _,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use proto_rpc::{
    Ca, CertificateSlot, Client, ClientOptions, Credentials, Endpoint, Identity, KeyRequest,
    tls::{Trust, client_config},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// What every HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// How long one that is held is held, where nobody ends it.
const HELD: Duration = Duration::from_secs(60);
/// Connections and calls of one kind that are held at a time.
const AT_ONCE: usize = 512;

/// One flood process: says `ready` when it begins, and what it did when its standard input ends.
#[derive(Debug, clap::Args)]
pub struct Flood {
    /// Where.
    #[arg(long)]
    controller: String,
    /// The cluster's certificate.
    #[arg(long)]
    ca: PathBuf,
    /// New connections per second of all kinds together; four calls are made for each of them.
    #[arg(long)]
    rate: u32,
}

/// What one peer does, over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Connects and says nothing.
    HalfOpen,
    /// Begins a TLS handshake and does not go on.
    TlsStall,
    /// Sends a part of the preface.
    HalfPreface,
    /// Sends preface and SETTINGS byte by byte.
    SlowPreface,
    /// An HTTP/2 connection that does nothing.
    Idle,
    /// The same, and it answers pings.
    Ponging,
    /// Watches the health and does not read.
    Watch,
    /// An HTTP/1 head that comes byte by byte.
    SlowHead,
    /// Headers beyond all limits.
    LongHeaders,
    /// A body of zeros, compressed a thousandfold.
    Gzip,
    /// A certificate of another authority.
    Foreign,
}

const KINDS: [Kind; 11] = [
    Kind::HalfOpen,
    Kind::TlsStall,
    Kind::HalfPreface,
    Kind::SlowPreface,
    Kind::Idle,
    Kind::Ponging,
    Kind::Watch,
    Kind::SlowHead,
    Kind::LongHeaders,
    Kind::Gzip,
    Kind::Foreign,
];

/// Calls that are refused, of every service.
const DENIED: [&str; 12] = [
    "/rail.v1.JobService/ListJobs",
    "/rail.v1.JobService/CreateJob",
    "/rail.v1.JobService/WatchJobs",
    "/rail.v1.NodeService/ListNodes",
    "/rail.v1.NodeService/UpdateNode",
    "/rail.v1.TenantService/ApplyTenant",
    "/rail.v1.TenantService/IssueCertificate",
    "/rail.v1.QueueService/ListQueues",
    "/rail.v1.FabricService/ApplyFabric",
    "/rail.v1.AuditService/ListAuditRecords",
    "/rail.v1.AgentService/Connect",
    "/rail.v1.HealthService/GetHealth",
];

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What all peers share.
struct Target {
    endpoint: Endpoint,
    address: SocketAddr,
    name: tokio_rustls::rustls::pki_types::ServerName<'static>,
    h2: TlsConnector,
    h1: TlsConnector,
    nobody: Credentials,
    foreign: Credentials,
    connections: AtomicU64,
    calls: AtomicU64,
}

impl Flood {
    /// Makes the flood until standard input ends.
    ///
    /// # Errors
    /// The certificate cannot be read, or the address is none.
    pub fn run(&self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
        let target = Arc::new(self.target()?);
        let done = runtime.block_on(async {
            for kind in KINDS {
                tokio::spawn(again(Arc::clone(&target), kind, f64::from(self.rate) / KINDS.len() as f64));
            }
            tokio::spawn(storm(Arc::clone(&target), f64::from(self.rate) * 4.0));
            println!("ready");
            tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()))
                .await
                .map_err(text)?
                .map_err(text)?;
            let (connections, calls) =
                (target.connections.load(Ordering::Relaxed), target.calls.load(Ordering::Relaxed));
            println!("{connections} {calls}");
            Ok(())
        });
        runtime.shutdown_background();
        done
    }

    fn target(&self) -> Result<Target, String> {
        let endpoint: Endpoint = self.controller.parse().map_err(text)?;
        let Endpoint::Tcp { host, port } = &endpoint else { return Err("not over TCP".to_owned()) };
        let address = format!("{host}:{port}").parse().map_err(text)?;
        let trust = Trust::Ca(std::fs::read_to_string(&self.ca).map_err(text)?);
        let h2 = client_config(&trust, None).map_err(text)?;
        let mut h1 = (*h2).clone();
        h1.alpn_protocols = vec![b"http/1.1".to_vec()];
        let now = std::time::SystemTime::now();
        let other = Ca::create("local", now, Duration::from_secs(3600)).map_err(text)?;
        let request = KeyRequest::generate().map_err(text)?;
        let node = Identity::node("n0").map_err(text)?;
        let issued = other.issue(&request.csr_pem, &node, Duration::from_secs(3600), now).map_err(text)?;
        let slot = CertificateSlot::new(&issued.chain_pem, &request.key_pem).map_err(text)?;
        Ok(Target {
            name: endpoint.server_name().map_err(text)?,
            address,
            h2: TlsConnector::from(h2),
            h1: TlsConnector::from(Arc::new(h1)),
            nobody: Credentials::new(trust.clone()),
            foreign: Credentials::new(trust).with_certificate(slot),
            endpoint,
            connections: AtomicU64::new(0),
            calls: AtomicU64::new(0),
        })
    }
}

/// New ones at a steady rate, whatever becomes of the old ones, up to so many at once.
async fn again(target: Arc<Target>, kind: Kind, per_second: f64) {
    let mut pace = time::interval(Duration::from_secs_f64(1.0 / per_second.max(0.1)));
    let places = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    loop {
        pace.tick().await;
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let target = Arc::clone(&target);
        tokio::spawn(async move {
            target.connections.fetch_add(1, Ordering::Relaxed);
            // Refused, cut or done: that is for the controller to say.
            let _ = time::timeout(HELD, one(&target, kind)).await;
            drop(place);
        });
    }
}

async fn one(target: &Target, kind: Kind) -> std::io::Result<()> {
    match kind {
        Kind::HalfOpen => drain(target.tcp().await?).await,
        Kind::TlsStall => {
            let mut stream = target.tcp().await?;
            // The head of a ClientHello of 1,000 bytes, and some of it.
            stream.write_all(&[22, 3, 1, 3, 0xe8, 1, 0, 3, 0xe4, 3, 3]).await?;
            drain(stream).await
        }
        Kind::HalfPreface => {
            let mut stream = target.tls(&target.h2).await?;
            stream.write_all(&PREFACE[..9]).await?;
            drain(stream).await
        }
        Kind::SlowPreface => slowly(target.tls(&target.h2).await?, &[PREFACE, SETTINGS].concat()).await,
        Kind::Idle => {
            let stream = target.opened().await?;
            let held = stream;
            time::sleep(HELD).await;
            drop(held);
            Ok(())
        }
        Kind::Ponging => pong(target.opened().await?).await,
        Kind::Watch => {
            let client = target.client(&target.nobody)?;
            let mut call = tonic::client::Grpc::new(client.without_timeout());
            let path = axum_path("/grpc.health.v1.Health/Watch");
            call.ready().await.map_err(std::io::Error::other)?;
            let codec = tonic_prost::ProstCodec::<(), ()>::default();
            let held = call.server_streaming(tonic::Request::new(()), path, codec).await;
            time::sleep(HELD).await;
            drop(held);
            Ok(())
        }
        Kind::SlowHead => {
            slowly(target.tls(&target.h1).await?, b"GET /v1/health HTTP/1.1\r\nhost: x\r\nx-a: b\r\n").await
        }
        Kind::LongHeaders => {
            let mut stream = target.tls(&target.h1).await?;
            let line = [b"x-long: ", vec![b'y'; 60_000].as_slice(), b"\r\n\r\n"].concat();
            stream.write_all(b"GET /v1/health HTTP/1.1\r\nhost: x\r\n").await?;
            stream.write_all(&line).await?;
            drain(stream).await
        }
        Kind::Gzip => {
            let mut stream = target.tls(&target.h1).await?;
            let body = bomb();
            let head = format!(
                "POST /v1/enroll:join HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body).await?;
            drain(stream).await
        }
        Kind::Foreign => {
            let client = target.client(&target.foreign)?;
            let _ = call(client, "/rail.v1.JobService/ListJobs").await;
            Ok(())
        }
    }
}

/// Calls of all services, so many a second, over few connections that are made anew when they end.
async fn storm(target: Arc<Target>, per_second: f64) {
    const CONNECTIONS: usize = 8;
    let mut pace = time::interval(Duration::from_secs_f64(1.0 / per_second.max(0.1)));
    let clients: Vec<Client> = (0..CONNECTIONS).filter_map(|_| target.client(&target.nobody).ok()).collect();
    let places = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    for (client, path) in clients.iter().cycle().zip(DENIED.iter().cycle()) {
        pace.tick().await;
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let client = client.clone();
        target.calls.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let _ = call(client, path).await;
            drop(place);
        });
    }
}

async fn call(client: Client, path: &'static str) -> Result<(), tonic::Status> {
    let mut call = tonic::client::Grpc::new(client);
    call.ready().await?;
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    call.unary(tonic::Request::new(()), axum_path(path), codec).await.map(|_| ())
}

fn axum_path(path: &'static str) -> tonic::codegen::http::uri::PathAndQuery {
    tonic::codegen::http::uri::PathAndQuery::from_static(path)
}

impl Target {
    async fn tcp(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(self.address).await
    }

    async fn tls(&self, connector: &TlsConnector) -> std::io::Result<TlsStream<TcpStream>> {
        connector.connect(self.name.clone(), self.tcp().await?).await
    }

    async fn opened(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let mut stream = self.tls(&self.h2).await?;
        stream.write_all(&[PREFACE, SETTINGS].concat()).await?;
        Ok(stream)
    }

    fn client(&self, credentials: &Credentials) -> std::io::Result<Client> {
        let options = ClientOptions { keepalive_while_idle: false, ..ClientOptions::default() };
        let made = Client::new(std::slice::from_ref(&self.endpoint), credentials, &options);
        made.map_err(std::io::Error::other)
    }
}

async fn drain(mut stream: impl tokio::io::AsyncRead + Unpin) -> std::io::Result<()> {
    let mut bytes = [0; 1024];
    while stream.read(&mut bytes).await? > 0 {}
    Ok(())
}

async fn slowly(mut stream: TlsStream<TcpStream>, bytes: &[u8]) -> std::io::Result<()> {
    for byte in bytes.iter().cycle() {
        stream.write_all(std::slice::from_ref(byte)).await?;
        stream.flush().await?;
        time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Answers pings as a decent client does.
async fn pong(stream: TlsStream<TcpStream>) -> std::io::Result<()> {
    let (mut read, mut write) = tokio::io::split(stream);
    loop {
        let mut head = [0; 9];
        read.read_exact(&mut head).await?;
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        read.read_exact(&mut payload).await?;
        if head[3] == 6 && head[4] & 1 == 0 {
            write.write_all(&[&[0, 0, 8, 6, 1, 0, 0, 0, 0], payload.as_slice()].concat()).await?;
        }
    }
}

/// Gzip of some MiB of zeros: one member of deflate blocks by hand, each a run of the longest match.
fn bomb() -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    // Fixed codes: a literal zero, then matches of 258 bytes at distance 1 (code 285: 11000101, distance 0: 00000).
    bytes.extend([0x63, 0x60]);
    bytes.extend(std::iter::repeat_n([0x18, 0x05, 0xa3, 0x60], 4096).flatten());
    bytes
}
