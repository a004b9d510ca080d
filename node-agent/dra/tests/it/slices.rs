//! The ResourceSlice: as the rails are, no write without a difference, and nothing that is unfit where taints are dropped.

use std::{path::Path, process::Command};

use node_agent_dra_server::{Interface, Kubelet, NODE, Site, within};
use serde_json::Value;

use crate::site;

fn devices(site: &Site) -> Vec<Value> {
    let slice = site.slice().unwrap_or_default();
    slice["spec"]["devices"].as_array().cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_follows_the_rails_with_a_write_for_each_change() {
    let site = site().await;
    within(&site, "four rails are published", async || devices(&site).len() == 4).await;
    let slice = site.slice().unwrap();
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "uid-of-the-node");
    assert_eq!(slice["spec"]["nodeName"], NODE);
    assert_eq!(devices(&site)[3]["attributes"]["rdmaDevice"]["string"], "mlx5_3");
    site.write_inventory(4, |k| k != 2);
    let tainted =
        || devices(&site).get(2).and_then(|device| device["taints"][0]["value"].as_str().map(str::to_owned));
    within(&site, "the rail that is down is tainted", async || tainted().as_deref() == Some("LinkDown"))
        .await;
    assert_eq!(devices(&site)[2]["attributes"]["health"]["string"], "unfit");
    assert_eq!(site.slice().unwrap()["spec"]["pool"]["generation"], 2);
    site.write_inventory(4, |_| true);
    within(&site, "the taint is gone", async || tainted().is_none()).await;
    assert_eq!(site.api.objects().writes, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_taints_are_dropped_an_unfit_rail_is_left_out_from_the_first_write_on() {
    let site = Site::new(Path::new(env!("CARGO_BIN_EXE_rail-dra-driver")), 4).await;
    site.api.objects().keeps_taints = false;
    site.write_inventory(4, |k| k != 2);
    site.start().await;
    within(&site, "three rails are published", async || devices(&site).len() == 3).await;
    assert_eq!(site.api.objects().writes, 1, "it was never there without its taint");
    within(&site, "the log says so", async || site.log().contains("DRADeviceTaints")).await;
}

/// The feature is switched off in a cluster that had it: what has taints keeps them, and nobody heeds them.
#[tokio::test(flavor = "multi_thread")]
async fn where_taints_of_before_are_kept_and_new_ones_dropped_an_unfit_rail_is_left_out() {
    let site = Site::new(Path::new(env!("CARGO_BIN_EXE_rail-dra-driver")), 4).await;
    site.write_inventory(4, |k| k != 2);
    site.start().await;
    within(&site, "four rails are published", async || devices(&site).len() == 4).await;
    assert_eq!(devices(&site)[2]["taints"][0]["value"], "LinkDown");
    site.kill();
    site.api.objects().keeps_taints = false;
    site.start().await;
    within(&site, "three rails are published", async || devices(&site).len() == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_that_somebody_deletes_comes_back_with_the_next_change_and_a_foreign_one_stays() {
    let site = site().await;
    within(&site, "four rails are published", async || devices(&site).len() == 4).await;
    let path = format!("/apis/resource.k8s.io/v1/resourceslices/{NODE}-rails");
    site.api.objects().remove(&path);
    site.write_inventory(3, |_| true);
    within(&site, "three rails are published", async || devices(&site).len() == 3).await;
    let mut foreign = site.slice().unwrap();
    foreign["spec"]["driver"] = "gpu.example.com".into();
    site.api.objects().put(&path, foreign.clone());
    site.write_inventory(4, |_| true);
    within(&site, "the log names the other driver", async || site.log().contains("gpu.example.com")).await;
    assert_eq!(site.slice(), Some(foreign));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_read_again_and_a_slice_that_kubelet_removes_comes_back() {
    let site = site().await;
    within(&site, "four rails are published", async || devices(&site).len() == 4).await;
    site.api.objects().conflicts = 1;
    site.write_inventory(3, |_| true);
    within(&site, "three rails are published", async || devices(&site).len() == 3).await;
    assert_eq!(site.api.objects().conflicts, 0, "there was one");
    // Kubelet starts anew: it removes the slices of its server, and registers drivers.
    site.api.objects().remove(&format!("/apis/resource.k8s.io/v1/resourceslices/{NODE}-rails"));
    Kubelet::at(&site.folders().registration(), Interface::V1).register().await.unwrap();
    within(&site, "the slice is back", async || devices(&site).len() == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_are_printed_without_kubernetes() {
    let site = site().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_rail-dra-driver"));
    command.args(["devices", "--kubernetes-node", NODE, "--inventory"]).arg(site.path("inventory.json"));
    let output = command.output().unwrap();
    let slice: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(slice["kind"], "ResourceSlice");
    assert_eq!(slice["spec"]["devices"].as_array().unwrap().len(), 4);
    let bad = Command::new(env!("CARGO_BIN_EXE_rail-dra-driver"))
        .args(["devices", "--kubernetes-node", "N 0"])
        .output()
        .unwrap();
    assert_eq!(bad.status.code(), Some(2));
}
