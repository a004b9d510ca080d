//! What goes wrong around the driver: claims that go while they are prepared, an API server that is away, kubelet's folders, two drivers.

use std::{fs, process::Stdio};

use node_agent_dra_server::{Fault, Interface, Kubelet, within};

use crate::site;

const CLAIM: (&str, &str, &str) = ("uid-1", "ml", "trainer-rails");

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_deleted_while_it_is_prepared_leaves_nothing() {
    let site = site().await;
    site.allocate(CLAIM.0, CLAIM.2, &[1]);
    let kubelet = site.kubelet(Interface::V1);
    // Deleted before it could be read.
    site.api.break_by(Fault::Holding);
    let work = tokio::spawn({
        let kubelet = kubelet.clone();
        async move { kubelet.prepare_one(CLAIM).await }
    });
    site.api.held().await;
    site.delete_claim(CLAIM.2);
    site.api.break_by(Fault::None);
    assert!(work.await.unwrap().unwrap_err().contains("is gone"));
    assert_eq!(site.on_disk(), (Vec::new(), Vec::new()));
    // Made anew under its name: another claim.
    site.allocate("uid-2", CLAIM.2, &[1]);
    assert!(kubelet.prepare_one(CLAIM).await.unwrap_err().contains("is gone"));
    // Kubelet has given up waiting, and has it removed while it is still prepared.
    site.allocate(CLAIM.0, CLAIM.2, &[1]);
    site.api.break_by(Fault::Holding);
    let work = tokio::spawn({
        let kubelet = kubelet.clone();
        async move { kubelet.prepare_one(CLAIM).await }
    });
    site.api.held().await;
    work.abort();
    let removal = tokio::spawn({
        let kubelet = kubelet.clone();
        async move { kubelet.unprepare_one(CLAIM).await }
    });
    site.api.break_by(Fault::None);
    removal.await.unwrap().unwrap();
    assert_eq!(site.on_disk(), (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_away_costs_an_error_and_the_rest_is_served() {
    let site = site().await;
    site.allocate(CLAIM.0, CLAIM.2, &[1]);
    site.allocate("uid-2", "second", &[2]);
    let kubelet = site.kubelet(Interface::V1);
    kubelet.prepare_one(CLAIM).await.unwrap();
    site.api.break_by(Fault::Away);
    let waiting = tokio::spawn({
        let kubelet = kubelet.clone();
        async move { kubelet.prepare_one(("uid-2", "ml", "second")).await }
    });
    kubelet.prepare_one(CLAIM).await.unwrap();
    kubelet.unprepare_one(CLAIM).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.contains("does not answer") && error.contains("etcd is away"), "{error}");
    site.api.break_by(Fault::Forbidden);
    let error = kubelet.prepare_one(("uid-2", "ml", "second")).await.unwrap_err();
    assert!(error.contains("403") && error.contains("ClusterRole"), "{error}");
    site.api.break_by(Fault::None);
    kubelet.prepare_one(("uid-2", "ml", "second")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_somebody_removes_is_made_again_and_registered_anew() {
    let site = site().await;
    let folders = site.folders();
    fs::remove_dir_all(&folders.registry).unwrap();
    fs::remove_file(folders.plugin()).unwrap();
    within(&site, "the sockets are there", async || {
        folders.registration().exists() && folders.plugin().exists()
    })
    .await;
    let again = Kubelet::at(&folders.registration(), Interface::V1);
    within(&site, "kubelet registers it anew", async || again.register().await.is_ok()).await;
    site.allocate(CLAIM.0, CLAIM.2, &[1]);
    let kubelet = site.kubelet(Interface::V1);
    within(&site, "a claim is prepared", async || kubelet.prepare_one(CLAIM).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_used_is_said_before_anything_is_served() {
    let site = site().await;
    let ended = |change: &dyn Fn(&mut std::process::Command)| {
        let mut command = site.command();
        change(&mut command);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = ended(&|_| {});
    assert!(code == Some(1) && error.contains("another rail-dra-driver uses"), "{error}");
    let (code, error) = ended(&|command| _ = command.args(["--rails", "by-luck"]));
    assert!(code == Some(2) && error.contains("--rails"), "{error}");
    fs::write(site.path("token"), "of another cluster").unwrap();
    site.allocate(CLAIM.0, CLAIM.2, &[1]);
    let error = site.kubelet(Interface::V1).prepare_one(CLAIM).await.unwrap_err();
    assert!(error.contains("401") && error.contains("token"), "{error}");
    fs::remove_file(site.path("token")).unwrap();
    let (code, error) = ended(&|_| {});
    assert!(code == Some(2) && error.contains("--api-token"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_not_there_and_a_nic_without_a_file_are_named() {
    let site = site().await;
    site.allocate(CLAIM.0, CLAIM.2, &[7]);
    let kubelet = site.kubelet(Interface::V1);
    within(&site, "the rails are known", async || site.path("state/rails.json").exists()).await;
    let error = kubelet.prepare_one(CLAIM).await.unwrap_err();
    assert!(error.contains("nic-0000-07-00-0") && error.contains("there are nic-0000-00-00-0"), "{error}");
    site.allocate(CLAIM.0, CLAIM.2, &[1]);
    fs::remove_dir_all(site.path("root/sys/class/infiniband_verbs/uverbs1")).unwrap();
    let error = kubelet.prepare_one(CLAIM).await.unwrap_err();
    assert!(error.contains("mlx5_1") && error.contains("ib_uverbs"), "{error}");
    assert_eq!(site.on_disk(), (Vec::new(), Vec::new()));
}
