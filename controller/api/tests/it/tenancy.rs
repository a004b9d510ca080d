//! What a tenant's end means: nothing that was issued for it is good any more, also for a later tenant of its name.

use std::time::{Duration, Instant};

use controller_store::MemoryStore;
use proto_rpc::{
    CertificateSlot, Client, Credentials, ErrorClass, Identity, KeyRequest, Role, RpcError, tls::Trust,
};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient,
    tenant_service_client::TenantServiceClient,
};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, error, job},
    world::World,
};

/// Within this a live stream must have ended.
const ENDS: Duration = Duration::from_secs(2);

pub async fn delete(world: &World, name: &str) {
    let request = v1::DeleteTenantRequest { name: name.to_owned() };
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
    let begin = Instant::now();
    delete(&other, "red").await;
    for watch in &mut watches {
        let ended = tokio::time::timeout(ENDS, watch.message()).await.expect("the stream ends in time");
        let told = RpcError::from_status(&ended.unwrap_err());
        assert_eq!((told.class, told.reason.as_str()), (ErrorClass::Unauthenticated, "TENANT_GONE"));
    }
    assert!(begin.elapsed() < ENDS);
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
