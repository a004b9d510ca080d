//! The real controller on a real etcd: killed and started again, silent for a while, deposed, and refused.

use std::time::{Duration, Instant};

use controller_store::real_etcd::RealEtcd;
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, tenant_service_client::TenantServiceClient,
};

use crate::{PATIENCE, Running, a_submitted_job_outlives, folder, init, program, tenant};

/// Options for a store in it, as a user gives them, and a patience that an etcd which only gets no processor does not use up.
pub fn flags(etcd: &RealEtcd) -> Vec<String> {
    flags_with(etcd, "30s")
}

/// The same with another longest wait for one answer.
fn flags_with(etcd: &RealEtcd, deadline: &str) -> Vec<String> {
    let endpoint = etcd.endpoint().to_string();
    ["--store", "etcd", "--etcd-deadline", deadline, "--etcd-endpoints", &endpoint]
        .map(str::to_owned)
        .to_vec()
}

pub fn texts(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_etcd_outlives_kill_9() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let (_keep, dir) = folder();
    a_submitted_job_outlives(&dir, &texts(&flags(&etcd))).await;
    assert!(!dir.join("store").exists(), "nothing is kept beside etcd");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_etcd_is_told_and_writes_work_again_by_themselves() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let (_keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let running = Running::start_with(&dir, &texts(&flags_with(&etcd, "2s")));
    let client = running.client(&dir, 0);
    let mut tenants = TenantServiceClient::new(client.clone());
    let mut health = HealthServiceClient::new(client);
    tenants.apply_tenant(tenant("before")).await.unwrap();
    let epoch = health.get_health(v1::GetHealthRequest {}).await.unwrap().into_inner().epoch;
    etcd.pause();
    let begin = Instant::now();
    let refused = tenants.apply_tenant(tenant("during")).await.unwrap_err();
    assert!(refused.message().contains("stored"), "{refused}");
    // Not at the end of the caller's own patience, which is 30 s.
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
    // Reads of what was committed go on meanwhile, and say what is wrong.
    let seen = health.get_health(v1::GetHealthRequest {}).await.unwrap().into_inner();
    assert!(
        !seen.store_writable && seen.reasons.iter().any(|reason| reason.code == "StoreUnwritable"),
        "{seen:?}"
    );
    etcd.resume();
    let begin = Instant::now();
    while !health.get_health(v1::GetHealthRequest {}).await.unwrap().into_inner().store_writable {
        assert!(begin.elapsed() < PATIENCE, "it never takes writes again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tenants.apply_tenant(tenant("after")).await.unwrap();
    let list = tenants.list_tenants(v1::ListTenantsRequest::default()).await.unwrap().into_inner();
    let names: Vec<_> = list.tenants.into_iter().map(|tenant| tenant.metadata.unwrap().name).collect();
    // The refused one is there or not, as it was told; the others are.
    assert!(
        ["after", "before", "default"].iter().all(|name| names.iter().any(|found| found == name)),
        "{names:?}"
    );
    let after = health.get_health(v1::GetHealthRequest {}).await.unwrap().into_inner();
    // The same controller leads on, but what became of the refused one was not known when its epoch ended.
    assert!(after.epoch > epoch, "{} after {epoch}", after.epoch);
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn options_of_etcd_that_cannot_be_are_named() {
    let (_keep, dir) = folder();
    for (args, named) in [
        (vec!["--etcd-endpoints", "http://127.0.0.1:1"], "--store etcd"),
        (vec!["--store", "etcd", "--etcd-endpoints", "127.0.0.1:1"], "https://host:2379"),
        (vec!["--store", "etcd", "--etcd-endpoints", "http://192.0.2.1"], "not encrypted"),
        (vec!["--store", "etcd", "--etcd-endpoints", "https://127.0.0.1:1"], "CA"),
        (vec!["--store", "etcd", "--etcd-prefix", "x"], "prefix"),
        (
            vec!["--store", "etcd", "--etcd-deadline", "50ms", "--etcd-endpoints", "http://127.0.0.1:1"],
            "does not answer",
        ),
        (
            vec!["--store", "etcd", "--etcd-ca", "/nowhere/ca.pem", "--etcd-endpoints", "https://h"],
            "/nowhere/ca.pem",
        ),
    ] {
        let mut command = program();
        command.args(["run", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--data-dir"]).arg(&dir);
        let output = command.args(&args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(named), "{args:?}: {text}");
    }
}
