//! One authority after another on several controllers: they go on following each other, whoever calls them is served by
//! all, and a restart in the middle changes nothing.

use std::{fs, path::Path, time::Instant};

use controller_store::real_etcd::RealEtcd;
use proto_rpc::{
    CertificateSlot, Client, ClientOptions, Credentials, Endpoint, KeyRequest, TrustSlot, tls::Trust,
};
use proto_wire::v1::{self, tenant_service_client::TenantServiceClient};

use crate::{
    PATIENCE, Running,
    etcd::{flags, texts},
    folder, init,
    keep::reported,
    program,
    several::PATIENT,
};

fn ca(step: &str, dir: &Path, well: bool) -> String {
    reported(&program().args(["ca", step, "--data-dir"]).arg(dir).output().unwrap(), well)
}

fn log(dir: &Path) -> String {
    fs::read_to_string(dir.join("log")).unwrap_or_default()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn works(client: &Client) -> bool {
    let list = v1::ListTenantsRequest::default();
    TenantServiceClient::new(client.clone()).list_tenants(list).await.is_ok()
}

/// Takes over by itself what another process has done to the files; so many times until now.
async fn taken_over(dir: &Path, times: usize) {
    until("the controller never takes it over", async || {
        log(dir).matches("the cluster's authority has changed").count() >= times
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_controllers_follow_each_other_through_a_whole_succession() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let (keep, first) = folder();
    assert!(init(&first, &[]).status.success());
    let second = keep.path().join("second");
    fs::create_dir(&second).unwrap();
    let copy = |files: &[&str]| {
        for file in files {
            fs::copy(first.join(file), second.join(file)).unwrap();
        }
    };
    copy(&["ca.pem", "ca.key", "store.keys"]);
    let flags = flags(&etcd);
    let start = |dir: &Path| Running::start_with(dir, &[&texts(&flags)[..], &PATIENT].concat());
    let (leads, mut follows) = (start(&first), start(&second));
    let old = [leads.client(&first, 0), follows.client(&first, 0)];
    assert!(works(&old[0]).await && works(&old[1]).await);

    assert!(ca("rotate", &first, true).contains("the old one issues"));
    copy(&["ca.pem", "ca.next.key"]);
    taken_over(&first, 1).await;
    taken_over(&second, 1).await;
    assert!(ca("activate", &first, true).contains("the new one issues"));
    taken_over(&first, 2).await;
    // One issues from the new one, one from the old one: all trust both.
    assert!(works(&old[0]).await && works(&old[1]).await);
    ca("activate", &second, true);
    taken_over(&second, 2).await;
    drop(follows);
    follows = start(&second);
    let again = follows.client(&first, 0);
    until("the standby does not hand calls on", async || works(&again).await).await;

    let key = KeyRequest::generate().unwrap();
    let ask = v1::IssueCertificateRequest {
        csr_pem: key.csr_pem.clone(),
        user: "admin".to_owned(),
        role: v1::Role::Admin.into(),
        ..v1::IssueCertificateRequest::default()
    };
    let issued = TenantServiceClient::new(again.clone()).issue_certificate(ask).await.unwrap().into_inner();
    let slot = CertificateSlot::new(&issued.certificate_pem, &key.key_pem).unwrap();
    let trust = TrustSlot::new(&issued.ca_pem).unwrap();
    assert_eq!(trust.pins().len(), 2, "whoever gets a certificate is told of both");
    assert_eq!(slot.issuer().unwrap(), Some(trust.pins()[0]));
    let credentials = Credentials::new(Trust::Slot(trust)).with_certificate(slot);
    let endpoints =
        [&leads, &follows].map(|running| running.json["endpoints"][0].as_str().unwrap().to_owned());
    let new: Vec<Client> = endpoints
        .iter()
        .map(|endpoint| {
            let endpoint: Endpoint = endpoint.parse().unwrap();
            Client::new(&[endpoint], &credentials, &ClientOptions::default()).unwrap()
        })
        .collect();
    assert!(works(&new[0]).await && works(&new[1]).await);
    until("it is not written who is behind", async || first.join("ca.holders.json").exists()).await;
    // The administrator's new certificate is the newest that was seen: nobody is behind.
    until("somebody is behind", async || {
        program().args(["ca", "retire", "--data-dir"]).arg(&first).output().unwrap().status.success()
    })
    .await;
    ca("retire", &second, true);
    taken_over(&second, 1).await;
    for (old, new) in [&old[0], &again].into_iter().zip(&new) {
        until("a retired certificate is good", async || !works(old).await).await;
        until("a new certificate is not good", async || works(new).await).await;
    }
    assert!(ca("status", &first, true).contains("one authority"));
    assert!(ca("abort", &first, false).contains("no other authority"));
    assert_eq!(follows.terminate(), Some(0));
    assert_eq!(leads.terminate(), Some(0));
}
