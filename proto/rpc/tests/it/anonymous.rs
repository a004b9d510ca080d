//! Peers without an identity: what they may hold, for how long, and that others get in whatever they do.

use crate::hostile::{PREFACE, closed, frame};
use crate::support::*;
use proto_rpc::tls::client_config;
use proto_rpc::{
    AnonymousLimits, Client, Credentials, Identity, Limits, RefusedPeer, Revoked, Subject,
    listen::PeerAddress,
};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

fn with(anonymous: AnonymousLimits) -> Limits {
    Limits { anonymous, ..limits() }
}

fn nobody(world: &World) -> Client {
    client(&[world.tcp()], &Credentials::new(world.trust()))
}

async fn tls(world: &World) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let connector = TlsConnector::from(client_config(&world.trust(), None).unwrap());
    connector.connect(world.tcp().server_name().unwrap(), stream).await.unwrap()
}

/// A connection that has sent preface and settings, and answers pings as a decent client does.
async fn decent(world: &World) -> TlsStream<TcpStream> {
    let mut stream = tls(world).await;
    stream.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).await.unwrap();
    stream
}

async fn answer_pings(stream: TlsStream<TcpStream>) {
    let (mut read, mut write) = tokio::io::split(stream);
    let mut head = [0; 9];
    while read.read_exact(&mut head).await.is_ok() {
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        if read.read_exact(&mut payload).await.is_err() {
            return;
        }
        if head[3] == 6 && head[4] & 1 == 0 && write.write_all(&frame(6, 1, 0, &payload)).await.is_err() {
            return;
        }
    }
}

/// Sends this much of an opening and no more; returns when the server has closed.
async fn opened_by(world: &World, part: &[u8]) {
    let mut stream = tls(world).await;
    stream.write_all(part).await.unwrap();
    closed(&mut stream).await;
}

/// Sends an opening so slowly that it is not whole for three times as long as a handshake may take.
async fn opened_slowly(world: &World, whole: &[u8]) {
    let mut stream = tls(world).await;
    for byte in whole {
        if stream.write_all(std::slice::from_ref(byte)).await.is_err() || stream.flush().await.is_err() {
            break;
        }
        tokio::time::sleep(3 * limits().handshake / u32::try_from(whole.len()).unwrap()).await;
    }
    closed(&mut stream).await;
}

#[tokio::test]
async fn half_an_opening_is_cut_within_the_deadline_of_the_handshake() {
    let world = world().await;
    let settings = frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]);
    let whole = [PREFACE, &settings].concat();
    let part = |end: usize| opened_by(&world, &whole[..end]);
    // Byte by byte is no way around it.
    tokio::join!(part(1), part(12), part(24), part(30), part(whole.len() - 1), opened_slowly(&world, &whole));
    // Cut for want of an opening, and for nothing else.
    counted(&world.metrics, "silent", 6).await;
    // What can be no opening is not waited for.
    opened_by(&world, b"PRI * HTTP/3").await;
    counted(&world.metrics, "opening", 1).await;
    check(&world.client(&node()), "").await.unwrap();
}

#[tokio::test]
async fn an_idle_connection_that_answers_pings_ends() {
    let brief = AnonymousLimits { idle: Duration::from_millis(300), ..AnonymousLimits::default() };
    let keepalive = Duration::from_millis(50);
    let world = world_with(Limits { keepalive_interval: keepalive, ..with(brief) }, CLUSTER).await;
    let idle = tokio::spawn(answer_pings(decent(&world).await));
    // Before its age, which ends it as well.
    tokio::time::timeout(Duration::from_secs(50), idle).await.unwrap().unwrap();
    counted(&world.metrics, "idle", 1).await;
    assert_eq!(world.metrics.refused("age"), 0);
}

#[tokio::test]
async fn a_connection_at_work_ends_of_age() {
    let age = Duration::from_secs(5);
    let world = world_with(with(AnonymousLimits { age, ..AnonymousLimits::default() }), CLUSTER).await;
    let begin = Instant::now();
    let mut health = HealthClient::new(nobody(&world).without_timeout());
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    let ended = tokio::time::timeout(SOON, watch.message()).await.unwrap();
    assert!(ended.is_err() && begin.elapsed() >= age, "{ended:?}");
    counted(&world.metrics, "age", 1).await;
}

#[tokio::test]
async fn who_proves_a_token_may_stay() {
    let brief = AnonymousLimits {
        idle: Duration::from_secs(5),
        age: Duration::from_secs(5),
        ..AnonymousLimits::default()
    };
    let world = world_with(with(brief), CLUSTER).await;
    let client = nobody(&world);
    assert_eq!(rest(&client, "/v1/prove").await.0, 200);
    let mut health = HealthClient::new(client.without_timeout());
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    // Two seconds longer than one may that has proved nothing.
    let more = tokio::time::timeout(Duration::from_secs(7), watch.message()).await;
    assert!(more.is_err(), "still open: {more:?}");
}

