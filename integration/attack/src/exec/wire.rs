//! Abuse of TCP, TLS and HTTP/2 on the controller's port, against a controller of its own.

use std::time::{Duration, Instant};

use integration_harness::{Controllers, procfs};
use proto_rpc::ClientOptions;
use proto_rpc::{Ca, Identity, KeyRequest, Role};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

use super::{
    call,
    h2::{self, Flood, Malformed},
    people::Target,
    tls,
};
use crate::{
    verdict::{Verdict, gave, held_if},
    world::{Part, World},
};

/// What is done to the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wire {
    /// Held open, and ended by the controller within so many seconds.
    Hold(Hold, u64),
    /// A stream of frames that costs the sender little.
    Flood(Flood),
    /// A handshake that must not succeed.
    Handshake(Handshake),
    /// Frames that are not what they should be.
    Malformed(Malformed),
    /// Connections and streams of nobody, as many as can be had.
    Crowd(Crowd),
}

/// At what point a connection stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    TcpSilent,
    HelloByte,
    HelloSlow,
    TlsSilent,
    PrefaceByte,
    PrefaceHalf,
    PrefaceSlow,
    PrefaceOnly,
    HeadersHalf,
    HeadersOpen,
    IdleAnswering,
    Http1Byte,
    Http1SlowHead,
    Http1SlowBody,
    Http1KeepAlive,
}

/// A way to begin a connection that is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handshake {
    PlainHttp,
    PlainH2,
    Garbage,
    WrongAlpn,
    OwnCaAdmin,
    OwnCaNode,
    OwnCaController,
    OtherCluster,
    Tls12,
}

/// What is had many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crowd {
    HealthWatch,
    Connections,
    SilentConnections,
    HalfHandshakes,
}

/// A controller for what is done to its port, and one with room for 60 connections.
pub struct Gate {
    // Killed when dropped.
    controllers: Controllers,
    place: Target,
}

/// Connections that the small one has room for.
const ROOM: usize = 60;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Gate {
    /// Starts a controller of its own; a `small` one has room for few connections.
    ///
    /// # Errors
    /// The controller does not start, or its address or certificate cannot be read.
    pub async fn start(small: bool) -> Result<Self, String> {
        let room = ROOM.to_string();
        let controllers = tokio::task::spawn_blocking(move || {
            let mut args = vec!["--log-level", "warn"];
            if small {
                args.extend(["--max-connections", &room]);
            }
            Controllers::start(1, &args)
        });
        let controllers = controllers.await.map_err(text)??;
        let folder = controllers.folder(0);
        let ca = std::fs::read_to_string(folder.join("ca.pem")).map_err(text)?;
        let endpoint = controllers.addresses().parse().map_err(text)?;
        let place = Target { endpoint, ca };
        Ok(Self { controllers, place })
    }

    fn rss_mib(&self) -> u64 {
        self.controllers.pid(0).map_or(0, procfs::rss_mib)
    }

    /// Whether its administrator is served, on a connection of their own, and how fast.
    async fn serves(&self) -> Result<Duration, String> {
        let begin = Instant::now();
        let patient = ClientOptions { connect_timeout: SERVED, ..ClientOptions::default() };
        let client = self.controllers.client(&[0], &patient)?;
        let answer = call::call(&client, "rail.v1.HealthService/GetHealth", &json!({})).await?;
        match answer.error {
            None => Ok(begin.elapsed()),
            Some(_) => Err(answer.words()),
        }
    }
}

/// Makes one attempt and judges it.
///
/// # Errors
/// What kept the attempt from being made, as text: a part that it needs did not start or did not answer.
pub async fn perform(world: &World, wire: Wire) -> Result<Verdict, String> {
    let small = matches!(wire, Wire::Crowd(crowd) if crowd != Crowd::HealthWatch);
    let part = if small { Part::SmallGate } else { Part::Gate };
    let gate: &Gate = world.part(part, || Gate::start(small)).await?;
    match wire {
        Wire::Hold(hold, seconds) => held(&gate.place, hold, Duration::from_secs(seconds)).await,
        Wire::Flood(flood) => flooded(gate, flood).await,
        Wire::Handshake(shake) => shaken(gate, shake).await,
        Wire::Malformed(what) => malformed(gate, what).await,
        Wire::Crowd(crowd) => crowded(gate, crowd).await,
    }
}

