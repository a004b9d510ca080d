//! Ends and beginnings: draining, cutting, restarts, several addresses.

use crate::support::*;
use proto_rpc::{Credentials, Endpoint, ErrorClass, Jitter, Limits, RetryPolicy, retry};
use std::time::{Duration, Instant};
use tonic::Status;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::test]
async fn a_call_in_flight_ends_well_while_new_ones_are_refused() {
    let world = world().await;
    let client = world.client(&node());
    let call = tokio::spawn({
        let client = client.clone();
        async move { check(&client, "wait").await }
    });
    world.probe.entered.notified().await;
    world.stop.cancel();
    let error = loop {
        // The listener closes shortly after the stop; until then a connection may still be accepted.
        if let Err(error) = check(&world.client(&node()), "").await {
            break error;
        }
    };
    assert_eq!(error.class, ErrorClass::Unavailable, "{error:?}");
    world.probe.go_on.notify_one();
    call.await.unwrap().unwrap();
    assert_eq!(world.task.await.unwrap(), 0);
}

#[tokio::test]
async fn a_stream_without_end_is_cut_at_the_deadline() {
    let world = world_with(Limits { drain: Duration::from_millis(100), ..limits() }, CLUSTER).await;
    let mut health = HealthClient::new(world.client(&node()).without_timeout());
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    let begin = Instant::now();
    assert_eq!(world.end().await, 1);
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert!(watch.message().await.is_err());
}

#[tokio::test]
async fn several_addresses_are_tried_in_turn() {
    let world = world().await;
    let dead = Endpoint::Unix { path: "/nonexistent/controller.sock".into() };
    let credentials = world.credentials(&node());
    check(&client(&[dead.clone(), world.tcp()], &credentials), "").await.unwrap();
    let error = check(&client(&[dead.clone(), dead], &credentials), "").await.unwrap_err();
    assert_eq!((error.class, error.exit_code()), (ErrorClass::Unavailable, 7));
    assert!(error.message.contains("unix:/nonexistent/controller.sock"), "{error}");
}

#[tokio::test]
async fn retries_end_when_the_server_returns_and_when_it_does_not() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let world = world().await;
    let nobody = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: address.port() };
    let client = client(&[nobody], &Credentials::new(world.trust()));
    let policy = RetryPolicy { attempts: 3, first: Duration::from_millis(5), ..RetryPolicy::default() };
    let mut calls = 0;
    let result = retry(&policy, &mut Jitter::seeded(1), |_| {
        calls += 1;
        let client = client.clone();
        async move { check(&client, "").await.map_err(Status::from) }
    })
    .await;
    assert_eq!(calls, 3);
    assert_eq!(result.unwrap_err().code(), tonic::Code::Unavailable);

    let good = world.client(&node());
    let result = retry(&policy, &mut Jitter::seeded(1), |attempt| {
        let client = if attempt < 3 { client.clone() } else { good.clone() };
        async move { check(&client, "").await.map_err(Status::from) }
    })
    .await;
    result.unwrap();
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_costs_the_connect_timeout_only() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let world = world().await;
    let options = proto_rpc::ClientOptions {
        connect_timeout: Duration::from_millis(100),
        ..proto_rpc::ClientOptions::default()
    };
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
    let client = proto_rpc::Client::new(&[endpoint], &world.credentials(&node()), &options).unwrap();
    let begin = Instant::now();
    let error = check(&client, "").await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable);
    assert!(error.message.contains("within 100 ms"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(5));
}
