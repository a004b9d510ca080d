//! Several real controllers on one real etcd: who follows answers all the same, and leads when the leader is gone.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use controller_store::real_etcd::RealEtcd;
use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, Endpoint, Jitter, RetryPolicy, retry};
use proto_wire::v1::{
    self, audit_service_client::AuditServiceClient, health_service_client::HealthServiceClient,
    job_service_client::JobServiceClient, tenant_service_client::TenantServiceClient,
};

use tonic::codegen::{Body as _, Service as _, http};

use crate::{
    PATIENCE, Running,
    etcd::{flags, texts},
    folder, init, some_job, tenant,
};

/// Silence is no evidence within any test: a leader is gone when it leaves, or when nobody listens at its addresses.
pub const PATIENT: [&str; 2] = ["--leader-silence", "10m"];

/// Folders of so many controllers with one authority, and options of each.
struct Cluster {
    _keep: tempfile::TempDir,
    dirs: Vec<PathBuf>,
    flags: Vec<String>,
}

impl Cluster {
    fn new(etcd: &RealEtcd, controllers: usize) -> Self {
        let (keep, first) = folder();
        assert!(init(&first, &[]).status.success());
        let mut dirs = vec![first.clone()];
        for n in 1..controllers {
            let dir = keep.path().join(format!("data{n}"));
            std::fs::create_dir(&dir).unwrap();
            for file in ["ca.pem", "ca.key", "store.keys"] {
                std::fs::copy(first.join(file), dir.join(file)).unwrap();
            }
            dirs.push(dir);
        }
        Self { _keep: keep, dirs, flags: flags(etcd) }
    }

    /// One that takes no leader for gone because it is silent, as one is that gets no processor for some seconds.
    fn start(&self, which: usize) -> Running {
        self.start_with(which, &PATIENT)
    }

    fn start_with(&self, which: usize, more: &[&str]) -> Running {
        Running::start_with(&self.dirs[which], &[&texts(&self.flags)[..], more].concat())
    }

    /// The administrator's client of these controllers, the first one first.
    fn client(&self, of: &[&Running]) -> Client {
        let admin = &self.dirs[0];
        let files = CredentialFiles {
            ca: Some(admin.join("ca.pem")),
            certificate: Some(admin.join("admin.pem")),
            key: Some(admin.join("admin.key")),
            ..CredentialFiles::default()
        };
        let endpoint =
            |running: &&Running| running.json["endpoints"][0].as_str().unwrap().parse::<Endpoint>().unwrap();
        let endpoints: Vec<_> = of.iter().map(endpoint).collect();
        Client::new(&endpoints, &Credentials::load(&files).unwrap(), &ClientOptions::default()).unwrap()
    }

    fn log(&self, which: usize) -> String {
        log(&self.dirs[which])
    }
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap()
}

async fn tenants(client: &Client) -> Vec<String> {
    let list = v1::ListTenantsRequest::default();
    let found =
        TenantServiceClient::new(client.clone()).list_tenants(list).await.unwrap().into_inner().tenants;
    found.into_iter().map(|tenant| tenant.metadata.unwrap().name).collect()
}

async fn epoch(client: &Client) -> u64 {
    let health = HealthServiceClient::new(client.clone()).get_health(v1::GetHealthRequest {}).await;
    health.unwrap().into_inner().epoch
}

