//! Secrets at rest: what a tenant puts into a job's environment is in no file, no etcd and no backup unless that is asked for.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use controller_store::{EtcdOptions, EtcdStore, Store, real_etcd::RealEtcd};
use proto_wire::v1::{self, job_service_client::JobServiceClient};

use crate::{
    Running, folder, init,
    keep::{reported, store},
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
    reported(&program().args(args).args(flags).arg("--data-dir").arg(dir).output().unwrap(), false)
}

/// The files below a folder that hold the secret.
fn found_in(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(found_in(&path));
        } else if path.is_file() && holds(&fs::read(&path).unwrap()) {
            found.push(path);
        }
    }
    found
}

fn log(dir: &Path) -> String {
    fs::read_to_string(dir.join("log")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_sealed_unless_told_otherwise() {
    let (_keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join("store.keys"))), (0o700, 0o600));
    let made = submit(&dir, &[]).await;
    assert_eq!(found_in(&dir), Vec::<std::path::PathBuf>::new());
    is_read_back(&dir, &[], &made).await;
    let backup = dir.join("monday");
    reported(&store(&["backup", "--out", backup.to_str().unwrap()], &dir), true);
    assert!(!holds(&fs::read(&backup).unwrap()));

    // Without its key, with another one, or told to be plain, nothing starts, and nothing is made that would seem to be it.
    let (keys, aside) = (dir.join("store.keys"), dir.join("aside"));
    fs::rename(&keys, &aside).unwrap();
    let error = refused(&dir, &[]);
    assert!(error.contains("sealed with key") && error.contains("as ca.key"), "{error}");
    assert!(!keys.exists());
    new_key(keys.to_str().unwrap());
    assert!(refused(&dir, &[]).contains("sealed with key"));
    assert!(refused(&dir, &["--store-keys", "none"]).contains("--store-keys is none"));
    fs::rename(&aside, &keys).unwrap();
    is_read_back(&dir, &[], &made).await;
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(&dir, &[]).contains("chmod 600"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_store_is_opened_and_sealed_from_then_on() {
    let (_keep, dir) = folder();
    assert!(init(&dir, &["--store-keys", "none"]).status.success());
    assert!(!dir.join("store.keys").exists());
    let plain = submit(&dir, &["--store-keys", "none"]).await;
    assert!(log(&dir).contains("stored in the plain (--store-keys none)"));
    assert_eq!(found_in(&dir), [dir.join("store/state.db")]);
    is_read_back(&dir, &[], &plain).await;
    assert!(log(&dir).contains("store reseal"), "{}", log(&dir));
    is_read_back(&dir, &[], &plain).await;
    assert!(!log(&dir).contains("store reseal"), "it is told once");
    assert!(reported(&store(&["reseal"], &dir), true).contains("1 of them were written anew"));
    // Freed pages are left behind by the database, not by a backup.
    let backup = dir.join("monday");
    reported(&store(&["backup", "--out", backup.to_str().unwrap()], &dir), true);
    assert!(!holds(&fs::read(&backup).unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_provider_keeps_every_secret_file_sealed() {
    let (_keep, dir) = folder();
    let kek = dir.parent().unwrap().join("kek");
    new_key(kek.to_str().unwrap());
    let given = format!("file:{}", kek.display());
    let provider = ["--key-provider", given.as_str()];
    assert!(init(&dir, &provider).status.success());
    for file in ["ca.key", "store.keys"] {
        let text = fs::read_to_string(dir.join(file)).unwrap();
        assert!(text.starts_with("{\"format\":\"railyard-envelope\""), "{file}: {text}");
    }
    let made = submit(&dir, &provider).await;
    is_read_back(&dir, &provider, &made).await;
    assert!(refused(&dir, &[]).contains("--key-provider"));
    let other = dir.parent().unwrap().join("other");
    new_key(other.to_str().unwrap());
    let error = refused(&dir, &["--key-provider", &format!("file:{}", other.display())]);
    assert!(error.contains("does not unwrap"), "{error}");
    // And back into the clear, for a site that gives the provider up.
    let keys = dir.join("store.keys");
    let rewrap = |more: &[&str]| {
        let args = ["store", "key", "--rewrap", keys.to_str().unwrap()];
        program().args(args).args(more).output().unwrap()
    };
    assert!(reported(&rewrap(&["--old-key-provider", &given]), true).contains("in the clear"));
    assert!(fs::read_to_string(&keys).unwrap().starts_with('#'));
    is_read_back(&dir, &provider, &made).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_s_key_is_encrypted_and_opens_with_its_passphrase_only() {
    let (_keep, dir) = folder();
    assert!(init(&dir, &["--ca-days", "30"]).status.success());
    let plain = fs::read_to_string(dir.join("ca.key")).unwrap();
    assert!(plain.contains("BEGIN PRIVATE KEY"));
    let words = dir.parent().unwrap().join("words");
    proto_rpc::files::write_secret(&words, "correct horse battery\n").unwrap();
    let given = ["--ca-passphrase-file", words.to_str().unwrap()];
    let encrypt = |more: &[&str]| {
        program().args(["ca", "encrypt", "--data-dir"]).arg(&dir).args(more).output().unwrap()
    };
    assert!(reported(&encrypt(&[]), false).contains("nothing is given to encrypt"));
    assert!(reported(&encrypt(&given), true).contains("encrypted with a passphrase"));
    let sealed = fs::read_to_string(dir.join("ca.key")).unwrap();
    assert!(sealed.contains("BEGIN ENCRYPTED PRIVATE KEY"));
    assert!(refused(&dir, &[]).contains("--ca-passphrase-file"));
    let made = submit(&dir, &given).await;
    is_read_back(&dir, &given, &made).await;
    proto_rpc::files::write_secret(&words, "incorrect horse battery\n").unwrap();
    assert!(refused(&dir, &given).contains("does not open"));
    proto_rpc::files::write_secret(&words, "short\n").unwrap();
    assert!(refused(&dir, &given).contains("must have 12"));
    let mut by_environment = program();
    by_environment.env("RAIL_CONTROLLER_CA_PASSPHRASE", "wrong but long enough");
    let args = ["run", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--data-dir"];
    let output = by_environment.args(args).arg(&dir).output().unwrap();
    assert!(reported(&output, false).contains("does not open"));
}

fn new_key(file: &str) {
    let output = program().args(["store", "key", file]).output().unwrap();
    assert!(reported(&output, true).contains("in front"));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_sealed_in_the_data_folder_and_in_backups_and_keys_change() {
    let (_keep, dir) = folder();
    assert!(init(&dir, &["--store-keys", "none"]).status.success());
    let file = dir.join("keys");
    let keys = ["--store-keys", file.to_str().unwrap()];
    let plain = submit(&dir, &["--store-keys", "none"]).await;
    assert!(holds(&fs::read(dir.join("store/state.db")).unwrap()), "without keys it can be found");
    assert!(refused(&dir, &keys).contains("keys"), "the file is not there yet");
    new_key(keys[1]);
    is_read_back(&dir, &keys, &plain).await;
    assert!(reported(&store(&["reseal"], &dir), false).contains("--store-keys is needed"));
    assert!(
        reported(&store(&["reseal", keys[0], keys[1]], &dir), true).contains("1 of them were written anew")
    );
    let backup = |name: &str| {
        let path = dir.join(name);
        reported(&store(&["backup", "--out", path.to_str().unwrap()], &dir), true);
        path
    };
    let sealed = backup("sealed");
    assert!(!holds(&fs::read(&sealed).unwrap()));
    let verify = ["verify", "--file", sealed.to_str().unwrap()];
    assert!(reported(&store(&verify, &dir), false).contains("--store-keys"));
    assert!(reported(&store(&[&verify[..], &keys].concat(), &dir), true).contains("sound"));

    // Without its key nothing starts, and nothing is lost by trying.
    assert!(refused(&dir, &[]).contains("sealed with key"));
    let foreign = dir.join("foreign");
    new_key(foreign.to_str().unwrap());
    assert!(refused(&dir, &["--store-keys", foreign.to_str().unwrap()]).contains("not in"));

    // A new key: the old one opens until everything is written anew, and is not needed then.
    let old = fs::read_to_string(&file).unwrap();
    new_key(keys[1]);
    is_read_back(&dir, &keys, &plain).await;
    assert!(reported(&store(&["reseal", keys[0], keys[1]], &dir), true).contains("1 of them"));
    assert!(reported(&store(&["reseal", keys[0], keys[1]], &dir), true).contains("0 of them"));
    let both = fs::read_to_string(&file).unwrap();
    let newest: Vec<_> = both.lines().filter(|line| !old.contains(line)).collect();
    fs::write(&file, newest.join("\n")).unwrap();
    is_read_back(&dir, &keys, &plain).await;
    assert!(reported(&store(&["reseal", "--plain", keys[0], keys[1]], &dir), true).contains("1 of them"));
    is_read_back(&dir, &["--store-keys", "none"], &plain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_controller_needs_the_key_of_the_first() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let endpoint = etcd.endpoint().to_string();
    let flags = ["--store", "etcd", "--etcd-endpoints", &endpoint];
    let (_keep, first) = folder();
    assert!(init(&first, &[]).status.success());
    let running = Running::start_with(&first, &flags);
    let (_keep, second) = folder();
    fs::create_dir(&second).unwrap();
    for file in ["ca.pem", "ca.key"] {
        fs::copy(first.join(file), second.join(file)).unwrap();
    }
    let error = refused(&second, &flags);
    assert!(error.contains("copy the file of keys from a controller"), "{error}");
    assert!(!second.join("store.keys").exists());
    fs::copy(first.join("store.keys"), second.join("store.keys")).unwrap();
    assert_eq!(Running::start_with(&second, &flags).terminate(), Some(0));
    assert_eq!(running.terminate(), Some(0));
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
    assert!(reported(&store(&reseal, &dir), false).contains("a controller leads"));
    assert_eq!(running.terminate(), Some(0));
    // Who ends in good order leaves no lead behind, also if it is told to before it leads.
    assert!(reported(&store(&reseal, &dir), true).contains("written anew"));
    is_read_back(&dir, &flags, &made).await;
}
