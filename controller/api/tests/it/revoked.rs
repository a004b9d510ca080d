//! Revocation: by whom, how fast live streams end, what is good afterwards, and that it outlives the controller.

use std::time::{Duration, Instant};

use controller_leader::{MAX_REVOCATIONS, records};
use controller_store::{MemoryStore, Op, Store as _, Txn};
use prost::Message as _;
use proto_rpc::{
    CertificateSlot, Client, Credentials, ErrorClass, Identity, Jitter, KeyRequest, RetryPolicy, Role, retry,
    tls::Trust,
};
use proto_wire::v1::{
    self, agent_service_client::AgentServiceClient, enroll_service_client::EnrollServiceClient,
    job_service_client::JobServiceClient, node_service_client::NodeServiceClient,
    tenant_service_client::TenantServiceClient,
};

use crate::{jobs::error, world::World};

/// Longest wait for the end of a live stream. Nothing but the revocation ends it with that reason.
const ENDS: Duration = Duration::from_secs(60);

/// Within this what is revoked ends, as docs/SECURITY.md promises.
const PROMISED: Duration = Duration::from_secs(2);

async fn revoke(client: &Client, subject: &str) -> Result<v1::Revocation, tonic::Status> {
    let request = v1::RevokeRequest { subject: subject.to_owned(), reason: "laptop lost".to_owned() };
    TenantServiceClient::new(client.clone()).revoke(request).await.map(tonic::Response::into_inner)
}

async fn watch(client: &Client) -> tonic::Streaming<v1::JobEvent> {
    let mut jobs = JobServiceClient::new(client.without_timeout());
    let mut watch = jobs.watch_jobs(v1::WatchJobsRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some(), "SYNCED");
    watch
}

/// Revokes while the stream is open, which ends with that reason.
async fn ends<M>(admin: &Client, subject: &str, stream: &mut tonic::Streaming<M>) {
    revoke(admin, subject).await.unwrap();
    let ended = tokio::time::timeout(ENDS, async {
        loop {
            if let Err(status) = stream.message().await {
                break proto_rpc::RpcError::from_status(&status);
            }
        }
    });
    let reported = ended.await.expect("the stream ends in time");
    assert_eq!(
        (reported.class, reported.reason.as_str()),
        (ErrorClass::Unauthenticated, "CERTIFICATE_REVOKED")
    );
}

/// The refusal of a revoked caller. A call that is under way while its connection ends is told only that; whoever tries
/// again hears why.
async fn reported<T, F: Future<Output = Result<T, tonic::Status>>>(
    call: impl Fn() -> F,
) -> proto_rpc::RpcError {
    let answer = retry(&RetryPolicy::default(), &mut Jitter::seeded(1), |_| call()).await;
    let Err(status) = answer else { panic!("a revoked caller was let in") };
    let refused = proto_rpc::RpcError::from_status(&status);
    assert_eq!(
        (refused.class, refused.reason.as_str()),
        (ErrorClass::Unauthenticated, "CERTIFICATE_REVOKED")
    );
    refused
}

async fn renewal(
    client: Client,
    request: &v1::RenewCertificateRequest,
) -> Result<tonic::Response<v1::JoinResponse>, tonic::Status> {
    AgentServiceClient::new(client).renew_certificate(request.clone()).await
}

