//! `rail-controller store`: moved to etcd and back under a living cluster's feet, backed up, restored, and damaged.

use std::{fs, path::Path, process::Output};

use controller_store::{EtcdOptions, EtcdStore, Store, real_etcd::RealEtcd};
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, tenant_service_client::TenantServiceClient,
};

use crate::{Running, folder, init, program, tenant};

pub fn store(args: &[&str], dir: &Path) -> Output {
    program().arg("store").args(args).arg("--data-dir").arg(dir).output().unwrap()
}

/// What it said; it must have gone well, or not.
pub fn reported(output: &Output, well: bool) -> String {
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.success(), well, "{text}");
    text
}

/// Starts a controller, looks at its tenants and its epoch, lets it make one more tenant, and ends it.
async fn visit(dir: &Path, flags: &[&str], expected: &[&str], make: &str) -> u64 {
    let running = Running::start_with(dir, flags);
    let client = running.client(dir, 0);
    let mut tenants = TenantServiceClient::new(client.clone());
    let list = tenants.list_tenants(v1::ListTenantsRequest::default()).await.unwrap().into_inner();
    let names: Vec<_> = list.tenants.into_iter().map(|tenant| tenant.metadata.unwrap().name).collect();
    assert_eq!(names, expected);
    tenants.apply_tenant(tenant(make)).await.unwrap();
    let health = HealthServiceClient::new(client).get_health(v1::GetHealthRequest {}).await.unwrap();
    assert_eq!(running.terminate(), Some(0));
    health.into_inner().epoch
}

#[tokio::test(flavor = "multi_thread")]
async fn to_etcd_and_back_with_everything_and_rising_epochs() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let endpoint = etcd.endpoint().to_string();
    let in_etcd = ["--store", "etcd", "--etcd-endpoints", &endpoint];
    let (_keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let first = visit(&dir, &[], &["default"], "one").await;
    let moved = store(&["migrate", "--to", "etcd", "--etcd-endpoints", &endpoint], &dir);
    assert!(reported(&moved, true).contains("--store etcd"));
    let again = store(&["migrate", "--to", "etcd", "--etcd-endpoints", &endpoint], &dir);
    assert!(reported(&again, false).contains("--force"), "what is there is not overwritten");
    let second = visit(&dir, &in_etcd, &["default", "one"], "two").await;
    assert!(second > first, "agents would refuse {second} after {first}");
    let back = store(&["migrate", "--to", "embedded", "--etcd-endpoints", &endpoint], &dir);
    assert!(reported(&back, false).contains("--force"));
    let back = store(&["migrate", "--to", "embedded", "--force", "--etcd-endpoints", &endpoint], &dir);
    assert!(reported(&back, true).contains("kept as"));
    let third = visit(&dir, &[], &["default", "one", "two"], "three").await;
    assert!(third > second, "agents would refuse {third} after {second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_restored_and_a_damaged_one_costs_nothing() {
    let (_keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let first = visit(&dir, &[], &["default"], "one").await;
    let file = dir.join("monday.rail");
    let path = file.to_str().unwrap();
    assert!(reported(&store(&["backup", "--out", path], &dir), true).contains("SHA-256"));
    assert!(reported(&store(&["backup", "--out", path], &dir), false).contains("not overwritten"));
    assert!(reported(&store(&["verify", "--file", path], &dir), true).contains("sound"));
    assert!(reported(&store(&["verify"], &dir), true).contains("2 tenants"));
    let second = visit(&dir, &[], &["default", "one"], "two").await;
    assert!(second > first);
    // Damaged: nothing is touched, whatever is forced.
    let whole = fs::read(&file).unwrap();
    let mut bad = whole.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    fs::write(&file, bad).unwrap();
    for args in [vec!["restore", "--force", "--from", path], vec!["verify", "--file", path]] {
        assert!(reported(&store(&args, &dir), false).contains("corrupt"));
    }
    fs::write(&file, whole).unwrap();
    assert!(reported(&store(&["restore", "--from", path], &dir), false).contains("--force"));
    let third = visit(&dir, &[], &["default", "one", "two"], "three").await;
    assert!(reported(&store(&["restore", "--force", "--from", path], &dir), true).contains("kept as"));
    let fourth = visit(&dir, &[], &["default", "one"], "four").await;
    assert!(fourth > third, "agents would refuse {fourth} after {third}");
    // A running controller's store is left alone.
    let running = Running::start(&dir);
    assert!(reported(&store(&["restore", "--force", "--from", path], &dir), false).contains("in use"));
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_damage_in_etcd_are_named_and_nothing_is_overwritten() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let endpoint = etcd.endpoint().to_string();
    let in_etcd = ["--store", "etcd", "--etcd-endpoints", &endpoint];
    let (_keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    visit(&dir, &in_etcd, &["default"], "one").await;
    let verify = [&["verify"][..], &in_etcd].concat();
    assert!(reported(&store(&verify, &dir), true).contains("2 tenants"));
    let by_hand = EtcdStore::open(EtcdOptions::new(vec![etcd.endpoint()])).await.unwrap();
    for (key, value) in [("/rail/v1/tenants/bad", "no message"), ("/rail/v1/other", "x")] {
        let revision = by_hand.put(key.into(), value.into()).await.unwrap();
        let faults = reported(&store(&verify, &dir), false);
        assert!(faults.contains(key), "{faults}");
        let mut run = program();
        run.args(["run", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--data-dir"])
            .arg(&dir)
            .args(in_etcd);
        let refused = reported(&run.output().unwrap(), false);
        assert!(refused.contains(key) && refused.contains("nothing was overwritten"), "{refused}");
        assert_eq!(by_hand.get(key.into()).await.unwrap().unwrap().mod_revision, revision);
        let leader = by_hand.get("/rail/v1/leader".into()).await.unwrap();
        assert!(leader.is_none_or(|leader| leader.mod_revision < revision), "not even the lead was taken");
        by_hand.delete(key.into()).await.unwrap();
    }
    visit(&dir, &in_etcd, &["default", "one"], "two").await;
}
