//! One certificate authority after another under a living cluster: jobs and agents go on, and what the old one issued is
//! refused once it is retired.

use std::{fs, path::Path, process::Command, time::Duration};

use integration_harness::{Access, Cluster, Shape, binaries, eventually};
use proto_rpc::{Client, ClientOptions, Credentials, Endpoint, KeyRequest, TrustSlot, tls::Trust};
use proto_wire::v1::{self, tenant_service_client::TenantServiceClient};

const SOON: Duration = Duration::from_secs(60);

fn ca(step: &str, dir: &Path) -> Result<String, String> {
    let mut command = Command::new(binaries::directory()?.join("rail-controller"));
    let output =
        command.args(["ca", step, "--data-dir"]).arg(dir).output().map_err(|error| error.to_string())?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(said) } else { Err(said) }
}

fn pid(cluster: &Cluster, job: &str) -> String {
    let found = cluster.job(job).unwrap();
    found["status"]["attempt"].to_string() + &found["status"]["phase"].to_string()
}

async fn new_administrator(client: &Client) -> (KeyRequest, v1::IssueCertificateResponse) {
    let key = KeyRequest::generate().unwrap();
    let ask = v1::IssueCertificateRequest {
        csr_pem: key.csr_pem.clone(),
        user: "admin".to_owned(),
        role: v1::Role::Admin.into(),
        ..v1::IssueCertificateRequest::default()
    };
    let issued = TenantServiceClient::new(client.clone()).issue_certificate(ask).await.unwrap().into_inner();
    (key, issued)
}

async fn who_am_i(client: &Client) -> Result<String, tonic::Status> {
    let answer = TenantServiceClient::new(client.clone()).who_am_i(v1::WhoAmIRequest {}).await?;
    Ok(answer.into_inner().identity)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_and_agents_go_on_while_one_authority_follows_another() {
    let env = vec![("RAIL_CONTROLLER_CA_RENEW_WITHIN".to_owned(), "200ms".to_owned())];
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 1, gpus: 1, env, ..Shape::default() }).unwrap();
    let dir = cluster.dir().join("controller");
    let spec = "gang: {nodes: 2, gpusPerNode: 1}\ngracePeriod: 1s\ncommand: {argv: [sleep, '600']}";
    cluster.submit("through", spec).unwrap();
    cluster.wait_for("through", &["RUNNING"], SOON).unwrap();
    let (before, access) = (pid(&cluster, "through"), Access::of(&cluster).unwrap());
    let old = access.client().unwrap();
    let old_ca = fs::read_to_string(&access.ca).unwrap();

    assert!(ca("rotate", &dir).unwrap().contains("the old one issues"));
    eventually("the controller trusts both", SOON, || {
        fs::read_to_string(cluster.dir().join("controller/ca.holders.json")).ok().map(drop)
    })
    .unwrap();
    assert!(ca("retire", &dir).unwrap_err().contains("does not issue yet"));
    assert!(ca("activate", &dir).unwrap().contains("the new one issues"));
    // Both agents renew by themselves; the administrator is the last, and nobody is locked out by accident.
    eventually("both agents renew", SOON, || {
        let status = ca("status", &dir).unwrap();
        let behind = status.lines().filter(|line| line.starts_with("behind") || line.starts_with("unseen"));
        (behind.clone().all(|line| !line.contains("node/")) && status.contains("admin/admin")).then_some(())
    })
    .unwrap();
    assert!(ca("retire", &dir).unwrap_err().contains("locked out"));
    for node in ["n0", "n1"] {
        let shown = cluster.dir().join(node).join("identity/ca.pem");
        assert_eq!(fs::read_to_string(shown).unwrap().matches("BEGIN CERTIFICATE").count(), 2, "{node}");
    }
    assert!(who_am_i(&old).await.is_ok(), "the old certificate is good until it is retired");
    // Who knows only the old one is told of both.
    let copy = cluster.home().join("people.pem");
    fs::write(&copy, &old_ca).unwrap();
    let saved = cluster.railctl(&["whoami", "--save-ca", "--ca", copy.to_str().unwrap()]);
    assert_eq!(saved.code, 0, "{}", saved.stderr);
    assert_eq!(fs::read_to_string(&copy).unwrap().matches("BEGIN CERTIFICATE").count(), 2);
    let (key, issued) = new_administrator(&old).await;
    let trust = TrustSlot::new(&issued.ca_pem).unwrap();
    let slot = proto_rpc::CertificateSlot::new(&issued.certificate_pem, &key.key_pem).unwrap();
    let endpoints: Vec<Endpoint> = access.endpoints.iter().map(|text| text.parse().unwrap()).collect();
    let credentials = Credentials::new(Trust::Slot(trust)).with_certificate(slot);
    let renewed = Client::new(&endpoints, &credentials, &ClientOptions::default()).unwrap();
    assert!(who_am_i(&renewed).await.unwrap().ends_with("/admin/admin"));
    fs::write(&access.certificate, &issued.certificate_pem).unwrap();
    fs::write(&access.key, &key.key_pem).unwrap();
    eventually("nobody is behind", SOON, || ca("retire", &dir).ok().map(drop)).unwrap();

    eventually("what the old one issued is refused", SOON, || {
        let refused = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async { who_am_i(&old).await.is_err() })
        });
        refused.then_some(())
    })
    .unwrap();
    assert!(who_am_i(&renewed).await.unwrap().ends_with("/admin/admin"));
    eventually("both agents trust the new one alone", SOON, || {
        let one = |node: &str| {
            let path = cluster.dir().join(node).join("identity/ca.pem");
            fs::read_to_string(path).is_ok_and(|pem| pem.matches("BEGIN CERTIFICATE").count() == 1)
        };
        (one("n0") && one("n1")).then_some(())
    })
    .unwrap();
    assert_eq!(pid(&cluster, "through"), before, "the job was not disturbed");
    assert_eq!(cluster.railctl(&["cancel", "through"]).code, 0);
    cluster.submit("after", &spec.replace("600", "0")).unwrap();
    cluster.wait_for("after", &["COMPLETED"], SOON).unwrap();
    verify_the_log(&cluster, &access, &old_ca);
}

/// The record that names the new one was signed by the old one; both certificates check all of the log.
fn verify_the_log(cluster: &Cluster, access: &Access, old_ca: &str) {
    let dir = cluster.dir().join("controller");
    let path = cluster.home().join("audit.jsonl");
    let exported = cluster.railctl(&["audit", "export", "--out", path.to_str().unwrap()]);
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    let new_ca = fs::read_to_string(&access.ca).unwrap();
    let verify = |pem: &str| {
        let with = cluster.home().join("with.pem");
        fs::write(&with, pem).unwrap();
        let args = ["audit", "verify", path.to_str().unwrap(), "--ca", with.to_str().unwrap()];
        cluster.railctl(&args)
    };
    let retired = fs::read_to_string(dir.join("ca.retired.pem")).unwrap();
    let both = verify(&(new_ca.clone() + &retired));
    assert_eq!(both.code, 0, "{}{}", both.stdout, both.stderr);
    assert_ne!(verify(old_ca).code, 0, "the new one's checkpoints are not the old one's");
    assert!(fs::read_to_string(&path).unwrap().contains("trusted beside it"));
}
