//! What a bad peer can do: say nothing, say nonsense, come too often, say too much. Others must not notice.

use crate::support::*;
use proto_rpc::server::ServerMetrics;
use proto_rpc::tls::client_config;
use proto_rpc::{Client, ErrorClass, Identity, Limits, MAX_MESSAGE_BYTES, Metrics, Server};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::metadata::MetadataValue;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Reads until the server closes; fails if it does not before pings that are not answered would end the connection.
pub async fn closed(stream: &mut (impl AsyncReadExt + Unpin)) {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(25), stream.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "the server kept the connection");
}

#[tokio::test]
async fn a_silent_client_is_cut() {
    let world = world().await;
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    let mut half = TcpStream::connect(world.address()).await.unwrap();
    half.write_all(&[22, 3, 1, 1, 0, 1]).await.unwrap();
    closed(&mut stream).await;
    closed(&mut half).await;
    counted(&world.metrics, "handshake-timeout", 2).await;
}

#[tokio::test]
async fn a_client_that_is_silent_after_its_handshake_is_cut() {
    let world = world().await;
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let connector = TlsConnector::from(client_config(&world.trust(), None).unwrap());
    let mut stream = connector.connect(world.tcp().server_name().unwrap(), stream).await.unwrap();
    closed(&mut stream).await;
    counted(&world.metrics, "silent", 1).await;
}

#[tokio::test]
async fn garbage_is_refused_and_others_are_served() {
    let world = world().await;
    let client = world.client(&node());
    check(&client, "").await.unwrap();
    let mut jitter = proto_rpc::Jitter::seeded(42);
    for round in 0..50 {
        let mut stream = TcpStream::connect(world.address()).await.unwrap();
        let length = 1 + usize::try_from(jitter.up_to(Duration::from_micros(2000)).as_micros()).unwrap();
        let bytes: Vec<u8> =
            (0..length).map(|_| (jitter.up_to(Duration::from_micros(255)).as_micros() % 256) as u8).collect();
        // A first byte that is no TLS record type is refused at once; others would wait for the timeout.
        let bytes = [b"G", &bytes[..]].concat();
        let _ = stream.write_all(&bytes).await;
        closed(&mut stream).await;
        assert!(check(&client, "").await.is_ok(), "round {round}, seed 42");
    }
    counted(&world.metrics, "handshake", 50).await;
    check(&world.client(&node()), "").await.unwrap();
}

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Methods and paths that HPACK's static table has: GET, https, `/`.
const GET_ROOT: [u8; 3] = [0x82, 0x87, 0x84];

/// One HTTP/2 frame (RFC 9113, 4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A connection that has shaken hands for HTTP/2 and sent preface and settings.
async fn http2(world: &World) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let connector = TlsConnector::from(client_config(&world.trust(), None).unwrap());
    let mut stream = connector.connect(world.tcp().server_name().unwrap(), stream).await.unwrap();
    stream.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).await.unwrap();
    stream
}

/// Writes `bytes` again and again until the server ends the connection; fails if it takes `limit` rounds.
async fn flood(stream: TlsStream<TcpStream>, limit: u32, mut bytes: impl FnMut(u32) -> Vec<u8>) {
    let (mut read, mut write) = tokio::io::split(stream);
    let reader = tokio::spawn(async move { tokio::io::copy(&mut read, &mut tokio::io::sink()).await });
    let mut round = 0;
    while !reader.is_finished() && write.write_all(&bytes(round)).await.is_ok() {
        round += 1;
        assert!(round < limit, "the server lets the flood go on");
    }
    // Dropping our side unblocks a reader that waits for the rest of a closed connection.
    let _ = write.shutdown().await;
    let ended = tokio::time::timeout(SOON, reader).await;
    assert!(ended.is_ok(), "the server kept the connection");
}

#[tokio::test]
async fn garbage_inside_tls_is_refused_too() {
    let world = world().await;
    let mut stream = http2(&world).await;
    stream.write_all(&[0xff; 64]).await.unwrap();
    closed(&mut stream).await;
    check(&world.client(&node()), "").await.unwrap();
}

/// The class of RUSTSEC-2024-0003: streams that are opened and reset at once.
#[tokio::test]
async fn a_flood_of_resets_ends_the_connection() {
    let world = world().await;
    let other = world.client(&node());
    check(&other, "").await.unwrap();
    let begin_and_reset = |round: u32| {
        let stream = 2 * round + 1;
        let headers = frame(1, 0x4, stream, &GET_ROOT);
        [headers, frame(3, 0, stream, &8u32.to_be_bytes())].concat()
    };
    flood(http2(&world).await, 100_000, begin_and_reset).await;
    check(&other, "").await.unwrap();
}

