//! The run-books of docs/operations.md against real programs: backups on a schedule, drills, a machine that is lost with and without copies of the authority,
//! an etcd that is lost for good.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use controller_store::real_etcd::RealEtcd;
use proto_rpc::{
    CertificateSlot, Client, ClientOptions, CredentialFiles, Credentials, Endpoint, KeyRequest, tls::Trust,
};
use proto_wire::v1::{
    self, agent_service_client::AgentServiceClient, enroll_service_client::EnrollServiceClient,
    health_service_client::HealthServiceClient, job_service_client::JobServiceClient,
    node_service_client::NodeServiceClient,
};
use serde_json::Value;

use crate::{
    PATIENCE, Running,
    etcd::{flags, texts},
    folder, init,
    keep::{reported, store},
    program, some_job,
};

/// What a cluster cannot be had without, beside a backup of its store.
const KEYS: [&str; 3] = ["ca.pem", "ca.key", "store.keys"];

/// Options of backups every second into a folder.
fn schedule(backups: &Path, keep: &str) -> Vec<String> {
    let dir = backups.to_str().unwrap();
    ["--backup-dir", dir, "--backup-every", "1s", "--backup-keep", keep].map(str::to_owned).to_vec()
}

/// The backups of a folder, the oldest first, with the revision that each shows.
fn backups(dir: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries
        .filter_map(|path| {
            let stem = path.file_name()?.to_str()?.strip_prefix("rail-")?.strip_suffix(".rail")?.to_owned();
            Some((path, stem.split('-').nth(1)?.parse().unwrap()))
        })
        .collect();
    found.sort();
    found
}

/// The newest backup that shows a revision, or a later one.
async fn backup_of(dir: &Path, revision: u64) -> PathBuf {
    let mut newest = None;
    until("no backup is made", || {
        newest = backups(dir).pop().filter(|(_, shown)| *shown >= revision);
        newest.is_some()
    })
    .await;
    newest.unwrap().0
}

