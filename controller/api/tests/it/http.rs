//! What clients of HTTP expect of any server: methods, media types, sizes and encodings.

use std::io::Read;

use axum::{
    body::Bytes,
    http::{HeaderMap, Request},
};
use http_body_util::{BodyExt, Full};
use proto_rpc::{Client, Identity, Role};
use serde_json::{Value, json};
use tonic::body::Body;
use tower::Service;

use crate::{
    agent::{Behaviour, FakeAgent},
    world::World,
};

pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

pub async fn ask(
    client: &mut Client,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::new(Full::from(Bytes::copy_from_slice(body.as_bytes())))).unwrap();
    std::future::poll_fn(|context| client.poll_ready(context)).await.unwrap();
    let (parts, body) = client.call(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status.as_u16(), headers: parts.headers, body }
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test(flavor = "multi_thread")]
async fn methods_and_media_types_that_are_not_taken_say_what_is() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut client = world.user("default");
    for (method, path, allow) in [
        ("PATCH", "/v1/jobs", "POST, GET, HEAD"),
        ("HEAD", "/v1/jobs:plan", "POST"),
        ("DELETE", "/v1/openapi.json", "GET, HEAD"),
    ] {
        let answer = ask(&mut client, method, path, &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, allow), "{method} {path}");
        if method != "HEAD" {
            let error = &answer.json()["error"];
            assert_eq!((&error["code"], &error["reason"]), (&json!(405), &json!("METHOD_NOT_ALLOWED")));
        }
    }
    for (headers, status) in [
        (&[JSON][..], 400),
        (&[][..], 400),
        (&[("content-type", "application/json; charset=utf-8")][..], 400),
        (&[("content-type", "application/x-www-form-urlencoded")][..], 415),
        (&[("content-type", "text/plain")][..], 415),
        (&[JSON, ("content-encoding", "gzip")][..], 415),
    ] {
        let answer = ask(&mut client, "POST", "/v1/jobs", headers, "{\"metadata\": 1}").await;
        assert_eq!(answer.status, status, "{headers:?}");
        assert_eq!(answer.json()["error"]["code"], json!(status), "{headers:?}");
    }
    // Without a body there is nothing that has a type.
    let typed = ask(&mut client, "GET", "/v1/jobs", &[("content-type", "text/plain")], "").await;
    assert_eq!(typed.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn head_is_get_without_a_body() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut client = world.user("default");
    for path in ["/v1/health", "/v1/jobs", "/v1/openapi.json", "/v1/jobs/none"] {
        let get = ask(&mut client, "GET", path, &[], "").await;
        let head = ask(&mut client, "HEAD", path, &[], "").await;
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        assert_eq!(head.header("content-length"), get.body.len().to_string(), "{path}");
    }
    // A watch that only its head is asked for ends with it.
    let watch = ask(&mut client, "HEAD", "/v1/jobs:watch", &[], "").await;
    assert_eq!((watch.status, watch.header("content-type")), (200, "application/x-ndjson"));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_answers_are_packed_for_who_takes_it() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut client = world.user("default");
    let plain = ask(&mut client, "GET", "/v1/openapi.json", &[], "").await;
    let takes = [("accept-encoding", "gzip, deflate")];
    let packed = ask(&mut client, "GET", "/v1/openapi.json", &takes, "").await;
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), ("gzip", "accept-encoding"));
    assert!(packed.body.len() < plain.body.len() / 3, "{} {}", packed.body.len(), plain.body.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text.as_bytes(), plain.body);
    let short = ask(&mut client, "GET", "/v1/jobs", &takes, "").await;
    assert_eq!((short.status, short.header("content-encoding")), (200, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_too_much_hears_so_after_it_has_sent_all() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut client = world.user("default");
    for mib in [1, 2, 8, 24] {
        let body = format!("{{\"metadata\": {{\"name\": \"{}\"}}}}", "x".repeat(mib << 20));
        let answer = ask(&mut client, "POST", "/v1/jobs", &[JSON], &body).await;
        assert_eq!(answer.status, 413, "{mib} MiB");
        let error = &answer.json()["error"];
        assert_eq!((&error["code"], &error["reason"]), (&json!(413), &json!("MESSAGE_TOO_LARGE")));
    }
}

/// The picture of the fabric is for those who may ask for the topology, and for nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn the_map_of_the_pages_is_for_whom_the_topology_is() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let viewer = Identity::user("default", "vera", [Role::Viewer]).unwrap();
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let mut tags = Vec::new();
    for (mut client, status) in [
        (world.user("default"), 200),
        (world.client(&viewer), 200),
        (world.admin(), 200),
        (world.node("n0").await, 403),
        (world.client(&Identity::Anonymous), 401),
    ] {
        let topology = ask(&mut client, "GET", "/v1/topology", &[], "").await;
        let map = ask(&mut client, "GET", "/ui/map", &[], "").await;
        assert_eq!((topology.status, map.status), (status, status));
        if status != 200 {
            assert_eq!(map.json()["error"]["reason"], topology.json()["error"]["reason"]);
            continue;
        }
        assert!(map.body.starts_with(b"RMAP") && map.body.ends_with(b"n0\n"), "{:?}", map.body);
        let headers = ["cache-control", "x-content-type-options"].map(|name| map.header(name));
        assert_eq!(headers, ["no-store", "nosniff"]);
        let again = ask(&mut client, "GET", "/ui/map", &[("if-none-match", map.header("etag"))], "").await;
        assert_eq!((again.status, again.body.len()), (304, 0));
        let put = ask(&mut client, "PUT", "/ui/map", &[], "").await;
        assert_eq!((put.status, put.header("allow")), (405, "GET, HEAD"));
        tags.push(map.header("etag").to_owned());
    }
    assert!(tags.iter().all(|tag| *tag == tags[0]), "all see the same: {tags:?}");
    assert!(world.metric("rail_refusals_total{rpc=\"GetTopology\"") >= 4.0);
}
