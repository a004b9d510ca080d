//! Webhooks against real receivers on loopback: what arrives and how it is signed, receivers that fail, restarts, and who sees what.

use std::collections::VecDeque;

use aws_lc_rs::hmac;
use proto_rpc::{Client, ErrorClass, Identity, Role};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, job_status::Phase,
    webhook_service_client::WebhookServiceClient, webhook_spec::Event,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
    task::JoinHandle,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{PATIENCE, create, error, job, until},
    rest::Rest,
    world::World,
};

/// 24 bytes, "ABC" eight times.
const SECRET: &str = "whsec_QUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJD";

/// One request as it came.
struct Seen {
    headers: Vec<(String, String)>,
    body: String,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        &self.headers.iter().find(|(other, _)| other == name).unwrap().1
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn event(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }
}

/// A receiver that answers what it is told to, in turn, and 204 behind that. Its port stays its own until it is dropped.
struct Receiver {
    url: String,
    seen: mpsc::UnboundedReceiver<Seen>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    async fn start(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, answers)
    }

    fn on(listener: TcpListener, answers: &[&str]) -> Self {
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let mut answers: VecDeque<String> = answers.iter().map(|text| (*text).to_owned()).collect();
        let (report, seen) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read(&mut stream).await;
                let answer = answers.pop_front().unwrap_or_else(|| "204 No Content".to_owned());
                let text = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
                let _ = stream.write_all(text.as_bytes()).await;
                if report.send(request).is_err() {
                    return;
                }
            }
        });
        Self { url, seen, task }
    }

    async fn next(&mut self) -> Seen {
        tokio::time::timeout(PATIENCE, self.seen.recv()).await.expect("nothing was sent").unwrap()
    }
}

async fn read(stream: &mut tokio::net::TcpStream) -> Seen {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let line = |line: &str| {
                line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            };
            let headers: Vec<(String, String)> = head.lines().skip(1).filter_map(line).collect();
            let length =
                headers.iter().find(|(name, _)| name == "content-length").unwrap().1.parse().unwrap();
            if body.len() >= length {
                return Seen { headers, body: body.to_owned() };
            }
        }
        let count = stream.read(&mut chunk).await.unwrap();
        assert!(count > 0, "{text}");
        bytes.extend_from_slice(&chunk[..count]);
    }
}

/// Base64, written out: what signs must not check itself.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits =
            three.iter().chain([&0, &0]).take(3).fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        (0..4)
            .map(move |at| match three.len() >= at {
                true => char::from(DIGITS[bits >> (18 - 6 * at) & 63]),
                false => '=',
            })
            .collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

fn assert_signed(seen: &Seen) {
    let message = format!("{}.{}.{}", seen.header("webhook-id"), seen.header("webhook-timestamp"), seen.body);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &b"ABC".repeat(8));
    let expected = format!("v1,{}", base64(hmac::sign(&key, message.as_bytes()).as_ref()));
    assert_eq!(seen.header("webhook-signature"), expected);
    assert_eq!(seen.header("content-type"), "application/json");
}

pub fn webhook(name: &str, url: &str, events: &[Event]) -> v1::ApplyWebhookRequest {
    let metadata = Some(v1::Metadata { name: name.to_owned(), ..Default::default() });
    let events = events.iter().map(|event| i32::from(*event)).collect();
    let spec =
        v1::WebhookSpec { url: url.to_owned(), events, secret: SECRET.to_owned(), ..Default::default() };
    let webhook = v1::Webhook { metadata, spec: Some(spec), ..Default::default() };
    v1::ApplyWebhookRequest { webhook: Some(webhook), dry_run: false }
}