/// Reads until the end comes; false if it does not in time. Pings are answered if that is wanted.
async fn ended<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, within: Duration, answer: bool) -> bool {
    let mut parser = h2::Frames::default();
    let until_end = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(length) if answer => {
                    for reply in parser.take(&buffer[..length]) {
                        let _ = stream.write_all(&reply).await;
                    }
                    let _ = stream.flush().await;
                }
                Ok(_) => {}
            }
        }
    };
    timeout(within, until_end).await.is_ok()
}

/// Bytes that are written one after the other, with a pause between them.
async fn slowly<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    bytes: Vec<u8>,
    pause: Duration,
    within: Duration,
) -> bool {
    let (mut read, mut write) = tokio::io::split(stream);
    let drip = async {
        for byte in bytes {
            if write.write_all(&[byte]).await.is_err() || write.flush().await.is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
        std::future::pending::<()>().await;
    };
    let end = async {
        let mut buffer = [0; 4096];
        while matches!(read.read(&mut buffer).await, Ok(length) if length > 0) {}
    };
    let over = timeout(within, async {
        tokio::select! { () = drip => (), () = end => () }
    });
    over.await.is_ok()
}

async fn held(place: &Target, hold: Hold, within: Duration) -> Result<Verdict, String> {
    let begin = Instant::now();
    let second = Duration::from_secs(1);
    let half = second / 2;
    let hello = h2::client_hello();
    let h2 = || tls::connect(place, None, b"h2");
    let h1 = || tls::connect(place, None, b"http/1.1");
    let over = match hold {
        Hold::TcpSilent => ended(&mut tls::tcp(place).await?, within, false).await,
        Hold::HelloByte => slowly(tls::tcp(place).await?, hello[..1].to_vec(), second, within).await,
        Hold::HelloSlow => slowly(tls::tcp(place).await?, hello, half, within).await,
        Hold::TlsSilent => ended(&mut h2().await?, within, false).await,
        Hold::PrefaceByte => slowly(h2().await?, h2::PREFACE[..1].to_vec(), second, within).await,
        Hold::PrefaceHalf => {
            let mut stream = h2().await?;
            stream.write_all(&h2::PREFACE[..12]).await.map_err(text)?;
            ended(&mut stream, within, false).await
        }
        Hold::PrefaceSlow => slowly(h2().await?, h2::PREFACE.to_vec(), second * 2, within).await,
        Hold::PrefaceOnly => opened(place, h2::PREFACE, within, false).await?,
        Hold::HeadersHalf => {
            let frame = h2::request(1, "/grpc.health.v1.Health/Check", &[], false);
            let bytes = [h2::PREFACE, &h2::frame(4, 0, 0, &[]), &frame[..frame.len() / 2]].concat();
            opened(place, &bytes, within, false).await?
        }
        Hold::HeadersOpen => {
            let frame = h2::request(1, "/grpc.health.v1.Health/Check", &[], false);
            let bytes = [h2::PREFACE, &h2::frame(4, 0, 0, &[]), &frame].concat();
            opened(place, &bytes, within, true).await?
        }
        Hold::IdleAnswering => {
            let bytes = [h2::PREFACE, &h2::frame(4, 0, 0, &[])].concat();
            opened(place, &bytes, within, true).await?
        }
        Hold::Http1Byte => slowly(h1().await?, b"G".to_vec(), second, within).await,
        Hold::Http1SlowHead => {
            let head = format!("GET /v1/jobs HTTP/1.1\r\nX-A: {}", "a".repeat(1000));
            slowly(h1().await?, head.into_bytes(), half, within).await
        }
        Hold::Http1SlowBody => {
            let mut stream = h1().await?;
            let head = b"POST /v1/join HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
            stream.write_all(head).await.map_err(text)?;
            slowly(stream, vec![b' '; 1000], half, within).await
        }
        Hold::Http1KeepAlive => {
            let mut stream = h1().await?;
            stream.write_all(b"GET /v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n").await.map_err(text)?;
            ended(&mut stream, within, false).await
        }
    };
    Ok(held_if(over, || format!("open after {} s", begin.elapsed().as_secs())))
}

async fn opened(place: &Target, bytes: &[u8], within: Duration, answer: bool) -> Result<bool, String> {
    let mut stream = tls::connect(place, None, b"h2").await?;
    stream.write_all(bytes).await.map_err(text)?;
    stream.flush().await.map_err(text)?;
    Ok(ended(&mut stream, within, answer).await)
}

/// Most that a flood may cost the controller.
const GROWTH_MIB: u64 = 64;
/// A flood ends after so long, and what is malformed is waited for.
const LASTS: Duration = Duration::from_secs(12);
/// Others are served within this, which is while it goes on, and before their own patience ends.
pub const SERVED: Duration = Duration::from_secs(9);

async fn flooded(gate: &Gate, flood: Flood) -> Result<Verdict, String> {
    let before = gate.rss_mib();
    let mut stream = tls::connect(&gate.place, None, b"h2").await?;
    let (count, frames) = h2::flood(flood);
    let send = async {
        let _ = stream.write_all(&[h2::PREFACE, &h2::frame(4, 0, 0, &[])].concat()).await;
        for number in 0..count {
            if stream.write_all(&frames(number)).await.is_err() {
                return;
            }
        }
        let _ = stream.flush().await;
        // What is left of the answers.
        let _ = ended(&mut stream, Duration::from_millis(500), false).await;
    };
    let (_, served) = tokio::join!(timeout(LASTS, send), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        gate.serves().await
    });
    let grown = gate.rss_mib().saturating_sub(before);
    let taken = served?;
    if taken > SERVED {
        return Ok(gave(format!("its administrator waited {} ms", taken.as_millis())));
    }
    Ok(held_if(grown <= GROWTH_MIB, || format!("the controller grew by {grown} MiB")))
}