/// The class of RUSTSEC-2024-0332: a head that never ends.
#[tokio::test]
async fn a_flood_of_continuations_ends_the_connection() {
    let world = world().await;
    let other = world.client(&node());
    check(&other, "").await.unwrap();
    // A literal header without indexing, name `x`, and 8000 bytes of value.
    let header = [&[0x00, 1, b'x', 0x7f, 0xc1, 0x3d][..], &[b'y'; 8000]].concat();
    let endless = |round: u32| match round {
        0 => frame(1, 0, 1, &GET_ROOT),
        _ => frame(9, 0, 1, &header),
    };
    flood(http2(&world).await, 2000, endless).await;
    check(&other, "").await.unwrap();
}

#[tokio::test]
async fn connections_are_capped_in_all_and_per_address() {
    for (limits, cause) in [
        (Limits { connections: 3, ..limits() }, "total"),
        (Limits { connections_per_ip: 3, ..limits() }, "per-ip"),
    ] {
        let world = world_with(limits, CLUSTER).await;
        let mut open = Vec::new();
        for _ in 0..3 {
            let client = world.client(&node());
            check(&client, "").await.unwrap();
            open.push(client);
        }
        let error = check(&world.client(&node()), "").await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Unavailable, "{error:?}");
        counted(&world.metrics, cause, 1).await;
        if cause == "per-ip" {
            let unix = client(&world.endpoints[1..], &world.credentials(&node()));
            check(&unix, "").await.unwrap();
        }
        check(&open[0], "").await.unwrap();
        drop(open);
        let begin = Instant::now();
        while check(&world.client(&node()), "").await.is_err() {
            assert!(begin.elapsed() < SOON, "places are not given back");
        }
    }
}

#[tokio::test]
async fn calls_of_one_connection_are_capped_and_controllers_have_more() {
    let world = world_with(Limits { streams: 4, controller_streams: 40, ..limits() }, CLUSTER).await;
    let watch = |client: &Client| {
        let mut health = HealthClient::new(client.without_timeout());
        async move {
            let mut stream = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
            stream.message().await.unwrap().unwrap();
            stream
        }
    };
    for (identity, most) in [(node(), 4), (Identity::Controller, 40)] {
        let client = world.client(&identity);
        let mut open = Vec::new();
        for _ in 0..most {
            open.push(watch(&client).await);
        }
        let mut one_more = tokio::spawn(watch(&client));
        let short = tokio::time::timeout(Duration::from_millis(200), &mut one_more).await;
        assert!(short.is_err(), "{identity} has more than {most}");
        open.pop();
        one_more.await.unwrap();
    }
}

#[tokio::test]
async fn too_large_messages_and_headers_are_refused() {
    let world = world().await;
    let client = world.client(&node());
    let error = check(&client, &"x".repeat(MAX_MESSAGE_BYTES + 1)).await.unwrap_err();
    assert_eq!((error.class, error.exit_code()), (ErrorClass::TooLarge, 2));
    let mut request = tonic::Request::new(HealthCheckRequest::default());
    let long = MetadataValue::try_from("x".repeat(20 * 1024)).unwrap();
    request.metadata_mut().insert("x-long", long);
    assert!(HealthClient::new(client.clone()).check(request).await.is_err());
    check(&client, "").await.unwrap();
}

#[tokio::test]
async fn plain_http_stays_on_loopback_and_serves_metrics() {
    let registry = Metrics::new("test", "0", SystemTime::now());
    let metrics = ServerMetrics::new(&registry);
    let far = "0.0.0.0:0".parse().unwrap();
    assert!(Server::bind_plain(far, limits(), metrics.clone()).await.is_err());
    let server = Server::bind_plain("127.0.0.1:0".parse().unwrap(), limits(), metrics).await.unwrap();
    let address = server.addresses().unwrap()[0].to_string();
    let stop = tokio_util::sync::CancellationToken::new();
    let task = tokio::spawn(server.serve(registry.router(std::sync::Arc::new(Vec::new)), stop.clone()));
    for (path, expected) in
        [("/metrics", "rail_build_info{"), ("/healthz", "ok"), ("/livez", "ok"), ("/readyz", "ok")]
    {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK") && text.contains(expected), "{text}");
    }
    stop.cancel();
    assert_eq!(task.await.unwrap(), 0);
}
