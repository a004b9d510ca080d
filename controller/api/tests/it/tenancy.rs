//! What a tenant's end means: nothing that was issued for it is good any more, also for a later tenant of its name.

use std::time::Duration;

use controller_core::Event;
use controller_store::MemoryStore;
use proto_rpc::{
    CertificateSlot, Client, Credentials, ErrorClass, Identity, KeyRequest, Role, RpcError, tls::Trust,
};
use proto_wire::v1::{
    self, audit_service_client::AuditServiceClient, job_service_client::JobServiceClient,
    tenant_service_client::TenantServiceClient,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, error, job},
    world::World,
};

/// Within this a live stream must have ended.
const ENDS: Duration = Duration::from_secs(60);

pub async fn delete(world: &World, name: &str) {
    let request = v1::DeleteTenantRequest { name: name.to_owned(), ..Default::default() };
    TenantServiceClient::new(world.admin()).delete_tenant(request).await.unwrap();
}

fn user(role: Role) -> Identity {
    Identity::user("red", "ann", [role]).unwrap()
}

async fn list(client: &Client) -> Result<v1::ListJobsResponse, RpcError> {
    let answer = JobServiceClient::new(client.clone()).list_jobs(v1::ListJobsRequest::default()).await;
    answer.map(tonic::Response::into_inner).map_err(|status| RpcError::from_status(&status))
}

async fn gone(client: &Client) {
    let refused = list(client).await.unwrap_err();
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Unauthenticated, "TENANT_GONE"));
    assert!(refused.message.contains("have new ones issued"), "{refused}");
}

/// A certificate and a token for ann of red, issued by the API.
async fn issued(world: &World) -> (Client, Client) {
    let mut tenants = TenantServiceClient::new(world.admin());
    let key = KeyRequest::generate().unwrap();
    let ask = v1::IssueCertificateRequest {
        csr_pem: key.csr_pem.clone(),
        tenant: "red".to_owned(),
        user: "ann".to_owned(),
        role: v1::Role::TenantAdmin.into(),
        lifetime: None,
    };
    let issued = tenants.issue_certificate(ask).await.unwrap().into_inner();
    let slot = CertificateSlot::new(&issued.certificate_pem, &key.key_pem).unwrap();
    let by_certificate = Credentials::new(Trust::Ca(issued.ca_pem)).with_certificate(slot);
    let ask = v1::IssueTokenRequest {
        tenant: "red".to_owned(),
        user: "ann".to_owned(),
        role: v1::Role::TenantAdmin.into(),
        lifetime: None,
    };
    let token = tenants.issue_token(ask).await.unwrap().into_inner().token;
    (world.client_with(&by_certificate), world.bearer(&token))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_issued_before_the_end_of_a_tenant_is_good_for_nothing_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    let agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    world.tenant("red", 8).await;
    let old = world.bound(&user(Role::TenantAdmin));
    let (by_certificate, by_token) = issued(&world).await;
    list(&by_certificate).await.unwrap();
    list(&by_token).await.unwrap();
    delete(&world, "red").await;
    gone(&by_certificate).await;
    assert_eq!(list(&by_token).await.unwrap_err().class, ErrorClass::Unauthenticated);
    // The name goes to somebody else, who has secrets.
    world
        .handle
        .apply(&crate::world::who(), Event::ReleaseTenantName { name: "red".parse().unwrap() })
        .await
        .unwrap();
    world.tenant("red", 8).await;
    let mut secret = job("model", 1);
    let env = [("API_KEY".to_owned(), "s3cret".to_owned())].into();
    let command = v1::Command { argv: vec!["true".to_owned()], env, ..v1::Command::default() };
    secret.spec.get_or_insert_default().work = Some(v1::job_spec::Work::Command(command));
    let later = world.client(&user(Role::TenantAdmin));
    JobServiceClient::new(later.clone()).create_job(create(secret)).await.unwrap();
    assert_eq!(list(&later).await.unwrap().jobs.len(), 1);
    gone(&by_certificate).await;
    let ask = v1::IssueTokenRequest { user: "eve".into(), role: v1::Role::User.into(), ..Default::default() };
    let refused = error(TenantServiceClient::new(by_certificate.clone()).issue_token(ask).await);
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Unauthenticated, "TENANT_GONE"));
    // Nor are they in what the later tenant's people read of refusals: those are of somebody else's people.
    let mut audit = AuditServiceClient::new(later);
    let records = audit.list_audit_records(v1::ListAuditRecordsRequest::default()).await.unwrap();
    let records = format!("{:?}", records.into_inner().records);
    assert!(records.contains("CreateJob") && !records.contains(old.tenant_uid().unwrap()), "{records}");
    // The next life of the controller knows it too.
    drop(agent);
    world.stop().await;
    world = World::start(dir.path()).await;
    gone(&world.client_with(&world.credentials_for(&old))).await;
    assert_eq!(list(&world.client(&user(Role::Viewer))).await.unwrap().jobs.len(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_its_tenant_and_tells_nothing_of_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(MemoryStore::default());
    let world = World::start_on(dir.path(), store.clone()).await;
    world.tenant("red", 8).await;
    let ann = world.client(&user(Role::Viewer));
    let old = world.credentials_of(&user(Role::User));
    let open = async |client: &Client| {
        let mut jobs = JobServiceClient::new(client.without_timeout());
        let mut watch = jobs.watch_jobs(v1::WatchJobsRequest::default()).await.unwrap().into_inner();
        assert!(watch.message().await.unwrap().is_some(), "SYNCED");
        watch
    };
    let mut watches = vec![open(&ann).await];
    // Another controller of the cluster, which hears of it by the store alone.
    let other = World::start_on(dir.path(), store).await;
    watches.push(open(&other.client(&user(Role::User))).await);
    let mut undisturbed = open(&other.client(&Identity::user("default", "bob", [Role::User]).unwrap())).await;
    delete(&other, "red").await;
    for watch in &mut watches {
        let ended = tokio::time::timeout(ENDS, watch.message()).await.expect("the stream ends in time");
        let reported = RpcError::from_status(&ended.unwrap_err());
        assert_eq!((reported.class, reported.reason.as_str()), (ErrorClass::Unauthenticated, "TENANT_GONE"));
    }
    assert!(tokio::time::timeout(Duration::from_millis(50), undisturbed.message()).await.is_err());
    gone(&other.client_with(&old)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_without_a_uid_is_refused_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let older = Identity::user("default", "ann", [Role::TenantAdmin]).unwrap();
    let client = world.client_with(&world.credentials_for(&older));
    let refused = list(&client).await.unwrap_err();
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Unauthenticated, "NO_TENANT_UID"));
    assert!(refused.message.contains("railctl tenant issue-cert"), "{refused}");
    // Neither does a made-up uid help, nor that of another tenant.
    world.tenant("red", 8).await;
    let of_red = world.handle.tenancies().get("red").unwrap().uid;
    for uid in [of_red.as_ref(), "0", "default"] {
        gone(&world.client_with(&world.credentials_for(&older.clone().of_tenant(uid).unwrap()))).await;
    }
    world.stop().await;
}