async fn shaken(gate: &Gate, shake: Handshake) -> Result<Verdict, String> {
    let forged = |cluster: &str, identity: Result<Identity, proto_rpc::identity::IdentityError>| {
        let now = std::time::SystemTime::now();
        let ca = Ca::create(cluster, now, Duration::from_secs(3600)).map_err(text)?;
        let key = KeyRequest::generate().map_err(text)?;
        let identity = identity.map_err(text)?;
        let issued = ca.issue(&key.csr_pem, &identity, Duration::from_secs(600), now).map_err(text)?;
        gate.place.with(&issued.chain_pem, &key.key_pem, "forged")
    };
    let cluster = gate.cluster();
    let person = match shake {
        Handshake::PlainHttp => {
            return plain(gate, b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()).await;
        }
        Handshake::PlainH2 => {
            let request = h2::request(1, "/grpc.health.v1.Health/Check", &[], true);
            return plain(gate, [h2::PREFACE, &h2::frame(4, 0, 0, &[]), &request].concat()).await;
        }
        Handshake::Garbage => {
            return plain(gate, (0..4096_u32).map(|n| ((n * 7919) >> 3) as u8).collect()).await;
        }
        Handshake::Tls12 => return plain(gate, h2::client_hello_12()).await,
        Handshake::WrongAlpn => {
            let refused = match tls::connect(&gate.place, None, b"smtp").await {
                Err(_) => true,
                Ok(mut stream) => ended(&mut stream, Duration::from_secs(8), false).await,
            };
            return Ok(held_if(refused, || "it speaks with who speaks something else".to_owned()));
        }
        Handshake::OwnCaAdmin => forged(&cluster, Identity::admin("admin"))?,
        Handshake::OwnCaNode => forged(&cluster, Identity::node("n0"))?,
        Handshake::OwnCaController => forged(&cluster, Ok(Identity::Controller))?,
        Handshake::OtherCluster => forged("other", Identity::user("alpha", "ann", [Role::TenantAdmin]))?,
    };
    let answer = call::call(&person.client, "rail.v1.TenantService/WhoAmI", &json!({})).await?;
    Ok(held_if(answer.error.is_some() && !answer.text().contains("railyard://"), || answer.words()))
}

/// Bytes without TLS: nothing of HTTP may come back.
async fn plain(gate: &Gate, bytes: Vec<u8>) -> Result<Verdict, String> {
    let mut stream = tls::tcp(&gate.place).await?;
    stream.write_all(&bytes).await.map_err(text)?;
    let mut answer = Vec::new();
    let mut limited = (&mut stream).take(4096);
    let over = timeout(Duration::from_secs(8), limited.read_to_end(&mut answer)).await.is_ok();
    // A TLS alert is what may come: 0x15.
    let alert = answer.is_empty() || answer[0] == 0x15;
    Ok(held_if(over && alert, || format!("ended: {over}, answered {:02x?}", &answer[..answer.len().min(16)])))
}

