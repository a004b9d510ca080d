//! Secrets at rest: what a tenant puts into a job's environment is in no file, no etcd and no backup where keys are given.

use std::{fs, path::Path};

use controller_store::{EtcdOptions, EtcdStore, Store, real_etcd::RealEtcd};
use proto_wire::v1::{self, job_service_client::JobServiceClient};

use crate::{
    Running, folder, init,
    keep::{store, told},
    program, some_job,
};

const SECRET: &str = "hf_Zk3vQ0pWcRtYuIoPaSdF";

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
}

async fn submit(dir: &Path, flags: &[&str]) -> v1::Job {
    let running = Running::start_with(dir, flags);
    let client = running.client(dir, 0);
    let job = some_job(&client, &[("HF_TOKEN", SECRET)]).await;
    let made = JobServiceClient::new(client).create_job(job).await.unwrap().into_inner();
    assert_eq!(running.terminate(), Some(0));
    made
}

async fn is_read_back(dir: &Path, flags: &[&str], made: &v1::Job) {
    let running = Running::start_with(dir, flags);
    let name = made.metadata.as_ref().unwrap().name.clone();
    let ask = v1::GetJobRequest { name, tenant: String::new() };
    let found = JobServiceClient::new(running.client(dir, 0)).get_job(ask).await.unwrap().into_inner();
    assert_eq!(found.spec, made.spec);
    assert_eq!(running.terminate(), Some(0));
}

/// What a controller says that cannot start.
fn refused(dir: &Path, flags: &[&str]) -> String {
    let args = ["run", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    told(&program().args(args).args(flags).arg("--data-dir").arg(dir).output().unwrap(), false)
}

fn new_key(file: &str) {
    let output = program().args(["store", "key", file]).output().unwrap();
    assert!(told(&output, true).contains("in front"));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_sealed_in_the_data_folder_and_in_backups_and_keys_change() {
    let (_keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let file = dir.join("keys");
    let keys = ["--store-keys", file.to_str().unwrap()];
    let plain = submit(&dir, &[]).await;
    assert!(holds(&fs::read(dir.join("store/state.db")).unwrap()), "without keys it can be found");
    assert!(refused(&dir, &keys).contains("keys"), "the file is not there yet");
    new_key(keys[1]);
    is_read_back(&dir, &keys, &plain).await;
    assert!(told(&store(&["reseal"], &dir), false).contains("--store-keys is needed"));
    assert!(told(&store(&["reseal", keys[0], keys[1]], &dir), true).contains("1 of them were written anew"));
    let backup = |name: &str| {
        let path = dir.join(name);
        told(&store(&["backup", "--out", path.to_str().unwrap()], &dir), true);
        path
    };
    let sealed = backup("sealed");
    assert!(!holds(&fs::read(&sealed).unwrap()));
    let verify = ["verify", "--file", sealed.to_str().unwrap()];
    assert!(told(&store(&verify, &dir), false).contains("--store-keys"));
    assert!(told(&store(&[&verify[..], &keys].concat(), &dir), true).contains("sound"));

    // Without its key nothing starts, and nothing is lost by trying.
    assert!(refused(&dir, &[]).contains("/rail/v1/jobs/"));
    let foreign = dir.join("foreign");
    new_key(foreign.to_str().unwrap());
    assert!(refused(&dir, &["--store-keys", foreign.to_str().unwrap()]).contains("is not in"));

    // A new key: the old one opens until everything is written anew, and is not needed then.
    let old = fs::read_to_string(&file).unwrap();
    new_key(keys[1]);
    is_read_back(&dir, &keys, &plain).await;
    assert!(told(&store(&["reseal", keys[0], keys[1]], &dir), true).contains("1 of them"));
    assert!(told(&store(&["reseal", keys[0], keys[1]], &dir), true).contains("0 of them"));
    let both = fs::read_to_string(&file).unwrap();
    let newest: Vec<_> = both.lines().filter(|line| !old.contains(line)).collect();
    fs::write(&file, newest.join("\n")).unwrap();
    is_read_back(&dir, &keys, &plain).await;
    assert!(told(&store(&["reseal", "--plain", keys[0], keys[1]], &dir), true).contains("1 of them"));
    is_read_back(&dir, &[], &plain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_sealed_in_etcd() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let endpoint = etcd.endpoint().to_string();
    let (_keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let file = dir.join("keys");
    new_key(file.to_str().unwrap());
    let flags = ["--store", "etcd", "--etcd-endpoints", &endpoint, "--store-keys", file.to_str().unwrap()];
    let made = submit(&dir, &flags).await;
    let raw = EtcdStore::open(EtcdOptions::new(vec![etcd.endpoint()])).await.unwrap();
    let rows = raw.range_all("".into()).await.unwrap().items;
    assert!(rows.iter().any(|kv| kv.key.starts_with(b"/rail/v1/jobs/")));
    assert!(rows.iter().all(|kv| !holds(&kv.value)));
    is_read_back(&dir, &flags, &made).await;

    // Written anew only while nobody leads.
    let running = Running::start_with(&dir, &flags);
    new_key(file.to_str().unwrap());
    let reseal = [&["reseal"], &flags[..]].concat();
    assert!(told(&store(&reseal, &dir), false).contains("a controller leads"));
    assert_eq!(running.terminate(), Some(0));
    // Who ends in good order leaves no lead behind, also if it is told to before it leads.
    assert!(told(&store(&reseal, &dir), true).contains("written anew"));
    is_read_back(&dir, &flags, &made).await;
}
