//! What is left of claims that neither Kubernetes nor kubelet knows any more.

use std::{path::Path, sync::Arc, time::Duration};

use node_agent_dra::{
    checkpoint::Checkpoint,
    devices::{ServerView, devices},
    driver::{Driver, Parts},
    files::DeviceFiles,
    key::ClaimKey,
    kube::Kube,
    store::Store,
    sweep::Sweep,
};
use node_agent_dra_server::{Fault, NODE, Site, claim};
use node_agent_host::{FileHost, Host as _};
use node_agent_qos::DataClass;
use proto_model::NodeName;
use proto_rpc::{CredentialFiles, Credentials};
use tokio::sync::watch;

fn key(uid: &str, name: &str) -> ClaimKey {
    ClaimKey::new(uid, "ml", name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_are_gone_are_removed_and_an_api_server_that_is_away_removes_none() {
    let site = Site::new(Path::new(env!("CARGO_BIN_EXE_rail-dra-driver")), 4).await;
    let files = CredentialFiles { ca: Some(site.path("ca.crt")), ..CredentialFiles::default() };
    let credentials = Credentials::load(&files).unwrap();
    let inventory = FileHost::new(site.path("inventory.json")).discover().unwrap().inventory;
    let seen = devices(&ServerView { inventory, ..ServerView::default() });
    let (_sender, receiver) = watch::channel(Arc::new(seen));
    let driver = Driver::start(Parts {
        node: NodeName::new(NODE).unwrap(),
        pool: NODE.to_owned(),
        store: Arc::new(Store::open(&site.path("state"), &site.path("cdi")).unwrap()),
        kube: Kube::new(&site.api.endpoint, &credentials, site.path("token")).unwrap(),
        devices: receiver,
        files: DeviceFiles::below(site.path("root")),
        data_class: DataClass::default(),
    })
    .unwrap();
    for (uid, name, rail) in [("u1", "stays", 1), ("u2", "goes", 2), ("u3", "anew", 3)] {
        site.allocate(uid, name, &[rail]);
        driver.prepare(key(uid, name)).await.unwrap();
    }
    let mut sweep = Sweep::new(driver.clone(), Checkpoint::at(site.path("dra_manager_state")));
    site.delete_claim("goes");
    site.allocate("u4", "anew", &[0]);
    assert_eq!(sweep.once().await, 0, "nobody knows what kubelet has");
    // A pod that was deleted by force: its container still runs.
    site.write_kubelet_state(&["u1", "u2"]);
    for fault in [Fault::Forbidden, Fault::NotServed] {
        site.api.break_by(fault);
        assert_eq!(sweep.once().await, 0, "{fault:?}");
    }
    site.api.break_by(Fault::None);
    assert_eq!(sweep.once().await, 1);
    assert_eq!(site.on_disk().0, ["u1", "u2"]);
    site.allocate("u5", "second", &[2]);
    let error = driver.prepare(key("u5", "second")).await.unwrap_err().to_string();
    assert!(error.contains("ml/goes"), "{error}");
    // An object without a UID says nothing of the claim.
    let mut nameless = claim("u2", "goes", &[2]);
    nameless["metadata"]["uid"] = "".into();
    site.write_kubelet_state(&[]);
    let path = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/goes";
    site.api.objects().put(path, nameless);
    assert_eq!(sweep.once().await, 0);
    site.delete_claim("goes");
    assert_eq!(sweep.once().await, 1);
    assert_eq!(site.on_disk(), (vec!["u1".to_owned()], vec!["u1".to_owned()]));
    driver.prepare(key("u5", "second")).await.unwrap();
    assert_eq!(sweep.once().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_not_answered_in_time_is_made_again() {
    let site = Site::new(Path::new(env!("CARGO_BIN_EXE_rail-dra-driver")), 1).await;
    let files = CredentialFiles { ca: Some(site.path("ca.crt")), ..CredentialFiles::default() };
    let credentials = Credentials::load(&files).unwrap();
    let kube = Kube::new(&site.api.endpoint, &credentials, site.path("token")).unwrap();
    let path = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/one";
    assert_eq!(kube.get(path).await.unwrap(), None, "it is connected");
    site.allocate("u1", "one", &[0]);
    site.api.break_by(Fault::Holding);
    let kube = kube.with_limit(Duration::from_millis(500));
    let work = tokio::spawn(async move { kube.get(path).await });
    site.api.held_calls(2).await;
    site.api.break_by(Fault::None);
    assert_eq!(work.await.unwrap().unwrap().unwrap()["metadata"]["uid"], "u1");
}