async fn listing(client: Client) -> Result<tonic::Response<v1::ListJobsResponse>, tonic::Status> {
    JobServiceClient::new(client).list_jobs(v1::ListJobsRequest::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_s_watch_ends_at_once_and_a_new_certificate_is_good_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    let bystander = world.client(&Identity::user("default", "bob", [Role::User]).unwrap());
    let mut undisturbed = watch(&bystander).await;
    let ann = world.user("default");
    let mut open = watch(&ann).await;
    ends(&world.admin(), "tenant/default/user/ann", &mut open).await;
    let list = || v1::ListJobsRequest::default();
    let refused = reported(|| listing(ann.clone())).await;
    assert!(refused.message.contains("new certificate"), "{refused}");
    assert!(tokio::time::timeout(Duration::from_millis(50), undisturbed.message()).await.is_err());
    // Issued in the same second.
    let key = KeyRequest::generate().unwrap();
    let ask = v1::IssueCertificateRequest {
        csr_pem: key.csr_pem.clone(),
        tenant: "default".to_owned(),
        user: "ann".to_owned(),
        role: v1::Role::User.into(),
        lifetime: None,
    };
    let issued = TenantServiceClient::new(world.admin()).issue_certificate(ask).await.unwrap();
    let issued = issued.into_inner();
    let slot = CertificateSlot::new(&issued.certificate_pem, &key.key_pem).unwrap();
    let anew = Credentials::new(Trust::Ca(issued.ca_pem)).with_certificate(slot);
    JobServiceClient::new(world.client_with(&anew)).list_jobs(list()).await.unwrap();
    // The next life of the controller knows it too.
    let old = world.credentials_of(&Identity::user("default", "eve", [Role::User]).unwrap());
    revoke(&world.admin(), "tenant/default/user/eve").await.unwrap();
    drop((undisturbed, open));
    world.stop().await;
    world = World::start(dir.path()).await;
    let refused = JobServiceClient::new(world.client_with(&old)).list_jobs(list()).await;
    assert_eq!(error(refused).reason, "CERTIFICATE_REVOKED");
    JobServiceClient::new(world.client_with(&anew)).list_jobs(list()).await.unwrap();
}

/// One of them may be late on a machine that is busy with other tests; the half of them is late only where streams end by a timer.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_within_two_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut took = Vec::new();
    for user in ["ann", "bob", "cid", "dan", "eve"] {
        let mut open = watch(&world.client(&Identity::user("default", user, [Role::User]).unwrap())).await;
        let begin = Instant::now();
        ends(&world.admin(), &format!("tenant/default/user/{user}"), &mut open).await;
        took.push(begin.elapsed());
    }
    took.sort();
    assert!(took[took.len() / 2] < PROMISED, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_s_stream_ends_and_the_token_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut admin = TenantServiceClient::new(world.admin());
    let ask = || v1::IssueTokenRequest {
        tenant: "default".into(),
        user: "bot".into(),
        role: v1::Role::Viewer.into(),
        lifetime: None,
    };
    let bot = world.bearer(&admin.issue_token(ask()).await.unwrap().into_inner().token);
    let mut open = watch(&bot).await;
    ends(&world.admin(), "tenant/default/user/bot", &mut open).await;
    let refused = error(JobServiceClient::new(bot).list_jobs(v1::ListJobsRequest::default()).await);
    assert_eq!(refused.class, ErrorClass::Unauthenticated);
    assert!(world.store.range_all("/rail/v1/tokens/user/".into()).await.unwrap().items.is_empty());
    let anew = world.bearer(&admin.issue_token(ask()).await.unwrap().into_inner().token);
    JobServiceClient::new(anew).list_jobs(v1::ListJobsRequest::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_s_stream_ends_and_it_must_join_anew() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let client = world.node("n0").await;
    let mut agents = AgentServiceClient::new(client.without_timeout());
    let register = v1::AgentMessage {
        body: Some(v1::agent_message::Body::Register(v1::Register {
            node: "n0".to_owned(),
            inventory: Some(crate::agent::inventory(1, 1)),
            ..v1::Register::default()
        })),
    };
    let (say, said) = tokio::sync::mpsc::channel(1);
    say.send(register).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(said);
    let mut stream = agents.connect(stream).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some(), "Welcome");
    let ask = || v1::CreateJoinTokenRequest { node: "n0".into(), lifetime: None };
    let mut nodes = NodeServiceClient::new(world.admin());
    let stolen = nodes.create_join_token(ask()).await.unwrap().into_inner();
    ends(&world.admin(), "node/n0", &mut stream).await;
    let key = KeyRequest::generate().unwrap();
    let renew = v1::RenewCertificateRequest { csr_pem: key.csr_pem.clone() };
    let refused = reported(|| renewal(client.clone(), &renew)).await;
    assert!(refused.message.contains("railctl node token"), "{refused}");
    let pinned = Credentials::new(Trust::Pin(stolen.ca_pin.parse().unwrap()));
    let mut enroll = EnrollServiceClient::new(world.client_with(&pinned));
    let join = |token: String| v1::JoinRequest { token, node: "n0".to_owned(), csr_pem: key.csr_pem.clone() };
    let refused = error(enroll.join(join(stolen.token)).await);
    assert_eq!(refused.class, ErrorClass::Denied, "a token of before is good no more: {refused}");
    let made = nodes.create_join_token(ask()).await.unwrap().into_inner();
    let joined = enroll.join(join(made.token)).await.unwrap().into_inner();
    let slot = CertificateSlot::new(&joined.certificate_pem, &key.key_pem).unwrap();
    let anew = world.client_with(&Credentials::new(Trust::Ca(joined.ca_pem)).with_certificate(slot));
    AgentServiceClient::new(anew.clone()).renew_certificate(renew.clone()).await.unwrap();
    // Taken back again, maybe in the second in which it was given.
    revoke(&world.admin(), "node/n0").await.unwrap();
    reported(|| renewal(anew.clone(), &renew)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_revoke_whom() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let boss = world.client(&Identity::user("default", "boss", [Role::TenantAdmin]).unwrap());
    for (client, subject, class) in [
        (&boss, "tenant/other/user/ann", ErrorClass::Denied),
        (&boss, "node/n0", ErrorClass::Denied),
        (&boss, "admin/root", ErrorClass::Denied),
        (&boss, "serial/0a", ErrorClass::Denied),
        (&boss, "tenant/default/user/boss", ErrorClass::Denied),
        (&world.admin(), "admin/root", ErrorClass::Denied),
        (&world.admin(), "controller", ErrorClass::Invalid),
        (&world.admin(), "serial/xy", ErrorClass::Invalid),
    ] {
        assert_eq!(error(revoke(client, subject).await).class, class, "{subject}");
    }
    assert!(world.store.range_all("/rail/v1/revocations/".into()).await.unwrap().items.is_empty());
    revoke(&boss, "tenant/default/user/ann").await.unwrap();
    revoke(&world.admin(), "serial/0A:0b").await.unwrap();
    let seen = |client: &Client| {
        let mut tenants = TenantServiceClient::new(client.clone());
        async move {
            let list = tenants.list_revocations(v1::ListRevocationsRequest {}).await.unwrap().into_inner();
            list.revocations.into_iter().map(|one| one.subject).collect::<Vec<_>>()
        }
    };
    assert_eq!(seen(&boss).await, ["tenant/default/user/ann"]);
    assert_eq!(seen(&world.admin()).await, ["serial/0a0b", "tenant/default/user/ann"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_bounded_and_what_has_ended_makes_room() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let now = world.handle.now().0;
    let mut txn = Txn::new();
    for number in 0..MAX_REVOCATIONS {
        let expires_ms = now + 3_600_000;
        let record = records::Revocation { expires_ms, ..records::Revocation::default() };
        txn = txn.then(Op::put(format!("/rail/v1/revocations/serial/{number:08x}"), record.encode_to_vec()));
    }
    world.store.txn(txn).await.unwrap();
    let full = error(revoke(&world.admin(), "node/n0").await);
    assert_eq!((full.class, full.reason.as_str()), (ErrorClass::Overloaded, "TOO_MANY_REVOCATIONS"));
    let ended = records::Revocation { expires_ms: now, ..records::Revocation::default() };
    world
        .store
        .put("/rail/v1/revocations/serial/00000000".into(), ended.encode_to_vec().into())
        .await
        .unwrap();
    revoke(&world.admin(), "node/n0").await.unwrap();
    let kept = world.store.range_all("/rail/v1/revocations/".into()).await.unwrap().items.len();
    assert_eq!(kept, MAX_REVOCATIONS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_was_replaced_neither_revokes_nor_renews_but_hears_of_revocations() {
    let dir = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(MemoryStore::default());
    let old = World::start_on(dir.path(), store.clone()).await;
    let mut agents = AgentServiceClient::new(old.node("n0").await);
    let (admin, ann) = (old.admin(), old.user("default"));
    let mut open = watch(&ann).await;
    let new = World::start_on(dir.path(), store).await;
    let key = KeyRequest::generate().unwrap();
    let renew = v1::RenewCertificateRequest { csr_pem: key.csr_pem.clone() };
    assert_eq!(error(agents.renew_certificate(renew).await).reason, "NOT_LEADING");
    assert_eq!(error(revoke(&admin, "node/n0").await).reason, "NOT_LEADING");
    ends(&new.admin(), "tenant/default/user/ann", &mut open).await;
}