/// A copy of the newest backup that shows a revision, or a later one: the file itself may be removed at any moment.
async fn copy_of(dir: &Path, revision: u64, to: &Path) {
    let begin = Instant::now();
    while let Err(error) = fs::copy(backup_of(dir, revision).await, to) {
        assert!(error.kind() == ErrorKind::NotFound && begin.elapsed() < PATIENCE, "{error}");
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// What a drill says, which must go well or not.
fn drill(file: &Path, more: &[&str], well: bool) -> (Value, String) {
    let output =
        program().args(["store", "drill", "-o", "json", "--file"]).arg(file).args(more).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), well, "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["starts"], well);
    (report, said)
}

/// A node that has joined, as its agent is known to controllers.
async fn agent(admin: &Client, running: &Running, name: &str) -> (Client, String) {
    let ask = v1::CreateJoinTokenRequest { node: name.into(), lifetime: None };
    let token =
        NodeServiceClient::new(admin.clone()).create_join_token(ask).await.unwrap().into_inner().token;
    let key = KeyRequest::generate().unwrap();
    let join = v1::JoinRequest { token, node: name.into(), csr_pem: key.csr_pem };
    let joined = EnrollServiceClient::new(admin.clone()).join(join).await.unwrap().into_inner();
    let slot = CertificateSlot::new(&joined.certificate_pem, &key.key_pem).unwrap();
    let credentials = Credentials::new(Trust::Ca(joined.ca_pem)).with_certificate(slot);
    let endpoint: Endpoint = running.json["endpoints"][1].as_str().unwrap().parse().unwrap();
    (Client::new(&[endpoint], &credentials, &ClientOptions::default()).unwrap(), name.to_owned())
}

/// Whether controllers know an agent still: they renew its certificate.
async fn is_known(agent: &Client) -> bool {
    let csr_pem = KeyRequest::generate().unwrap().csr_pem;
    let ask = v1::RenewCertificateRequest { csr_pem };
    AgentServiceClient::new(agent.clone()).renew_certificate(ask).await.is_ok()
}

async fn job(client: &Client, name: &str) -> Result<v1::Job, tonic::Status> {
    let ask = v1::GetJobRequest { name: name.to_owned(), tenant: String::new() };
    Ok(JobServiceClient::new(client.clone()).get_job(ask).await?.into_inner())
}

async fn submitted(client: &Client) -> v1::Metadata {
    let ask = some_job(client, &[("HF_TOKEN", "sealed")]).await;
    JobServiceClient::new(client.clone()).create_job(ask).await.unwrap().into_inner().metadata.unwrap()
}

async fn epoch(client: &Client) -> u64 {
    let health = HealthServiceClient::new(client.clone()).get_health(v1::GetHealthRequest {}).await;
    health.unwrap().into_inner().epoch
}

fn copy(files: &[&str], from: &Path, to: &Path) {
    for file in files {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

/// The machine is gone with its data folder; another one has the three files and a backup.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_machine_comes_back_from_the_newest_backup_on_the_schedule() {
    let (keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let (room, copies) = (keep.path().join("backups"), keep.path().join("copies"));
    fs::create_dir(&copies).unwrap();
    copy(&[&KEYS[..], &["admin.pem", "admin.key"]].concat(), &dir, &copies);
    fs::create_dir(&room).unwrap();
    let others = ["monday.rail", "rail-20200101T000000Z-00000000000000000007-00000000.rail"];
    for other in others {
        fs::write(room.join(other), "somebody else's").unwrap();
    }
    let running = Running::start_with(&dir, &texts(&schedule(&room, "2")));
    let client = running.client(&dir, 0);
    let (known, _) = agent(&client, &running, "n1").await;
    let made = submitted(&client).await;
    let before = epoch(&client).await;
    let revision = made.resource_version;
    let first = backup_of(&room, revision).await;
    // Two are kept, and nothing that is somebody else's goes.
    let own = |path: &Path| !others.iter().any(|other| path.ends_with(other));
    let kept = || backups(&room).iter().filter(|(path, _)| own(path)).count();
    until("old backups stay", || !first.exists() && kept() <= 2).await;
    assert!(others.iter().all(|other| room.join(other).exists()), "of a cluster of the same name neither");
    let newest_copy = keep.path().join("offsite.rail");
    copy_of(&room, revision, &newest_copy).await;
    let mode = fs::metadata(&newest_copy).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "a copy has the mode of its original");
    assert!(is_known(&known).await);
    // A drill while the controller runs: its own store is not touched.
    let data = dir.to_str().unwrap();
    let (report, _) = drill(&newest_copy, &["--data-dir", data], true);
    assert_eq!(report["led"]["jobs"], 1, "{report}");
    assert!(report["notes"].to_string().contains("in use"), "{report}");

    // SIGKILL, and everything of the data folder is gone; what was made since the backup is lost.
    let lost = submitted(&client).await.name;
    drop(running);
    let (report, _) = drill(&newest_copy, &["--data-dir", data], true);
    assert!(report["restore"]["lost"].to_string().contains(&lost), "{report}");
    assert_eq!(report["restore"]["kinds"]["jobs"]["lost"], 1, "{report}");
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    copy(&[&KEYS[..], &["admin.pem", "admin.key"]].concat(), &copies, &dir);
    reported(&store(&["restore", "--from", newest_copy.to_str().unwrap()], &dir), true);
    let running = Running::start_with(&dir, &texts(&schedule(&room, "2")));
    let client = running.client(&dir, 0);
    assert_eq!(job(&client, &made.name).await.unwrap().metadata.unwrap().uid, made.uid);
    assert_eq!(job(&client, &lost).await.unwrap_err().code(), tonic::Code::NotFound);
    assert!(epoch(&client).await > before, "agents would refuse a lower one");
    assert!(is_known(&known).await, "an agent goes on with the certificate that it has");
    // And backups go on, above all that was before.
    backup_of(&room, before + 1_000_000).await;
    assert_eq!(running.terminate(), Some(0));
}

/// Nobody has a copy of the authority: the state comes back, and everybody has to be let in anew.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_copy_of_the_authority_the_state_is_saved_and_everybody_joins_anew() {
    let (keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let room = keep.path().join("backups");
    fs::create_dir(&room).unwrap();
    let running = Running::start_with(&dir, &texts(&schedule(&room, "50")));
    let client = running.client(&dir, 0);
    let (known, node) = agent(&client, &running, "n1").await;
    let made = submitted(&client).await;
    let newest = backup_of(&room, made.resource_version).await;
    drop(running);

    let second = keep.path().join("second");
    fs::create_dir(&second).unwrap();
    copy(&["store.keys"], &dir, &second);
    let data = second.to_str().unwrap();
    let (report, _) = drill(&newest, &["--data-dir", data], true);
    assert!(report["notes"].to_string().contains("no authority"), "{report}");
    assert!(!second.join("ca.pem").exists(), "a drill makes none");
    reported(&store(&["restore", "--from", newest.to_str().unwrap()], &second), true);
    assert!(init(&second, &[]).status.success());
    let running = Running::start(&second);
    let client = running.client(&second, 0);
    assert_eq!(job(&client, &made.name).await.unwrap().metadata.unwrap().uid, made.uid);
    // What the old authority has issued is refused; a token lets the node in again, under its name.
    let endpoint: Endpoint = running.json["endpoints"][0].as_str().unwrap().parse().unwrap();
    let files = CredentialFiles {
        ca: Some(second.join("ca.pem")),
        certificate: Some(dir.join("admin.pem")),
        key: Some(dir.join("admin.key")),
        ..CredentialFiles::default()
    };
    let old = Credentials::load(&files).unwrap();
    let old = Client::new(&[endpoint], &old, &ClientOptions::default()).unwrap();
    assert!(job(&old, &made.name).await.is_err());
    assert!(!is_known(&known).await);
    let (again, _) = agent(&client, &running, &node).await;
    assert!(is_known(&again).await);
    assert_eq!(running.terminate(), Some(0));
}

/// etcd has lost its quorum for good: another etcd is filled from the newest backup, and all controllers go on there.
#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_is_lost_for_good_is_replaced_from_a_backup() {
    let Some(mut etcd) = RealEtcd::start(&[]) else { return };
    let (keep, first) = folder();
    assert!(init(&first, &[]).status.success());
    let second = keep.path().join("second");
    fs::create_dir(&second).unwrap();
    copy(&KEYS, &first, &second);
    let room = keep.path().join("backups");
    fs::create_dir(&room).unwrap();
    let start = |etcd: &RealEtcd, dir: &Path| {
        let options = [flags(etcd), schedule(&room, "50")].concat();
        Running::start_with(dir, &texts(&options))
    };
    let (leads, follows) = (start(&etcd, &first), start(&etcd, &second));
    let client = leads.client(&first, 0);
    let made = submitted(&client).await;
    let before = epoch(&client).await;
    let newest = backup_of(&room, made.resource_version).await;
    etcd.kill();
    drop((leads, follows));

    let Some(replaced) = RealEtcd::start(&[]) else { return };
    let endpoint = replaced.endpoint().to_string();
    let in_etcd = ["--store", "etcd", "--etcd-endpoints", &endpoint];
    let data = first.to_str().unwrap();
    let (report, _) = drill(&newest, &[&["--data-dir", data], &in_etcd[..]].concat(), true);
    assert_eq!(report["led"]["jobs"], 1, "{report}");
    let path = newest.to_str().unwrap();
    reported(&store(&[&["restore", "--from", path], &in_etcd[..]].concat(), &first), true);
    let (leads, follows) = (start(&replaced, &first), start(&replaced, &second));
    for running in [&leads, &follows] {
        let client = running.client(&first, 0);
        assert_eq!(job(&client, &made.name).await.unwrap().metadata.unwrap().uid, made.uid);
        assert!(epoch(&client).await > before, "agents would refuse a lower one");
    }
    backup_of(&room, before + 1_000_000).await;
    // Nothing is lost that was in the backup: the other way round it is compared too.
    let (report, _) = drill(&newest, &[&["--data-dir", data], &in_etcd[..]].concat(), true);
    assert!(report["restore"]["lost"].as_array().unwrap().is_empty(), "{report}");
    assert_eq!(follows.terminate(), Some(0));
    assert_eq!(leads.terminate(), Some(0));
}

/// What makes a backup worthless is found by a drill, and a drill leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_drill_finds_what_makes_a_backup_worthless() {
    let (keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let running = Running::start(&dir);
    submitted(&running.client(&dir, 0)).await;
    assert_eq!(running.terminate(), Some(0));
    let file = keep.path().join("monday.rail");
    let path = file.to_str().unwrap();
    reported(&store(&["backup", "--out", path], &dir), true);
    let whole = fs::read(&file).unwrap();
    let scratch = keep.path().join("tmp");
    fs::create_dir(&scratch).unwrap();
    let said = |more: &[&str]| {
        let mut command = program();
        command.env("TMPDIR", &scratch).args(["store", "drill", "--file", path]).args(more);
        let output = command.output().unwrap();
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "it leaves nothing behind");
        output
    };
    let data = dir.to_str().unwrap();
    let good = reported(&said(&["--data-dir", data]), true);
    assert!(good.contains("1 jobs") && good.contains("would lose nothing"), "{good}");
    assert!(good.contains("a controller starts from it"), "{good}");
    // Without keys, and with others.
    assert!(reported(&said(&[]), false).contains("the keys do not fit"));
    let other = keep.path().join("other.keys");
    reported(&program().args(["store", "key"]).arg(&other).output().unwrap(), true);
    let wrong = reported(&said(&["--store-keys", other.to_str().unwrap()]), false);
    assert!(wrong.contains("the keys do not fit") && wrong.contains("store.keys"), "{wrong}");
    // An authority whose key is gone: no controller starts in that folder.
    fs::rename(dir.join("ca.key"), dir.join("aside")).unwrap();
    assert!(reported(&said(&["--data-dir", data]), false).contains("the authority in"));
    fs::rename(dir.join("aside"), dir.join("ca.key")).unwrap();
    // Without its certificate the key is looked at all the same.
    fs::rename(dir.join("ca.pem"), dir.join("aside")).unwrap();
    let again = reported(&said(&["--data-dir", data]), true);
    assert!(again.contains("there is no ca.pem") && again.contains("its key opens"), "{again}");
    fs::rename(dir.join("ca.key"), dir.join("aside.key")).unwrap();
    let mode = fs::metadata(dir.join("aside.key")).unwrap().permissions();
    fs::write(dir.join("ca.key"), "no key").unwrap();
    fs::set_permissions(dir.join("ca.key"), mode).unwrap();
    assert!(reported(&said(&["--data-dir", data]), false).contains("the authority in"));
    fs::rename(dir.join("aside.key"), dir.join("ca.key")).unwrap();
    fs::rename(dir.join("aside"), dir.join("ca.pem")).unwrap();
    assert_eq!(fs::read(&file).unwrap(), whole, "the backup is as it was");
    let mut bad = whole;
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    fs::write(&file, bad).unwrap();
    assert!(reported(&said(&["--data-dir", data]), false).contains("corrupt"));
    fs::remove_file(&file).unwrap();
    let gone = reported(&said(&["--data-dir", data]), false);
    assert!(gone.contains("monday.rail"), "{gone}");
}

