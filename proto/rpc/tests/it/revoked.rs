//! Certificates that are taken back: refused at the handshake, and their live connections end.

use crate::support::*;
use proto_rpc::{Client, ErrorClass, Identity, Revoked, Subject};
use std::time::{Duration, SystemTime};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

fn revoked(subject: Subject) -> Revoked {
    let mut revoked = Revoked::default();
    revoked.insert(subject, SystemTime::now());
    revoked
}

async fn watch(client: &Client) -> tonic::Streaming<tonic_health::pb::HealthCheckResponse> {
    let mut health = HealthClient::new(client.without_timeout());
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    watch
}

#[tokio::test]
async fn a_live_connection_ends_and_the_next_is_refused_by_name() {
    let world = world().await;
    let other = Identity::node("n1").unwrap();
    let clients = [world.client(&node()), world.client(&other)];
    let (mut first, mut second) = (watch(&clients[0]).await, watch(&clients[1]).await);
    world.revocations.set(1, revoked(Subject::Node("n0".to_owned())));
    let ended = tokio::time::timeout(SOON, first.message()).await;
    assert!(ended.unwrap().is_err(), "the stream broke");
    counted(&world.metrics, "revoked", 1).await;
    let error = check(&clients[0], "").await.unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Unauthenticated, "CERTIFICATE_REVOKED"));
    assert!(error.message.contains("railctl node token"), "{error}");
    // Nobody else is disturbed.
    world.probe.go_on.notify_waiters();
    assert!(second.message().await.unwrap().is_some());
    assert_eq!(world.metrics.refused("revoked"), 1);
    // What is issued afterwards, in the very same second, is good.
    let later = world.revocations.get().issue_time(&node(), SystemTime::now());
    let credentials =
        proto_rpc::Credentials::new(world.trust()).with_certificate(issue(&world.ca, &node(), later));
    check(&client(&[world.tcp()], &credentials), "").await.unwrap();
}

#[tokio::test]
async fn a_connection_ends_with_its_certificate() {
    let world = world().await;
    let then = SystemTime::now() + Duration::from_secs(5) - proto_rpc::ca::LEAF_LIFETIME;
    let slot = issue(&world.ca, &node(), then);
    let ends = slot.certificate().unwrap().not_after;
    let credentials = proto_rpc::Credentials::new(world.trust()).with_certificate(slot);
    let mut open = watch(&client(&[world.tcp()], &credentials)).await;
    assert!(tokio::time::timeout(SOON, open.message()).await.unwrap().is_err());
    assert!(SystemTime::now() >= ends, "not before its end");
    counted(&world.metrics, "expired", 1).await;
}

#[tokio::test]
async fn one_certificate_is_taken_back_by_its_serial_number() {
    let world = world().await;
    let (credentials, other) = (world.credentials(&node()), world.credentials(&node()));
    let serial = credentials.slot().unwrap().certificate().unwrap().serial;
    world.revocations.set(1, revoked(format!("serial/{serial}").parse().unwrap()));
    let error = check(&client(&[world.tcp()], &credentials), "").await.unwrap_err();
    assert_eq!(error.reason, "CERTIFICATE_REVOKED");
    check(&client(&[world.tcp()], &other), "").await.unwrap();
}
