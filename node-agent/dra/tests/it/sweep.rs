//! What is left of claims that neither Kubernetes nor kubelet knows any more.

use std::{path::Path, sync::Arc};

use node_agent_dra::{
    devices::{ServerView, devices},
    driver::{Driver, Parts},
    files::DeviceFiles,
    key::ClaimKey,
    kube::Kube,
    store::Store,
    sweep,
};
use node_agent_dra_server::{Fault, NODE, Site};
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
    site.delete_claim("goes");
    site.allocate("u4", "anew", &[0]);
    site.api.break_by(Fault::Forbidden);
    assert_eq!(sweep::once(&driver).await, 0);
    assert_eq!(site.on_disk().0.len(), 3);
    site.api.break_by(Fault::None);
    assert_eq!(sweep::once(&driver).await, 2);
    assert_eq!(site.on_disk(), (vec!["u1".to_owned()], vec!["u1".to_owned()]));
    assert_eq!(sweep::once(&driver).await, 0);
}