/// What shut the administrator out: connections that are held and answer pings, half-open ones, and calls without end.
#[tokio::test]
async fn others_get_in_whatever_anonymous_peers_hold() {
    let limits = Limits { connections: 60, ..with(AnonymousLimits::default()) };
    let world = world_with(limits, CLUSTER).await;
    let mut held = Vec::new();
    for _ in 0..70 {
        held.push(tokio::spawn(answer_pings(decent(&world).await)));
    }
    let mut half = Vec::new();
    for _ in 0..70 {
        half.push(TcpStream::connect(world.address()).await.unwrap());
    }
    for n in 0..25 {
        let identity = if n % 5 == 0 { Identity::admin("root").unwrap() } else { node() };
        check(&world.client(&identity), "").await.unwrap();
    }
    assert!(world.metrics.refused("shed") > 0 && world.metrics.refused("handshake-shed") > 0);
    // A newcomer without an identity gets in too, for one that is idle.
    check(&nobody(&world), "").await.unwrap();
    held.into_iter().for_each(|task| task.abort());
}

#[tokio::test]
async fn calls_and_streams_of_anonymous_peers_are_few_and_refusals_come_late() {
    let few = AnonymousLimits {
        calls: 10,
        calls_per_ip: 6,
        pause: Duration::from_millis(300),
        strikes: 20,
        ..AnonymousLimits::default()
    };
    let world = world_with(with(few), CLUSTER).await;
    let mut watches = Vec::new();
    for n in 0..6 {
        let mut health = HealthClient::new(nobody(&world).without_timeout());
        let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert!(watch.message().await.unwrap().is_some(), "{n}");
        watches.push(watch);
    }
    let other = nobody(&world);
    let begin = Instant::now();
    let error = check(&other, "").await.unwrap_err();
    assert_eq!(error.reason, "TOO_MANY_ANONYMOUS_CALLS", "{error:?}");
    assert!(begin.elapsed() >= Duration::from_millis(290));
    assert!(world.metrics.anonymous_calls("calls-per-ip") >= 1);
    // Who has an identity does not notice.
    check(&world.client(&node()), "").await.unwrap();
    watches.pop();
    // The server hears of the end of a call when it comes to that.
    let begin = Instant::now();
    while let Err(error) = check(&other, "").await {
        assert!(begin.elapsed() < SOON, "the place of a call that has ended is not given back: {error:?}");
    }
    // Who goes on for long loses the connection.
    watches.push({
        let mut health = HealthClient::new(nobody(&world).without_timeout());
        health.watch(HealthCheckRequest::default()).await.unwrap().into_inner()
    });
    let storm: Vec<_> = (0..60)
        .map(|_| {
            let other = other.clone();
            tokio::spawn(async move { check(&other, "").await })
        })
        .collect();
    for call in storm {
        assert!(call.await.unwrap().is_err());
    }
    counted(&world.metrics, "strikes", 1).await;
}

/// The next that the server has told.
async fn reported(world: &World) -> RefusedPeer {
    let begin = Instant::now();
    while begin.elapsed() < SOON {
        if let Ok(peer) = world.refused.lock().unwrap().try_recv() {
            assert!(matches!(peer.address, PeerAddress::Tcp(_)));
            return peer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing was told")
}

#[tokio::test]
async fn a_certificate_that_is_refused_at_the_handshake_is_told() {
    let world = world().await;
    let attempts = |slot| client(&[world.tcp()], &Credentials::new(world.trust()).with_certificate(slot));
    let slot = issue(&world.ca, &node(), SystemTime::now());
    let serial = slot.certificate().unwrap().serial;
    let mut revoked = Revoked::default();
    revoked.insert(Subject::Node("n0".to_owned()), SystemTime::now());
    world.revocations.set(1, revoked);
    check(&attempts(slot), "").await.unwrap_err();
    let peer = reported(&world).await;
    assert_eq!(peer.reason, "CERTIFICATE_REVOKED");
    assert_eq!(peer.shown, Some((serial, "spiffe://rail/test/node/n0".to_owned())));
    let before = SystemTime::now() - proto_rpc::ca::LEAF_LIFETIME * 2;
    check(&attempts(issue(&world.ca, &node(), before)), "").await.unwrap_err();
    let peer = reported(&world).await;
    assert_eq!((peer.reason, peer.shown.is_some()), ("CERTIFICATE_EXPIRED", true));
    // Of an authority that is not ours nothing is believed, its dates as little as its names.
    let other = proto_rpc::Ca::create(CLUSTER, SystemTime::now(), proto_rpc::ca::CA_LIFETIME).unwrap();
    for at in [SystemTime::now(), before] {
        check(&attempts(issue(&other, &node(), at)), "").await.unwrap_err();
        let peer = reported(&world).await;
        assert_eq!((peer.reason, peer.shown), ("UNKNOWN_AUTHORITY", None));
    }
    let elsewhere = world_with(limits(), "another").await;
    let credentials = Credentials::new(elsewhere.trust()).with_certificate(issue(
        &elsewhere.ca,
        &node(),
        SystemTime::now(),
    ));
    check(&client(&[elsewhere.tcp()], &credentials), "").await.unwrap_err();
    let peer = reported(&elsewhere).await;
    assert_eq!((peer.reason, peer.shown.is_some()), ("FOREIGN_IDENTITY", true));
    // Who shows none is not told of: anonymous peers are refused by what they call.
    check(&nobody(&world), "").await.unwrap();
    assert!(world.refused.lock().unwrap().try_recv().is_err());
}
