//! What goes along with a call: deadlines, trace contexts, tokens, errors with their details.

use crate::support::*;
use opentelemetry_sdk::trace::SdkTracerProvider;
use proto_rpc::{ErrorClass, Token, TokenKind, telemetry, trace};
use std::time::Duration;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

#[tokio::test]
async fn an_error_keeps_its_class_reason_and_fields() {
    let world = world().await;
    assert_eq!(check(&world.client(&node()), "quota").await.unwrap_err(), quota());
}

#[tokio::test]
async fn a_panic_costs_its_own_call_only() {
    let world = world().await;
    let client = world.client(&node());
    let mut watch =
        HealthClient::new(client.clone()).watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    let error = check(&client, "panic").await.unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Internal, "PANIC"));
    world.probe.go_on.notify_one();
    assert!(watch.message().await.unwrap().is_some(), "the stream on the same connection lives");
}

#[tokio::test]
async fn a_deadline_ends_the_call_on_both_sides() {
    let world = world().await;
    // Connected before the time of the call begins.
    let client = world.client(&node());
    check(&client, "").await.unwrap();
    let error = check(&client.with_timeout(Duration::from_secs(3)), "never").await.unwrap_err();
    assert_eq!((error.class, error.exit_code()), (ErrorClass::Timeout, 7));
    for seen in [&world.probe.entered, &world.probe.dropped] {
        tokio::time::timeout(SOON, seen.notified()).await.unwrap();
    }

    let mut request = tonic::Request::new(HealthCheckRequest { service: "never".to_owned() });
    request.set_timeout(Duration::from_millis(50));
    let status = HealthClient::new(world.client(&node()).without_timeout()).check(request).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_stream_outlives_the_default_deadline() {
    let world = world().await;
    let client = world.client(&node());
    check(&client, "").await.unwrap();
    let mut watch = HealthClient::new(client.with_timeout(Duration::from_secs(3)))
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert!(watch.message().await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(4)).await;
    world.probe.go_on.notify_one();
    assert!(watch.message().await.unwrap().is_some());
}

#[tokio::test]
async fn what_is_not_there_is_refused_in_the_caller_s_language() {
    let world = world().await;
    let client = world.client(&node());
    let (status, body) = rest(&client, "/v1/nothing").await;
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["error"]["reason"]), (404, &"UNKNOWN_PATH".into()));
    let mut request =
        axum::http::Request::post("/rail.v1.Nothing/Nothing").body(tonic::body::Body::empty()).unwrap();
    request.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    let mut client = client;
    std::future::poll_fn(|context| tower::Service::poll_ready(&mut client, context)).await.unwrap();
    let response = tower::Service::call(&mut client, request).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "12");
}

#[tokio::test]
async fn a_token_reaches_the_server_and_no_log() {
    let world = world().await;
    let token = Token::generate(TokenKind::User).unwrap();
    let credentials = proto_rpc::Credentials::new(world.trust()).with_token(token.clone());
    let client = client(&[world.tcp()], &credentials);
    check(&client, "").await.unwrap();
    let seen = world.probe.authorization.lock().unwrap().take();
    assert_eq!(seen, Some(format!("Bearer {}", token.reveal())));
    let secret = token.reveal().rsplit('.').next().unwrap().to_owned();
    assert!(!format!("{client:?}").contains(&secret));
    assert!(!format!("{credentials:?}").contains(&secret));
}

#[tokio::test]
async fn one_trace_goes_through_client_server_and_a_stored_text() {
    // For the whole test process, as in a real one: a subscriber of one thread shares its cache of what is
    // enabled with the threads of other tests, which have none.
    let provider = SdkTracerProvider::builder().build();
    let tracer = telemetry::tracer(&provider, "test");
    let subscriber = tracing_subscriber::registry().with(telemetry::span_layer(tracer));
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let world = world().await;
    let client = world.client(&node());
    let span = tracing::info_span!("submit");
    let (mine, id) =
        span.in_scope(|| (trace::current_traceparent().unwrap(), trace::current_trace_id().unwrap()));
    check(&client, "").instrument(span).await.unwrap();
    let theirs = world.probe.traceparents.lock().unwrap().pop().flatten().unwrap();
    assert!(theirs.contains(&id), "{theirs} is not of {id}");
    assert_ne!(theirs, mine, "the server has a span of its own");

    let later = tracing::info_span!("start");
    trace::follow(&later, &mine);
    assert_eq!(later.in_scope(trace::current_trace_id), Some(id));
    let alone = tracing::info_span!("start");
    trace::follow(&alone, "00-nonsense");
    assert_ne!(alone.in_scope(trace::current_traceparent), Some(mine));
}