async fn status(
    client: Client,
    name: &str,
    wanted: impl Fn(&v1::WebhookStatus) -> bool,
) -> v1::WebhookStatus {
    let mut webhooks = WebhookServiceClient::new(client);
    let found = async {
        loop {
            let get = v1::GetWebhookRequest { name: name.to_owned(), tenant: String::new() };
            let status = webhooks.get_webhook(get).await.unwrap().into_inner().status.unwrap();
            if wanted(&status) {
                return status;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("the status did not become what was waited for")
}

async fn run(world: &World, name: &str) {
    JobServiceClient::new(world.user("default")).create_job(create(job(name, 1))).await.unwrap();
    until(&world.user("default"), name, Phase::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_twice_has_what_happened_in_the_end_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Complete).await;
    let mut receiver = Receiver::start(&["500 x", "503 x"]).await;
    let mut admin = WebhookServiceClient::new(world.admin());
    let made =
        admin.apply_webhook(webhook("chat", &receiver.url, &[Event::Started, Event::Ended])).await.unwrap();
    assert_eq!(made.into_inner().spec.unwrap().secret, "", "what the user chose is not told again");
    let mut other = webhook("other", &receiver.url, &[Event::Ended]);
    other.webhook.as_mut().unwrap().spec.as_mut().unwrap().jobs = "b-*".to_owned();
    admin.apply_webhook(other).await.unwrap();
    run(&world, "a").await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(receiver.next().await);
    }
    seen.iter().for_each(assert_signed);
    let events: Vec<String> = seen.iter().map(Seen::event).collect();
    assert_eq!(events, ["job.started", "job.started", "job.started", "job.succeeded"]);
    let ids: Vec<&str> = seen.iter().map(|seen| seen.header("webhook-id")).collect();
    assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3], "{ids:?}");
    let data = &seen[3].json()["data"];
    assert_eq!(
        (&data["job"], &data["attempt"], &data["phase"]),
        (&json!("a"), &json!(1), &json!("COMPLETED"))
    );
    let reported = status(world.admin(), "chat", |status| status.delivered == 2).await;
    assert_eq!((reported.queued, reported.failed, reported.dropped), (0, 0, 0));
    assert!(reported.last_error.contains("503") && reported.last_success_time.is_some(), "{reported:?}");
    let other = status(world.admin(), "other", |_| true).await;
    assert_eq!((other.delivered, other.queued), (0, 0), "another job is not for it");
    assert!(world.metric("rail_webhook_tries_total{outcome=\"delivered\"}") >= 2.0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_outlives_the_controller() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Complete).await;
    // Nobody accepts there, so that no attempt comes to an end before its limit.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let mut admin = WebhookServiceClient::new(world.admin());
    admin.apply_webhook(webhook("chat", &url, &[Event::Ended])).await.unwrap();
    run(&world, "a").await;
    assert_eq!(status(world.admin(), "chat", |status| status.queued == 1).await.delivered, 0);
    drop(agent);
    world.stop().await;
    drop(listener.accept().await.unwrap());
    let mut receiver = Receiver::on(listener, &[]);
    let world = World::start(dir.path()).await;
    let seen = receiver.next().await;
    assert_signed(&seen);
    assert_eq!(seen.json()["data"]["job"], "a");
    status(world.admin(), "chat", |status| status.delivered == 1 && status.queued == 0).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_gone_puts_its_webhook_out_of_use_and_a_slow_one_holds_up_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Complete).await;
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut gone = Receiver::start(&["410 Gone"]).await;
    let mut fine = Receiver::start(&[]).await;
    let mut admin = WebhookServiceClient::new(world.admin());
    let slow_url = format!("http://{}/", slow.local_addr().unwrap());
    for (name, url) in [("gone", &gone.url), ("slow", &slow_url), ("fine", &fine.url)] {
        admin.apply_webhook(webhook(name, url, &[Event::Succeeded])).await.unwrap();
    }
    for name in ["a", "b", "c", "d", "e", "f"] {
        run(&world, name).await;
        assert_eq!(fine.next().await.json()["data"]["job"], name);
    }
    gone.next().await;
    let reported = status(world.admin(), "gone", |status| status.disabled_time.is_some()).await;
    assert_eq!((reported.failed, reported.queued, reported.delivered), (1, 0, 0));
    assert_eq!(status(world.admin(), "slow", |_| true).await.queued, 6);
    assert_eq!(status(world.admin(), "fine", |status| status.queued == 0).await.delivered, 6);
    // Applied again it is in use again.
    admin.apply_webhook(webhook("gone", &gone.url, &[Event::Succeeded])).await.unwrap();
    run(&world, "g").await;
    assert_eq!(gone.next().await.json()["data"]["job"], "g");
    let delete = v1::DeleteWebhookRequest { name: "slow".into(), ..Default::default() };
    admin.delete_webhook(delete).await.unwrap();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ping_is_signed_and_its_answer_told() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut receiver = Receiver::start(&["200 OK", "302 x"]).await;
    let manager = world.client(&Identity::user("default", "meg", [Role::TenantAdmin]).unwrap());
    let mut webhooks = WebhookServiceClient::new(manager);
    webhooks.apply_webhook(webhook("chat", &receiver.url, &[Event::Ended])).await.unwrap();
    let test = |name: &str| v1::TestWebhookRequest { name: name.to_owned(), tenant: String::new() };
    let answer = webhooks.test_webhook(test("chat")).await.unwrap().into_inner();
    let seen = receiver.next().await;
    assert_signed(&seen);
    assert_eq!(
        (answer.status, answer.error.as_str(), answer.id.as_str()),
        (200, "", seen.header("webhook-id"))
    );
    assert_eq!(seen.event(), "ping");
    let answer = webhooks.test_webhook(test("chat")).await.unwrap().into_inner();
    assert!(answer.status == 302 && answer.error.contains("redirects are not followed"), "{answer:?}");
    assert_eq!(error(webhooks.test_webhook(test("caht")).await).reason, "WEBHOOK_NOT_FOUND");
    // Whatever is not allowed is not called, in whichever form it is written.
    let inner = |host: &str| {
        let mut hook = webhook("inner", &format!("http://{host}/latest/meta-data/"), &[Event::Ended]);
        hook.webhook.as_mut().unwrap().spec.as_mut().unwrap().allow_insecure = true;
        hook
    };
    for host in [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[::1]",
        "10.0.0.1",
        "0.0.0.0",
    ] {
        let refused = error(webhooks.apply_webhook(inner(host)).await);
        assert!(refused.to_string().contains("is not called unless"), "{host}: {refused}");
    }
    // A number that resolvers take for an address is one only when it is called.
    for host in ["2852039166", "0xa9fea9fe"] {
        webhooks.apply_webhook(inner(host)).await.unwrap();
        let answer = webhooks.test_webhook(test("inner")).await.unwrap().into_inner();
        let refused =
            answer.error.contains("is not called unless") || answer.error.contains("cannot be looked up");
        assert!(answer.status == 0 && refused, "{host}: {answer:?}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_its_tenants_managers_and_its_secret_nobodys() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.tenant("red", 8).await;
    let of = |role| world.client(&Identity::user("red", "eve", [role]).unwrap());
    let url = "https://hooks.example/T0/S3CRET";
    let mut manager = WebhookServiceClient::new(of(Role::TenantAdmin));
    let mut request = webhook("chat", url, &[Event::Ended]);
    request.webhook.as_mut().unwrap().spec.as_mut().unwrap().secret.clear();
    let dry = v1::ApplyWebhookRequest { dry_run: true, ..request.clone() };
    assert_eq!(manager.apply_webhook(dry).await.unwrap().into_inner().spec.unwrap().secret, "");
    let made = manager.apply_webhook(request.clone()).await.unwrap().into_inner();
    assert!(made.spec.unwrap().secret.starts_with("whsec_"), "the only time that it is told");
    let again = manager.apply_webhook(request).await.unwrap().into_inner();
    assert_eq!((again.spec.unwrap().secret.as_str(), again.metadata.unwrap().generation), ("", 1));
    let get = |tenant: &str| v1::GetWebhookRequest { name: "chat".into(), tenant: tenant.to_owned() };
    let whole = manager.get_webhook(get("")).await.unwrap().into_inner().spec.unwrap();
    assert_eq!((whole.url.as_str(), whole.secret.as_str()), (url, ""));
    for role in [Role::User, Role::Viewer] {
        let mut reader = WebhookServiceClient::new(of(role));
        let seen = reader.get_webhook(get("")).await.unwrap().into_inner().spec.unwrap();
        assert_eq!((seen.url.as_str(), seen.secret.as_str()), ("https://hooks.example/...", ""));
        let list = reader.list_webhooks(v1::ListWebhooksRequest::default()).await.unwrap().into_inner();
        assert!(list.webhooks.len() == 1 && !format!("{list:?}").contains("S3CRET"));
        let refused = error(reader.apply_webhook(webhook("x", url, &[Event::Ended])).await);
        assert_eq!(refused.class, ErrorClass::Denied);
    }
    let mut stranger = WebhookServiceClient::new(world.user("default"));
    assert_eq!(error(stranger.get_webhook(get("red")).await).class, ErrorClass::Denied);
    assert_eq!(error(stranger.get_webhook(get("")).await).reason, "WEBHOOK_NOT_FOUND");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_over_rest() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut rest = Rest::new(world.admin());
    let document = json!({
        "kind": "Webhook", "metadata": {"name": "chat"},
        "spec": {"url": "https://a.example/x", "events": ["ENDED", "HELD"], "secret": SECRET}
    });
    let made = rest.call("POST", "/v1/webhooks", &document.to_string()).await;
    assert_eq!((made.status, &made.json["spec"]["events"][1]), (200, &json!("HELD")), "{:#}", made.json);
    assert!(made.json["spec"]["secret"].as_str().unwrap_or_default().is_empty());
    let all = rest.call("GET", "/v1/webhooks", "").await.json;
    assert_eq!(all["webhooks"][0]["spec"]["url"], "https://a.example/x");
    let wrong = json!({"metadata": {"name": "x"}, "spec": {"url": "https://u:p@a/", "events": ["ENDED"]}});
    let refused = rest.call("POST", "/v1/webhooks", &wrong.to_string()).await;
    assert!(refused.status == 400 && refused.json.to_string().contains("spec.url"), "{:#}", refused.json);
    assert_eq!(rest.call("DELETE", "/v1/webhooks/chat", "").await.status, 200);
    assert_eq!(rest.call("GET", "/v1/webhooks/chat", "").await.status, 404);
    world.stop().await;
}