fn environment(job: &v1::Job) -> String {
    format!("{:?}", job.spec)
}

/// A job of red's with a secret, deleted, then the tenant, then another tenant of that name. Answers what was the newest
/// revision before that, and a page token that was good then.
async fn history(world: &World) -> (u64, String) {
    world.tenant("red", 8).await;
    let old = world.client(&user(Role::TenantAdmin));
    let mut jobs = JobServiceClient::new(old.clone());
    for name in ["model", "other"] {
        let mut secret = job(name, 1);
        let env = [("API_KEY".to_owned(), "s3cret".to_owned())].into();
        let command = v1::Command { argv: vec!["true".to_owned()], env, ..v1::Command::default() };
        let spec = secret.spec.get_or_insert_default();
        spec.work = Some(v1::job_spec::Work::Command(command));
        spec.begin_time = Some((std::time::SystemTime::now() + Duration::from_secs(3600)).into());
        jobs.create_job(create(secret)).await.unwrap();
    }
    let ask = v1::ListJobsRequest { page_size: 1, ..v1::ListJobsRequest::default() };
    let page = jobs.list_jobs(ask).await.unwrap().into_inner();
    assert!(environment(&page.jobs[0]).contains("s3cret") && !page.next_page_token.is_empty());
    for name in ["model", "other"] {
        jobs.cancel_job(v1::CancelJobRequest { name: name.into(), ..Default::default() }).await.unwrap();
        jobs.delete_job(v1::DeleteJobRequest { name: name.into(), ..Default::default() }).await.unwrap();
    }
    delete(world, "red").await;
    world
        .handle
        .apply(&crate::world::who(), Event::ReleaseTenantName { name: "red".parse().unwrap() })
        .await
        .unwrap();
    world.tenant("red", 8).await;
    (page.revision, page.next_page_token)
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_watches_and_history_begin_with_the_tenant() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let (revision, token) = history(&world).await;
    let later = world.client(&user(Role::TenantAdmin));
    let mut jobs = JobServiceClient::new(later.without_timeout());
    // By a watch from long ago: of red's own jobs, and of all that is told of servers.
    for after_revision in [1, revision - 1, revision] {
        let ask = v1::WatchJobsRequest { after_revision, ..v1::WatchJobsRequest::default() };
        let mut watch = jobs.watch_jobs(ask).await.unwrap().into_inner();
        let first = watch.message().await.unwrap().unwrap();
        assert_eq!(first.r#type(), v1::job_event::Type::Synced, "{first:?}");
        assert!(first.revision > revision, "it begins with the tenant");
        let next = tokio::time::timeout(Duration::from_millis(100), watch.message()).await;
        assert!(next.is_err(), "{next:?}");
    }
    // By the token that the earlier tenant got, and by self-made ones.
    let forged = [token.as_str(), &format!("{revision}.0"), "1.a", &token[..token.len() - 2], "00", "x"];
    for token in forged {
        let ask = v1::ListJobsRequest { page_token: token.into(), page_size: 1, ..Default::default() };
        let refused = error(jobs.list_jobs(ask).await);
        assert_eq!(
            (refused.class, refused.reason.as_str()),
            (ErrorClass::Invalid, "INVALID_FIELD"),
            "{token}"
        );
        assert!(refused.message.contains("begin again without one"), "{refused}");
    }
    // By asking why it was so at a time.
    let at = Some(std::time::SystemTime::now().into());
    let explain = v1::ExplainJobRequest { name: "model".into(), at, ..Default::default() };
    assert_eq!(error(jobs.explain_job(explain.clone()).await).reason, "JOB_NOT_FOUND");
    let explain = v1::ExplainJobRequest { tenant: "red".into(), ..explain };
    let reported = JobServiceClient::new(world.admin()).explain_job(explain).await.unwrap().into_inner();
    assert!(!reported.decisions.is_empty(), "an administrator sees all of it");
    // By the log of who did what, and by what was revoked.
    let mut audit = AuditServiceClient::new(later.clone());
    let records =
        audit.list_audit_records(v1::ListAuditRecordsRequest::default()).await.unwrap().into_inner();
    let text = format!("{:?}", records.records);
    assert!(!text.contains("model") && !text.contains("DeleteTenant"), "{text}");
    assert!(text.contains("\"red\"") && records.next_page_token.is_empty(), "its own begin: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn page_tokens_are_good_for_one_list_of_one_caller() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    for name in ["red", "blue", "green"] {
        world.tenant(name, 8).await;
    }
    for node in ["n0", "n1", "n2"] {
        world.node(node).await;
    }
    let nodes = |client: Client, page_token: String| async move {
        let ask = v1::ListNodesRequest { page_size: 1, page_token };
        v1::node_service_client::NodeServiceClient::new(client).list_nodes(ask).await
    };
    let client =
        |world: &World, tenant| world.client(&Identity::user(tenant, "ann", [Role::Viewer]).unwrap());
    let (red, blue) = (client(&world, "red"), client(&world, "blue"));
    let first = nodes(red.clone(), String::new()).await.unwrap().into_inner().next_page_token;
    let second = nodes(red.clone(), first.clone()).await.unwrap().into_inner();
    assert_eq!(second.nodes[0].metadata.as_ref().unwrap().name, "n1");
    // Neither another tenant's people nor administrators go on with it, nor does another list.
    for other in [blue, world.admin()] {
        assert_eq!(error(nodes(other, first.clone()).await).class, ErrorClass::Invalid);
    }
    let mut tenants = TenantServiceClient::new(world.admin());
    let page = |page_token: &str| v1::ListTenantsRequest { page_size: 1, page_token: page_token.into() };
    let all = tenants.list_tenants(page("")).await.unwrap().into_inner().next_page_token;
    assert_eq!(error(nodes(world.admin(), all.clone()).await).class, ErrorClass::Invalid);
    let mut jobs = JobServiceClient::new(red.clone());
    let ask = v1::ListJobsRequest { page_token: first.clone(), ..Default::default() };
    assert_eq!(error(jobs.list_jobs(ask).await).class, ErrorClass::Invalid);
    // Neither the position nor a name can be read out of it; four digits may be those of a name by chance, but not in each.
    let mut tokens = vec![first.clone()];
    for _ in 0..3 {
        tokens.push(nodes(red.clone(), String::new()).await.unwrap().into_inner().next_page_token);
    }
    let plain = |token: &String| token.contains('.') || token.contains("6e30");
    assert!(!tokens.iter().all(plain), "hex of n0: {tokens:?}");
    // It outlives the controller, being sealed with the cluster's own key.
    drop((jobs, tenants));
    world.stop().await;
    world = World::start(dir.path()).await;
    let again = nodes(client(&world, "red"), first).await.unwrap().into_inner();
    assert_eq!(again.nodes[0].metadata.as_ref().unwrap().name, "n1");
    world.stop().await;
}
