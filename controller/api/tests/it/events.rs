//! The pages' one stream: what comes, what goes on after a break, what is nobody else's, and what becomes of slow readers and of the revoked.

use std::{collections::BTreeMap, time::Duration};

use axum::http::Request;
use http_body_util::BodyExt;
use proto_rpc::{Client, Identity, Role};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, tenant_service_client::TenantServiceClient,
};
use serde_json::Value;
use tonic::body::Body;
use tower::Service;

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, job},
    world::World,
};

/// Longest wait for an event. Nothing waits for it when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
struct Event {
    id: String,
    kind: String,
    data: Value,
}

impl Event {
    /// Of a job or a server: what became of it, and its name.
    fn row(&self) -> (&str, &str, &str) {
        let named = |what: &str| self.data[what]["metadata"]["name"].as_str();
        let name = named("job").or_else(|| named("node")).unwrap_or_default();
        (&self.kind, self.data["type"].as_str().unwrap_or_default(), name)
    }
}

struct Events {
    body: Body,
    waiting: String,
    /// As a browser keeps it.
    last: String,
}

impl Events {
    /// Status and stream; `last` is where it goes on.
    async fn open(client: &Client, query: &str, last: Option<&str>) -> (u16, Self) {
        let mut client = client.without_timeout();
        let mut request = Request::builder().uri(format!("/ui/events?{query}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        std::future::poll_fn(|context| client.poll_ready(context)).await.unwrap();
        let response = client.call(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        (status, Self { body: response.into_body(), waiting: String::new(), last: String::new() })
    }

    async fn good(client: &Client, query: &str, last: Option<&str>) -> Self {
        let (status, events) = Self::open(client, query, last).await;
        assert_eq!(status, 200, "{query}");
        events
    }

    /// The next event; none at the end.
    async fn next(&mut self) -> Option<Event> {
        let next = async {
            loop {
                while let Some((part, rest)) = self.waiting.split_once("\n\n") {
                    let field = |name: &str| {
                        let begin = format!("{name}: ");
                        part.lines().find_map(|line| line.strip_prefix(&begin)).unwrap_or_default().to_owned()
                    };
                    let (id, kind, data) = (field("id"), field("event"), field("data"));
                    self.waiting = rest.to_owned();
                    if !id.is_empty() {
                        self.last.clone_from(&id);
                    }
                    if !kind.is_empty() {
                        return Some(Event { id, kind, data: serde_json::from_str(&data).unwrap() });
                    }
                }
                let frame = self.body.frame().await?.ok()?;
                self.waiting.push_str(std::str::from_utf8(&frame.into_data().unwrap_or_default()).unwrap());
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("an event comes in time")
    }

    /// All events up to and with one.
    async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut all = Vec::new();
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("the stream ended after {all:?}"));
            all.push(event);
            if wanted(&all[all.len() - 1]) {
                return all;
            }
        }
    }

    /// All events until those of each of these jobs have come.
    async fn rows<const N: usize>(&mut self, names: [&str; N]) -> Vec<Event> {
        let mut all: Vec<Event> = Vec::new();
        while !names.iter().all(|name| all.iter().any(|event| event.row().2 == *name)) {
            all.push(self.next().await.unwrap_or_else(|| panic!("the stream ended after {all:?}")));
        }
        all
    }

    async fn synced(&mut self) -> Vec<Event> {
        self.until(|event| event.kind == "synced").await
    }
}

/// A controller with one server, so that jobs are taken.
async fn start(dir: &std::path::Path) -> (World, FakeAgent) {
    let world = World::start(dir).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    (world, agent)
}

/// A job that is held, so that nothing becomes of it by itself.
async fn submit_it(client: &Client, job: v1::Job) {
    let request = v1::CreateJobRequest { hold: true, ..create(job) };
    JobServiceClient::new(client.clone()).create_job(request).await.unwrap();
}

async fn submit(client: &Client, name: &str) {
    submit_it(client, job(name, 1)).await;
}

/// One of 60 kB.
async fn submit_large(client: &Client, name: &str) {
    let mut large = job(name, 1);
    if let Some(v1::job_spec::Work::Command(command)) = large.spec.as_mut().unwrap().work.as_mut() {
        command.env = (0..2).map(|at| (format!("V{at}"), "x".repeat(30_000))).collect();
    }
    submit_it(client, large).await;
}

async fn cancel(client: &Client, name: &str) {
    let request = v1::CancelJobRequest { name: name.to_owned(), ..v1::CancelJobRequest::default() };
    JobServiceClient::new(client.clone()).cancel_job(request).await.unwrap();
}

fn place(id: &str) -> (u64, u32) {
    let (revision, index) = id.split_once('.').unwrap();
    (revision.parse().unwrap(), index.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_comes_first_and_a_break_loses_and_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _agent) = start(dir.path()).await;
    let ann = world.user("default");
    submit(&ann, "a").await;
    submit(&ann, "b").await;
    let mut events = Events::good(&ann, "kinds=jobs,tenants", None).await;
    let first = events.synced().await;
    let rows: Vec<_> = first.iter().map(Event::row).collect();
    assert_eq!(rows[..2], [("jobs", "PUT", "a"), ("jobs", "PUT", "b")]);
    assert_eq!(first[2].data["kinds"], serde_json::json!(["jobs", "tenants"]));
    submit(&ann, "c").await;
    // That something has changed comes first and has no id: who is cut off behind it hears it again.
    let seen = events.until(|event| event.row().2 == "c").await;
    assert_eq!((seen[0].kind.as_str(), seen[0].data["type"].as_str()), ("tenants", Some("CHANGED")));
    assert!(seen.iter().all(|event| event.id.is_empty() == (event.kind == "tenants")), "{seen:?}");
    // The connection breaks, and things go on without it.
    let last = events.last.clone();
    drop(events);
    cancel(&ann, "a").await;
    submit(&ann, "d").await;
    let mut events = Events::good(&ann, "kinds=jobs,tenants", Some(&last)).await;
    let missed = events.rows(["a", "d"]).await;
    assert_eq!((missed[0].kind.as_str(), &missed[0].data["kinds"]), ("synced", &serde_json::json!([])));
    let mut names: Vec<_> =
        missed.iter().filter(|event| event.kind == "jobs").map(|event| event.row().2).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "d"], "b and c are known: {missed:?}");
    let rows = |all: &[Event]| all.iter().filter(|event| event.kind == "jobs").cloned().collect::<Vec<_>>();
    let places: Vec<_> = rows(&seen).iter().chain(&rows(&missed)).map(|event| place(&event.id)).collect();
    assert!(places.is_sorted_by(|one, next| one < next), "{places:?}");
    // Cut off between two events of one answer, it goes on between them, and hears again of what else has changed.
    let both = rows(&missed);
    let (between, after) = (&both[0], &both[1]);
    let mut again = Events::good(&ann, "kinds=jobs,tenants", Some(&between.id)).await;
    let rest = again.until(|event| event.kind == "jobs").await;
    assert_eq!(rest[rest.len() - 1].id, after.id, "{rest:?}");
    assert_eq!(rest[1].kind, "tenants", "{rest:?}");
    // What is followed besides comes whole, what was followed goes on.
    let mut more = Events::good(&ann, "kinds=jobs,nodes&fresh=nodes", Some(&events.last)).await;
    let rows = more.synced().await;
    assert!(rows.iter().any(|event| event.row() == ("nodes", "PUT", "n0")), "{rows:?}");
    assert!(!rows.iter().any(|event| event.row().2 == "b"), "{rows:?}");
    assert!(world.metric("rail_page_streams") >= 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_sees_their_own_and_nobody_follows_what_they_may_not_ask_for() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _agent) = start(dir.path()).await;
    world.tenant("vision", 8).await;
    let (ann, eve) = (world.user("default"), world.user("vision"));
    let vera = world.client(&Identity::user("default", "vera", [Role::Viewer]).unwrap());
    let all = "kinds=jobs,nodes,rails,tenants,queues,reservations";
    let mut eves = Events::good(&eve, all, None).await;
    let mut veras = Events::good(&vera, "kinds=jobs", None).await;
    let mut roots = Events::good(&world.admin(), &format!("{all},rollouts"), None).await;
    for events in [&mut eves, &mut veras, &mut roots] {
        events.synced().await;
    }
    submit(&ann, "secret").await;
    submit(&eve, "mine").await;
    let seen = eves.until(|event| event.kind == "jobs").await;
    assert_eq!(seen[seen.len() - 1].row().2, "mine");
    // Nothing of another tenant's, not even that something has changed: that is said once, of its own.
    for kind in ["tenants", "queues"] {
        assert_eq!(seen.iter().filter(|event| event.kind == kind).count(), 1, "{seen:?}");
    }
    let veras = veras.next().await.unwrap();
    assert_eq!(veras.data["job"]["spec"]["command"]["envHidden"], true, "{veras:?}");
    let roots = roots.until(|event| event.row().2 == "mine").await;
    let secret = roots.iter().find(|event| event.row().2 == "secret").unwrap();
    assert_eq!(secret.data["job"]["spec"]["command"]["env"]["A"], "1");
    for (client, query, status) in [
        (&ann, "kinds=rollouts", 403),
        (&ann, "kinds=jobs,secrets", 400),
        (&ann, "", 400),
        (&world.node("n0").await, "kinds=nodes", 403),
        (&world.client(&Identity::Anonymous), "kinds=jobs", 401),
        (&world.client(&Identity::Anonymous), "kinds=nothing", 401),
    ] {
        assert_eq!(Events::open(client, query, None).await.0, status, "{query}");
    }
    assert_eq!(Events::open(&ann, "kinds=jobs", Some("yesterday")).await.0, 400);
    assert!(world.metric("rail_refusals_total{rpc=\"GetQos\",role=\"user\"") >= 1.0);
}

