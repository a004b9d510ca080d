//! Claims that are prepared, removed and asked for again, with ends of the driver in between.

use std::fs;

use node_agent_dra_server::{Fault, Interface, Kubelet, within};
use serde_json::Value;

use crate::site;

const CLAIM: (&str, &str, &str) = ("uid-1", "ml", "trainer-rails");

fn environment(specification: &Value) -> Vec<&str> {
    let of_claim = &specification["devices"][0]["containerEdits"]["env"];
    of_claim.as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelet_learns_who_the_driver_is_and_where() {
    let site = site().await;
    let info = Kubelet::at(&site.folders().registration(), Interface::V1).register().await.unwrap();
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("DRAPlugin", "rail.railyard.io"));
    assert_eq!(info.endpoint, site.folders().plugin().display().to_string());
    assert_eq!(info.supported_versions, ["v1.DRAPlugin", "v1beta1.DRAPlugin"]);
    // What kubelet calls is for kubelet alone.
    for socket in [site.folders().registration(), site.folders().plugin()] {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(site.end().unwrap().success());
    assert!(!site.folders().registration().exists(), "kubelet deregisters by that");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_prepared_once_and_removed_whole_in_both_versions() {
    let site = site().await;
    site.allocate(CLAIM.0, CLAIM.2, &[1, 2]);
    for interface in [Interface::V1, Interface::V1Beta1] {
        let kubelet = site.kubelet(interface);
        let given = kubelet.prepare_one(CLAIM).await.unwrap();
        assert_eq!(given.keys().collect::<Vec<_>>(), ["nic-0000-01-00-0", "nic-0000-02-00-0"]);
        let specification = site.specification(CLAIM.0).unwrap();
        let has = environment(&specification);
        for variable in ["NCCL_IB_HCA==mlx5_1:1,mlx5_2:1", "RAIL_RAILS=1,2", "RAIL_NODE=n0"] {
            assert!(has.contains(&variable), "{has:?}");
        }
        let kind = specification["kind"].as_str().unwrap();
        let names: Vec<String> = specification["devices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|device| format!("{kind}={}", device["name"].as_str().unwrap()))
            .collect();
        assert!(given.values().flatten().all(|id| names.contains(id)), "{given:?} {names:?}");
        for file in ["/dev/infiniband/uverbs2", "/dev/infiniband/rdma_cm"] {
            assert!(specification.to_string().contains(file), "{specification}");
        }
        // Whatever the claim says now: what was given stays.
        site.allocate(CLAIM.0, CLAIM.2, &[3]);
        assert_eq!(kubelet.prepare_one(CLAIM).await.unwrap(), given);
        site.allocate(CLAIM.0, CLAIM.2, &[1, 2]);
        for _ in 0..2 {
            kubelet.unprepare_one(CLAIM).await.unwrap();
            assert_eq!(site.on_disk(), (Vec::new(), Vec::new()));
        }
    }
    kubelet_takes_several_at_once(&site).await;
}

async fn kubelet_takes_several_at_once(site: &node_agent_dra_server::Site) {
    site.allocate("uid-2", "second", &[0]);
    let kubelet = site.kubelet(Interface::V1);
    let others = [CLAIM, ("uid-2", "ml", "second"), ("uid-3", "ml", "never-made"), ("../../x", "ml", "bad")];
    let answers = kubelet.prepare(&others).await.unwrap();
    assert!(answers["uid-1"].is_ok() && answers["uid-2"].is_ok());
    assert!(answers["uid-3"].as_ref().unwrap_err().contains("is gone"));
    assert!(answers["../../x"].as_ref().unwrap_err().contains("uid"));
    let many: Vec<(&str, &str, &str)> = (0..300).map(|_| CLAIM).collect();
    assert!(kubelet.prepare(&many).await.unwrap_err().message().contains("at most 256"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_survives_kills_a_reboot_and_an_api_server_that_is_away() {
    let site = site().await;
    site.allocate(CLAIM.0, CLAIM.2, &[1]);
    let given = site.kubelet(Interface::V1).prepare_one(CLAIM).await.unwrap();
    let shown = site.specification(CLAIM.0).unwrap();
    site.kill();
    // A reboot: container runtimes' folder is in memory. And somebody's file that has no claim.
    fs::remove_dir_all(site.path("cdi")).unwrap();
    fs::create_dir(site.path("cdi")).unwrap();
    fs::write(site.path("cdi/rail.railyard.io-uid-9.json"), "{}").unwrap();
    site.api.break_by(Fault::Away);
    // The NIC has another name meanwhile: pods that run keep what they were given.
    fs::remove_file(site.path("inventory.json")).unwrap();
    site.start().await;
    assert_eq!(site.specification(CLAIM.0).unwrap(), shown);
    assert!(site.specification("uid-9").is_none());
    let kubelet = site.kubelet(Interface::V1);
    assert_eq!(kubelet.prepare_one(CLAIM).await.unwrap(), given);
    kubelet.unprepare_one(CLAIM).await.unwrap();
    assert_eq!(site.on_disk(), (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rail_is_one_claims_until_that_is_removed() {
    let site = site().await;
    site.allocate(CLAIM.0, CLAIM.2, &[0, 1]);
    site.allocate("uid-2", "second", &[1, 2]);
    let (kubelet, second) = (site.kubelet(Interface::V1), ("uid-2", "ml", "second"));
    kubelet.prepare_one(CLAIM).await.unwrap();
    let error = kubelet.prepare_one(second).await.unwrap_err();
    assert!(error.contains("nic-0000-01-00-0") && error.contains("ml/trainer-rails"), "{error}");
    assert_eq!(site.on_disk().0, ["uid-1"]);
    kubelet.unprepare_one(CLAIM).await.unwrap();
    kubelet.prepare_one(second).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_record_is_made_anew_when_kubelet_asks() {
    let site = site().await;
    site.allocate(CLAIM.0, CLAIM.2, &[1]);
    site.kubelet(Interface::V1).prepare_one(CLAIM).await.unwrap();
    site.kill();
    fs::write(site.path("state/claims/uid-1.json"), "{").unwrap();
    site.start().await;
    assert!(site.specification(CLAIM.0).is_some(), "its container may be started again");
    within(&site, "the log names the file", async || site.log().contains("uid-1.json")).await;
    site.kubelet(Interface::V1).prepare_one(CLAIM).await.unwrap();
    site.kubelet(Interface::V1).unprepare_one(CLAIM).await.unwrap();
    assert_eq!(site.on_disk(), (Vec::new(), Vec::new()));
}