/// A drill that is told to stop leaves nothing behind, also while its file does not answer.
#[test]
fn a_drill_that_is_stopped_leaves_nothing_behind() {
    let keep = tempfile::tempdir().unwrap();
    let file = keep.path().join("silent.rail");
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let begun = ["-TERM", "-INT", "-HUP"].map(|signal| {
        let scratch = keep.path().join(signal);
        fs::create_dir(&scratch).unwrap();
        let mut drill = program();
        drill.env("TMPDIR", &scratch).args(["store", "drill", "--file"]).arg(&file);
        (signal, scratch, drill.spawn().unwrap())
    });
    for (signal, scratch, mut drill) in begun {
        let begin = Instant::now();
        let count = || fs::read_dir(&scratch).unwrap().count();
        while count() == 0 {
            assert!(begin.elapsed() < PATIENCE, "it does not begin");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(Command::new("kill").args([signal, &drill.id().to_string()]).status().unwrap().success());
        assert_eq!(drill.wait().unwrap().code(), Some(1), "{signal}");
        assert_eq!(count(), 0, "{signal}");
    }
}

/// A folder that is not there is not made, which would fill another disk. That is told, counted, and costs nothing else; it is tried again.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_fails_costs_the_controller_nothing() {
    let (keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let room = keep.path().join("backups");
    let running = Running::start_with(&dir, &texts(&schedule(&room, "2")));
    let client = running.client(&dir, 0);
    let log = || fs::read_to_string(dir.join("log")).unwrap();
    until("it is not told", || log().contains("no backup is made")).await;
    let made = submitted(&client).await;
    assert!(!room.exists());
    fs::create_dir(&room).unwrap();
    backup_of(&room, made.resource_version).await;
    until("that it works again is not told", || log().contains("backups are made again")).await;
    assert_eq!(log().matches("no backup is made").count(), 1, "{}", log());
    assert_eq!(running.terminate(), Some(0));
}