/// However many read it: an event of the same view is encoded once.
#[tokio::test(flavor = "multi_thread")]
async fn one_event_is_encoded_once_for_all_who_see_the_same() {
    const READERS: usize = 24;
    let dir = tempfile::tempdir().unwrap();
    let (world, _agent) = start(dir.path()).await;
    let ann = world.user("default");
    let mut all = Vec::new();
    for _ in 0..READERS {
        let mut events = Events::good(&ann, "kinds=jobs", None).await;
        events.synced().await;
        all.push(events);
    }
    let name = "rail_page_encodings_total{kind=\"jobs\"}";
    let before = world.metric(name);
    submit(&ann, "shared").await;
    let mut bodies = Vec::new();
    for events in &mut all {
        bodies.push(events.until(|event| event.row().2 == "shared").await.remove(0));
    }
    let made = world.metric(name) - before;
    assert!((1.0..=2.0).contains(&made), "{made} encodings for {READERS} readers");
    assert!(bodies.iter().all(|event| event.row().2 == "shared"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_caller_s_stream_ends_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _agent) = start(dir.path()).await;
    let (ann, bob) =
        (world.user("default"), world.client(&Identity::user("default", "bob", [Role::User]).unwrap()));
    let mut open = Events::good(&ann, "kinds=jobs", None).await;
    let mut other = Events::good(&bob, "kinds=jobs", None).await;
    open.synced().await;
    other.synced().await;
    let request =
        v1::RevokeRequest { subject: "tenant/default/user/ann".into(), reason: "laptop lost".into() };
    TenantServiceClient::new(world.admin()).revoke(request).await.unwrap();
    // The connection may end first; more than the reason never comes.
    if let Some(event) = open.next().await {
        assert_eq!(event.kind, "refused");
        assert_eq!(event.data["error"]["reason"], "CERTIFICATE_REVOKED");
        assert!(open.next().await.is_none());
    }
    submit(&bob, "after").await;
    assert_eq!(other.next().await.unwrap().row().2, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_too_late_is_sent_all_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _agent) = start(dir.path()).await;
    let ann = world.user("default");
    let begin = world.handle.store().status().await.unwrap().revision;
    submit(&ann, "a").await;
    submit(&ann, "b").await;
    let head = world.handle.store().status().await.unwrap().revision;
    world.handle.store().compact(head).await.unwrap();
    for last in [format!("{begin}.1"), format!("{}.1", head + 1000)] {
        let mut events = Events::good(&ann, "kinds=jobs", Some(&last)).await;
        let all = events.synced().await;
        assert_eq!((all[0].kind.as_str(), all[0].data["reason"].as_str()), ("reset", Some("HISTORY_GONE")));
        let rows: Vec<_> = all[1..].iter().map(Event::row).collect();
        assert_eq!(rows[..2], [("jobs", "PUT", "a"), ("jobs", "PUT", "b")]);
    }
    assert!(world.metric("rail_page_resets_total{cause=\"HISTORY_GONE\"}") >= 2.0);
}

/// What changes while another kind comes whole is not lost to the kinds that went on.
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_a_kind_comes_anew_is_not_lost() {
    const JOBS: usize = 150;
    let dir = tempfile::tempdir().unwrap();
    let (world, _agent) = start(dir.path()).await;
    let ann = world.user("default");
    let mut events = Events::good(&ann, "kinds=jobs", None).await;
    events.synced().await;
    let last = events.last.clone();
    drop(events);
    for number in 0..JOBS {
        submit_large(&ann, &format!("j{number}")).await;
    }
    let mut events = Events::good(&ann, "kinds=jobs,nodes&fresh=nodes", Some(&last)).await;
    // It is sent what it has missed, which is more than is ever on its way.
    let mut all = vec![events.next().await.unwrap()];
    submit(&ann, "late").await;
    all.extend(events.synced().await);
    submit(&ann, "last").await;
    all.extend(events.rows(["last"]).await);
    assert!(all.iter().any(|event| event.row() == ("nodes", "PUT", "n0")));
    let names: std::collections::BTreeSet<_> = all.iter().map(|event| event.row().2).collect();
    assert!(names.contains("late"), "{names:?}");
    assert!((0..JOBS).all(|number| names.contains(format!("j{number}").as_str())), "{names:?}");
}

/// The controller keeps no more for who does not read, and that one gets to know everything all the same.
#[tokio::test(flavor = "multi_thread")]
async fn who_reads_too_slowly_is_reset_and_then_knows_everything() {
    const JOBS: usize = 400;
    let dir = tempfile::tempdir().unwrap();
    let (world, _agent) = start(dir.path()).await;
    let ann = world.user("default");
    let mut slow = Events::good(&ann, "kinds=jobs", None).await;
    slow.synced().await;
    for number in 0..JOBS {
        submit_large(&ann, &format!("j{number}")).await;
    }
    let mut known = BTreeMap::new();
    let mut resets = 0;
    while known.len() < JOBS {
        let event = slow.next().await.unwrap();
        match event.kind.as_str() {
            "reset" => {
                resets += 1;
                known.clear();
            }
            "jobs" => _ = known.insert(event.row().2.to_owned(), event.data["revision"].clone()),
            _ => {}
        }
    }
    assert_eq!(resets, 1);
    assert!(world.metric("rail_page_resets_total{cause=\"TOO_SLOW\"}") >= 1.0);
}