/// As railctl does it.
async fn apply(client: &Client, name: &str) {
    let client = TenantServiceClient::new(client.clone());
    let call = |_| {
        let (mut client, request) = (client.clone(), tenant(name));
        async move { client.apply_tenant(request).await }
    };
    retry(&RetryPolicy::default(), &mut Jitter::seeded(1), call).await.unwrap();
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn signal(running: &Running, name: &str) {
    let pid = running.child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_hands_calls_on_with_their_callers() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let cluster = Cluster::new(&etcd, 2);
    let first = cluster.start(0);
    let direct = cluster.client(&[&first]);
    let leads = epoch(&direct).await;
    let second = cluster.start(1);
    let client = cluster.client(&[&second]);
    apply(&client, "by-the-standby").await;
    assert_eq!(tenants(&direct).await, ["by-the-standby", "default"]);
    assert_eq!(epoch(&client).await, leads, "a controller that starts deposes nobody");
    let who =
        TenantServiceClient::new(client.clone()).who_am_i(v1::WhoAmIRequest {}).await.unwrap().into_inner();
    assert!(who.identity.ends_with("/admin/admin"), "{who:?}");
    // Nobody without a certificate is somebody because a controller has handed it on; and nobody's own word counts.
    let anonymous =
        CredentialFiles { ca: Some(cluster.dirs[0].join("ca.pem")), ..CredentialFiles::default() };
    let endpoint: Endpoint = second.json["endpoints"][0].as_str().unwrap().parse().unwrap();
    let nobody =
        Client::new(&[endpoint], &Credentials::load(&anonymous).unwrap(), &ClientOptions::default()).unwrap();
    let mut request = tonic::Request::new(tenant("by-nobody"));
    request.metadata_mut().insert("rail-caller", who.identity.parse().unwrap());
    let refused = TenantServiceClient::new(nobody).apply_tenant(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{refused}");
    let mut request = tonic::Request::new(tenant("by-admin"));
    request.metadata_mut().insert("rail-caller", "spiffe://rail/rail/node/n0".parse().unwrap());
    TenantServiceClient::new(client.clone()).apply_tenant(request).await.unwrap();
    // What is refused is refused as by the leader itself.
    let missing = v1::DeleteTenantRequest { name: "nothing".to_owned(), ..Default::default() };
    let refused = TenantServiceClient::new(client).delete_tenant(missing).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound, "{refused}");
    assert_eq!(second.terminate(), Some(0));
    assert_eq!(first.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_reads_by_itself_what_the_leader_wrote() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let cluster = Cluster::new(&etcd, 2);
    let first = cluster.start(0);
    let leader = cluster.client(&[&first]);
    let second = cluster.start(1);
    let standby = cluster.client(&[&second]);
    let (mut writes, mut reads) =
        (JobServiceClient::new(leader.clone()), JobServiceClient::new(standby.clone()));
    let mut job = some_job(&leader, &[]).await;
    let mut watch = reads.watch_jobs(v1::WatchJobsRequest::default()).await.unwrap().into_inner();
    for _ in 0..50 {
        job.job.as_mut().unwrap().metadata.as_mut().unwrap().generate_name = "read-".to_owned();
        let made = writes.create_job(job.clone()).await.unwrap().into_inner();
        let metadata = made.metadata.as_ref().unwrap();
        let ask = v1::GetJobRequest { name: metadata.name.clone(), tenant: String::new() };
        let read = reads.get_job(ask).await.unwrap().into_inner().metadata.unwrap();
        assert!(read.resource_version >= metadata.resource_version, "{read:?} is older than {metadata:?}");
    }
    // A denial needs a record, which only the leader can make.
    let anonymous =
        CredentialFiles { ca: Some(cluster.dirs[0].join("ca.pem")), ..CredentialFiles::default() };
    let endpoint: Endpoint = second.json["endpoints"][0].as_str().unwrap().parse().unwrap();
    let nobody =
        Client::new(&[endpoint], &Credentials::load(&anonymous).unwrap(), &ClientOptions::default()).unwrap();
    let refused = JobServiceClient::new(nobody).list_jobs(v1::ListJobsRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{refused}");
    let denied = v1::ListAuditRecordsRequest {
        rpc: "ListJobs".to_owned(),
        decision: "denied".to_owned(),
        ..v1::ListAuditRecordsRequest::default()
    };
    let records = AuditServiceClient::new(standby.clone()).list_audit_records(denied).await.unwrap();
    assert_eq!(records.into_inner().records.len(), 1);

    // A leader that hangs: what only reads goes on, and states the revision that it is of.
    signal(&first, "-STOP");
    let list = reads.list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner();
    assert!(list.jobs.len() == 50 && list.revision > 0);
    signal(&first, "-CONT");
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 50 {
        let event = tokio::time::timeout(PATIENCE, watch.message()).await.unwrap().unwrap().unwrap();
        seen.extend(event.job.and_then(|job| job.metadata).map(|metadata| metadata.name));
    }
    assert_eq!(second.terminate(), Some(0));
    assert_eq!(first.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_is_followed_by_a_standby_at_once() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let cluster = Cluster::new(&etcd, 3);
    let mut running: Vec<Running> = (0..3).map(|n| cluster.start(n)).collect();
    let mut epochs = Vec::new();
    for round in 0..3 {
        let of: Vec<&Running> = running.iter().collect();
        let client = cluster.client(&of);
        apply(&client, &format!("before-{round}")).await;
        epochs.push(epoch(&client).await);
        let leader = (0..3).find(|n| leads(&cluster.log(*n))).expect("one of them leads");
        running[leader].child.kill().unwrap();
        running[leader].child.wait().unwrap();
        let begin = Instant::now();
        apply(&client, &format!("after-{round}")).await;
        println!("{} ms to the next acknowledged write", begin.elapsed().as_millis());
        // Far below the silence that would be evidence as well.
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
        running[leader] = cluster.start(leader);
    }
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
    let client = cluster.client(&running.iter().collect::<Vec<_>>());
    let names = tenants(&client).await;
    assert_eq!(names.len(), 7, "nothing that was acknowledged is lost: {names:?}");
    for n in 0..3 {
        // Another standby must not take one that only begins to lead for one that is gone.
        assert!(!cluster.log(n).contains("this controller leads no more"), "{}", cluster.log(n));
    }
}

/// The stream of a page: what it says until something, or until it ends; with the id behind which it goes on.
async fn page(client: &Client, last: Option<&str>, wanted: &str) -> (String, String) {
    let mut client = client.without_timeout();
    let mut request = http::Request::builder().uri("/ui/events?kinds=tenants");
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    std::future::poll_fn(|context| client.poll_ready(context)).await.unwrap();
    let answer = client.call(request.body(tonic::body::Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    let mut text = String::new();
    let reading = async {
        while !text.contains(wanted) {
            let frame =
                std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await;
            let Some(Ok(frame)) = frame else { return };
            text.push_str(std::str::from_utf8(&frame.into_data().unwrap_or_default()).unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("there is no {wanted}"));
    let id = text.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap_or_default().to_owned();
    (text, id)
}

/// A page follows by a standby as by the leader, and goes on at the next leader where it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_goes_on_at_another_controller() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let cluster = Cluster::new(&etcd, 2);
    let mut first = cluster.start(0);
    apply(&cluster.client(&[&first]), "before").await;
    let second = cluster.start(1);
    let client = cluster.client(&[&second]);
    let (_, last) = page(&client, None, "synced").await;
    apply(&client, "meanwhile").await;
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    apply(&client, "after").await;
    // Behind what has changed is where that ends.
    let (text, id) = page(&client, Some(&last), "{\"type\":\"CHANGED\"}\n\n:\nid: ").await;
    assert!(!text.contains("event: reset"), "{text}");
    let place = |id: &str| id.split_once('.').map(|(revision, _)| revision.parse::<u64>().unwrap());
    assert!(place(&id) > place(&last), "{last}, then {id}");
    assert_eq!(second.terminate(), Some(0));
}

/// Whether a controller is the one that leads, by its log.
fn leads(log: &str) -> bool {
    let last = |what: &str| log.rfind(&format!("\"message\":\"{what}\""));
    last("leading") > last("following")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_asked_to_end_hands_over_without_a_failed_call() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let cluster = Cluster::new(&etcd, 2);
    let first = cluster.start(0);
    apply(&cluster.client(&[&first]), "early").await;
    let second = cluster.start(1);
    until("the leader never hears of its standby", || cluster.log(0).contains("a standby follows")).await;
    let (end, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let callers: Vec<_> = (0..4)
        .map(|n| {
            let client = cluster.client(&[&second]);
            let (end, made) = (Arc::clone(&end), Arc::clone(&made));
            tokio::spawn(async move {
                while !end.load(Ordering::Relaxed) {
                    // No caller tries again: not one call may fail.
                    let name = format!("t{n}-{}", made.fetch_add(1, Ordering::Relaxed) % 50);
                    TenantServiceClient::new(client.clone()).apply_tenant(tenant(&name)).await.unwrap();
                    assert!(tenants(&client).await.contains(&name));
                }
            })
        })
        .collect();
    until("no calls", || made.load(Ordering::Relaxed) > 20).await;
    let begin = Instant::now();
    let ended = tokio::task::spawn_blocking(move || first.terminate()).await.unwrap();
    assert_eq!(ended, Some(0));
    println!("{} ms to the end of the old leader", begin.elapsed().as_millis());
    let before = made.load(Ordering::Relaxed);
    until("no calls afterwards", || made.load(Ordering::Relaxed) > before + 20).await;
    end.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    assert!(cluster.log(0).contains("the lead is let go"), "{}", cluster.log(0));
    assert_eq!(second.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_sleeps_is_deposed_and_follows_when_it_wakes() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let cluster = Cluster::new(&etcd, 2);
    let quick = ["--leader-silence", "300ms"];
    let first = cluster.start_with(0, &quick);
    let asleep = cluster.client(&[&first]);
    apply(&asleep, "early").await;
    let before = epoch(&asleep).await;
    let second = cluster.start_with(1, &quick);
    until("the leader never hears of its standby", || cluster.log(0).contains("a standby follows")).await;
    signal(&first, "-STOP");
    let client = cluster.client(&[&second]);
    apply(&client, "while-it-sleeps").await;
    assert!(epoch(&client).await > before);
    assert!(cluster.log(1).contains("it is silent"), "{}", cluster.log(1));
    signal(&first, "-CONT");
    apply(&asleep, "handed-on").await;
    assert_eq!(tenants(&asleep).await, ["default", "early", "handed-on", "while-it-sleeps"]);
    until("it never follows", || cluster.log(0).contains("this controller leads no more; it follows")).await;
    assert_eq!(first.terminate(), Some(0));
    assert_eq!(second.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_of_another_authority_deposes_nobody_and_says_why() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let cluster = Cluster::new(&etcd, 1);
    let first = cluster.start(0);
    let client = cluster.client(&[&first]);
    let leads = epoch(&client).await;
    let (_keep, foreign) = folder();
    assert!(init(&foreign, &[]).status.success());
    std::fs::copy(cluster.dirs[0].join("store.keys"), foreign.join("store.keys")).unwrap();
    let flags = flags(&etcd);
    let options = [texts(&flags), vec!["--leader-silence", "3s"]].concat();
    let second = Running::start_with(&foreign, &options);
    until("it never says why", || log(&foreign).contains("need the same ca.pem and ca.key")).await;
    // More than twice the silence after which it would take over from one that it does not hear.
    tokio::time::sleep(Duration::from_secs(7)).await;
    apply(&client, "still-here").await;
    assert_eq!(epoch(&client).await, leads);
    drop(second);
}