async fn malformed(gate: &Gate, what: Malformed) -> Result<Verdict, String> {
    let mut stream = tls::connect(&gate.place, None, b"h2").await?;
    for part in h2::malformed(what) {
        if stream.write_all(&part).await.is_err() {
            break;
        }
    }
    let _ = stream.flush().await;
    let mut seen = h2::Seen::default();
    let mut buffer = vec![0; 16 * 1024];
    let read = async {
        while let Ok(length) = stream.read(&mut buffer).await {
            if length == 0 || seen.take(&buffer[..length]) {
                return;
            }
        }
    };
    let over = timeout(LASTS, read).await.is_ok();
    let served = gate.serves().await?;
    let refused = over || seen.refused();
    Ok(held_if(refused && served <= SERVED, || format!("{seen:?}, connection ended: {over}")))
}

async fn crowded(gate: &Gate, crowd: Crowd) -> Result<Verdict, String> {
    match crowd {
        Crowd::HealthWatch => health_watches(gate).await,
        Crowd::Connections | Crowd::SilentConnections | Crowd::HalfHandshakes => {
            connections(gate, crowd).await
        }
    }
}

/// Streams of one address that nobody had to say a name for.
const WATCHES: usize = 3_000;

async fn health_watches(gate: &Gate) -> Result<Verdict, String> {
    let (before, mut streams, mut open) = (gate.rss_mib(), Vec::new(), 0);
    for _ in 0..(WATCHES / 200) {
        let Ok(mut stream) = tls::connect(&gate.place, None, b"h2").await else { break };
        let mut bytes = [h2::PREFACE, &h2::frame(4, 0, 0, &[])].concat();
        for number in 0..200 {
            let body = h2::frame(0, 1, 2 * number + 1, &[0; 5]);
            bytes.extend(h2::request(2 * number + 1, "/grpc.health.v1.Health/Watch", &[], false));
            bytes.extend(body);
        }
        if stream.write_all(&bytes).await.is_err() {
            continue;
        }
        let mut seen = h2::Seen::default();
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(Ok(length)) = timeout(Duration::from_millis(250), stream.read(&mut buffer)).await {
            if length == 0 {
                break;
            }
            seen.take(&buffer[..length]);
        }
        open += seen.open_streams();
        streams.push(stream);
    }
    let grown = gate.rss_mib().saturating_sub(before);
    let served = gate.serves().await?;
    let words = || {
        format!(
            "{open} of {WATCHES} streams of one address are open, {grown} MiB more, administrator served in {} ms",
            served.as_millis()
        )
    };
    Ok(held_if(open < WATCHES / 2 && grown <= GROWTH_MIB && served <= SERVED, words))
}

/// More connections than there is room for, then the administrator.
async fn connections(gate: &Gate, crowd: Crowd) -> Result<Verdict, String> {
    let (mut silent, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..ROOM + 10 {
        match crowd {
            Crowd::SilentConnections => silent.extend(tls::tcp(&gate.place).await.ok()),
            Crowd::HalfHandshakes => {
                let mut stream = tls::tcp(&gate.place).await?;
                let _ = stream.write_all(&h2::client_hello()[..40]).await;
                silent.push(stream);
            }
            _ => {
                let connected =
                    timeout(Duration::from_millis(500), tls::connect(&gate.place, None, b"h2")).await;
                if let Ok(Ok(mut stream)) = connected {
                    let _ = stream.write_all(&[h2::PREFACE, &h2::frame(4, 0, 0, &[])].concat()).await;
                    let _ = stream.flush().await;
                    idle.push(stream);
                }
            }
        }
    }
    let (held, served) = (silent.len() + idle.len(), gate.serves().await);
    drop((silent, idle));
    // The next attempt finds an empty room.
    let _ = integration_wait(gate).await;
    Ok(match served {
        Ok(taken) => {
            held_if(taken <= SERVED, || format!("the administrator waited {} ms", taken.as_millis()))
        }
        Err(error) => {
            gave(format!("beside {held} connections of nobody the administrator was refused: {error}"))
        }
    })
}

async fn integration_wait(gate: &Gate) -> Result<Duration, String> {
    let mut last = Err(String::new());
    for _ in 0..40 {
        last = gate.serves().await;
        if last.is_ok() {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    last
}

impl Gate {
    fn cluster(&self) -> String {
        let json = std::fs::read_to_string(self.controllers.folder(0).join("controller.json"));
        let json: serde_json::Value =
            json.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        json["cluster"].as_str().unwrap_or("rail").to_owned()
    }
}
