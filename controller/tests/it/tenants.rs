//! The end of a tenant, seen at the process itself: over TLS, through kill -9, and with another time for names to rest.

use proto_rpc::{CertificateSlot, ErrorClass, KeyRequest, RpcError, tls::Trust};
use proto_wire::v1::job_service_client::JobServiceClient;

use super::*;

fn client(running: &Running, credentials: &Credentials) -> Client {
    let endpoint: Endpoint = running.json["endpoints"][0].as_str().unwrap().parse().unwrap();
    Client::new(&[endpoint], credentials, &ClientOptions::default()).unwrap()
}

async fn refused(client: Client) -> RpcError {
    let answer = JobServiceClient::new(client).list_jobs(v1::ListJobsRequest::default()).await;
    RpcError::from_status(&answer.unwrap_err())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_issued_for_a_deleted_tenant_is_refused_by_every_life_of_the_process() {
    let (_keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let running = Running::start(&dir);
    let mut tenants = TenantServiceClient::new(running.client(&dir, 0));
    tenants.apply_tenant(tenant("red")).await.unwrap();
    let key = KeyRequest::generate().unwrap();
    let ask = v1::IssueCertificateRequest {
        csr_pem: key.csr_pem.clone(),
        tenant: "red".into(),
        user: "ann".into(),
        role: v1::Role::TenantAdmin.into(),
        lifetime: None,
    };
    let issued = tenants.issue_certificate(ask).await.unwrap().into_inner();
    let slot = CertificateSlot::new(&issued.certificate_pem, &key.key_pem).unwrap();
    let ann = Credentials::new(Trust::Ca(issued.ca_pem)).with_certificate(slot);
    let mut jobs = JobServiceClient::new(client(&running, &ann).without_timeout());
    let mut watch = jobs.watch_jobs(v1::WatchJobsRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some(), "SYNCED");
    let delete = || v1::DeleteTenantRequest { name: "red".into(), ..Default::default() };
    tenants.delete_tenant(delete()).await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, watch.message()).await.expect("the watch ends in time");
    assert_eq!(RpcError::from_status(&ended.unwrap_err()).reason, "TENANT_GONE");
    let rests = RpcError::from_status(&tenants.apply_tenant(tenant("red")).await.unwrap_err());
    assert_eq!((rests.class, rests.reason.as_str()), (ErrorClass::Conflict, "TENANT_NAME_RESTS"));
    let reuse = v1::ApplyTenantRequest { reuse_name: true, ..tenant("red") };
    tenants.apply_tenant(reuse).await.unwrap();
    assert_eq!(refused(client(&running, &ann)).await.reason, "TENANT_GONE");
    drop(running);

    // Names need not rest here any more; credentials end all the same.
    let running = Running::start_with(&dir, &["--tenant-name-quarantine", "0"]);
    assert_eq!(refused(client(&running, &ann)).await.reason, "TENANT_GONE");
    let mut tenants = TenantServiceClient::new(running.client(&dir, 0));
    tenants.delete_tenant(delete()).await.unwrap();
    tenants.apply_tenant(tenant("red")).await.unwrap();
    assert_eq!(refused(client(&running, &ann)).await.reason, "TENANT_GONE");
}
