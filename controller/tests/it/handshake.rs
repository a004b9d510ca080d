//! Certificates that the real controller refuses at the handshake leave a record.

use std::time::{Duration, Instant};

use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, KeyRequest, files};
use proto_wire::v1::{
    self, audit_record::Content, audit_service_client::AuditServiceClient,
    health_service_client::HealthServiceClient, tenant_service_client::TenantServiceClient,
};

use crate::{Running, folder, init};

#[tokio::test]
async fn a_revoked_certificate_at_the_handshake_is_in_the_audit_log() {
    let (_keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let running = Running::start(&dir);
    let admin = running.client(&dir, 0);
    let mut tenants = TenantServiceClient::new(admin.clone());
    let key = KeyRequest::generate().unwrap();
    let ask = v1::IssueCertificateRequest {
        csr_pem: key.csr_pem.clone(),
        tenant: "default".to_owned(),
        user: "eve".to_owned(),
        role: v1::Role::User.into(),
        lifetime: None,
    };
    let issued = tenants.issue_certificate(ask).await.unwrap().into_inner();
    let (certificate, secret) = (dir.join("eve.pem"), dir.join("eve.key"));
    files::write_public(&certificate, &issued.certificate_pem).unwrap();
    files::write_secret(&secret, &key.key_pem).unwrap();
    let subject = "tenant/default/user/eve".to_owned();
    tenants.revoke(v1::RevokeRequest { subject, reason: "lost".to_owned() }).await.unwrap();
    let files = CredentialFiles {
        ca: Some(dir.join("ca.pem")),
        certificate: Some(certificate),
        key: Some(secret),
        ..CredentialFiles::default()
    };
    let credentials = Credentials::load(&files).unwrap();
    let endpoint = running.json["endpoints"][0].as_str().unwrap().parse().unwrap();
    let eve = Client::new(&[endpoint], &credentials, &ClientOptions::default()).unwrap();
    let refused = HealthServiceClient::new(eve).get_health(v1::GetHealthRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{refused}");
    let begin = Instant::now();
    let denial = loop {
        let ask = v1::ListAuditRecordsRequest { rpc: "Handshake".to_owned(), ..Default::default() };
        let found =
            AuditServiceClient::new(admin.clone()).list_audit_records(ask).await.unwrap().into_inner();
        if let Some(Content::Denial(denial)) =
            found.records.into_iter().next().and_then(|found| found.content)
        {
            break denial;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "no record");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(denial.reason, "CERTIFICATE_REVOKED");
    let whose = denial.detail.contains("tenant/default/") && denial.detail.contains("/user/eve");
    assert!(whose, "{}", denial.detail);
    assert_eq!(denial.actor.unwrap().who, "anonymous", "nobody has proved to hold its key");
}
