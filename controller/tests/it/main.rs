//! The real rail-controller as a process: init, run, kill -9, SIGTERM.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on shall say where"
)]

mod authority;
mod disaster;
mod etcd;
mod handshake;
mod keep;
mod sealed;
mod several;
mod tenants;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, Endpoint};
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, tenant_service_client::TenantServiceClient,
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// The program, with nothing of the surroundings' configuration.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rail-controller"));
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("RAIL_") || name.starts_with("OTEL_"))
    {
        command.env_remove(name);
    }
    command
}

fn init(dir: &Path, more: &[&str]) -> Output {
    program().arg("init").arg("--data-dir").arg(dir).args(more).output().unwrap()
}

/// A running controller; killed when dropped.
struct Running {
    child: Child,
    pub json: Value,
}

impl Running {
    fn start(dir: &Path) -> Self {
        Self::start_with(dir, &[])
    }

    fn start_with(dir: &Path, more: &[&str]) -> Self {
        let log = fs::File::create(dir.join("log")).unwrap();
        let mut command = program();
        command.args(["run", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--log-format", "json"]);
        command.arg("--data-dir").arg(dir).arg("--listen").arg(format!("unix:{}", dir.join("s").display()));
        command.args(more);
        let mut child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let (path, begin) = (dir.join("controller.json"), Instant::now());
        loop {
            if let Ok(text) = fs::read_to_string(&path) {
                let json: Value = serde_json::from_str(&text).expect("it is written whole");
                if json["pid"] == child.id() {
                    return Self { child, json };
                }
            }
            let ended = child.try_wait().unwrap();
            let log = || fs::read_to_string(dir.join("log")).unwrap_or_default();
            assert!(ended.is_none() && begin.elapsed() < PATIENCE, "it does not serve: {ended:?}\n{}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn client(&self, dir: &Path, endpoint: usize) -> Client {
        let files = CredentialFiles {
            ca: Some(dir.join("ca.pem")),
            certificate: Some(dir.join("admin.pem")),
            key: Some(dir.join("admin.key")),
            ..CredentialFiles::default()
        };
        let endpoint: Endpoint = self.json["endpoints"][endpoint].as_str().unwrap().parse().unwrap();
        Client::new(&[endpoint], &Credentials::load(&files).unwrap(), &ClientOptions::default()).unwrap()
    }

    /// SIGTERM by the shell's own kill, so that this test needs no unsafe code.
    fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    (dir, path)
}

fn tenant(name: &str) -> v1::ApplyTenantRequest {
    v1::ApplyTenantRequest {
        tenant: Some(v1::Tenant {
            metadata: Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() }),
            spec: Some(v1::TenantSpec::default()),
            ..v1::Tenant::default()
        }),
        dry_run: false,
        reuse_name: false,
    }
}

#[test]
fn the_first_administrator_is_made_once() {
    let (_keep, dir) = folder();
    let out = dir.join("admin");
    let made = init(&dir, &["--cluster", "lab", "--admin-out", out.to_str().unwrap()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(String::from_utf8_lossy(&made.stderr).contains("first administrator"), "it is in the log");
    let key = fs::metadata(out.join("admin.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(out.join("ca.pem")).unwrap(), fs::read(dir.join("ca.pem")).unwrap());
    let again = init(&dir, &[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("made already"));
    let mut foreign = program();
    foreign.args(["run", "--cluster", "other", "--metrics", "127.0.0.1:0"]).arg("--data-dir").arg(&dir);
    let foreign = foreign.output().unwrap();
    assert_eq!(foreign.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&foreign.stderr).contains("lab"), "the cluster's true name is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_loses_nothing_and_sigterm_ends_cleanly() {
    let (_keep, dir) = folder();
    assert!(init(&dir, &[]).status.success());
    let running = Running::start(&dir);
    let client = running.client(&dir, 0);
    let mut tenants = TenantServiceClient::new(client.clone());
    for n in 0..5 {
        tenants.apply_tenant(tenant(&format!("t{n}"))).await.unwrap();
    }
    let health =
        HealthServiceClient::new(client).get_health(v1::GetHealthRequest {}).await.unwrap().into_inner();
    drop(running);

    let running = Running::start(&dir);
    // By the unix socket this time.
    let client = running.client(&dir, 1);
    let list = v1::ListTenantsRequest::default();
    let mut tenants = TenantServiceClient::new(client.clone());
    let names: Vec<String> = tenants
        .list_tenants(list.clone())
        .await
        .unwrap()
        .into_inner()
        .tenants
        .into_iter()
        .map(|tenant| tenant.metadata.unwrap().name)
        .collect();
    assert_eq!(names, ["default", "t0", "t1", "t2", "t3", "t4"]);
    let again =
        HealthServiceClient::new(client).get_health(v1::GetHealthRequest {}).await.unwrap().into_inner();
    assert!(again.epoch > health.epoch);
    assert_eq!(again.version, env!("CARGO_PKG_VERSION"));
    let second = program()
        .args(["run", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
        .arg("--data-dir")
        .arg(&dir)
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&second.stderr).contains("in use"),
        "{}",
        String::from_utf8_lossy(&second.stderr)
    );
    assert!(tenants.list_tenants(list).await.is_ok(), "the first one was not disturbed");
    assert!(dir.join("controller.json").exists());
    assert_eq!(running.terminate(), Some(0));
    assert!(!dir.join("controller.json").exists() && !dir.join("s").exists(), "nothing stays behind");
    for line in fs::read_to_string(dir.join("log")).unwrap().lines() {
        let entry: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        assert!(entry["level"].is_string());
    }
}

#[test]
fn options_that_cannot_be_are_named() {
    for (args, named) in [
        (vec!["run", "--data-dir", "/nowhere/x", "--listen", "localhost:1"], "localhost:1"),
        (vec!["run", "--data-dir", "/proc/none", "--metrics", "127.0.0.1:0"], "/proc/none"),
        (vec!["run"], "--data-dir"),
    ] {
        let output = program().args(&args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(named), "{args:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_job_outlives_kill_9_and_carries_the_trace_of_its_submit() {
    let (_keep, dir) = folder();
    a_submitted_job_outlives(&dir, &[]).await;
}

/// A job of one node, which is joined so that there is one; with an environment.
async fn some_job(client: &Client, env: &[(&str, &str)]) -> v1::CreateJobRequest {
    use proto_wire::v1::{
        enroll_service_client::EnrollServiceClient, node_service_client::NodeServiceClient,
    };
    let ask = v1::CreateJoinTokenRequest { node: "n0".into(), lifetime: None };
    let token =
        NodeServiceClient::new(client.clone()).create_join_token(ask).await.unwrap().into_inner().token;
    let csr_pem = proto_rpc::KeyRequest::generate().unwrap().csr_pem;
    let join = v1::JoinRequest { token, node: "n0".into(), csr_pem };
    EnrollServiceClient::new(client.clone()).join(join).await.unwrap();
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let command = v1::Command { argv: vec!["true".into()], env, ..v1::Command::default() };
    let spec = v1::JobSpec {
        gang: Some(v1::Gang { nodes: 1, ..v1::Gang::default() }),
        work: Some(v1::job_spec::Work::Command(command)),
        ..v1::JobSpec::default()
    };
    let metadata = v1::Metadata { generate_name: "waits-".into(), ..v1::Metadata::default() };
    let job = v1::Job { metadata: Some(metadata), spec: Some(spec), ..v1::Job::default() };
    v1::CreateJobRequest { job: Some(job), ..v1::CreateJobRequest::default() }
}

/// Submits a job, kills the controller, starts it again, and finds the job as it was.
async fn a_submitted_job_outlives(dir: &Path, store: &[&str]) {
    use proto_wire::v1::job_service_client::JobServiceClient;
    assert!(init(dir, &[]).status.success());
    let running = Running::start_with(dir, store);
    let client = running.client(dir, 0);
    let mut submit = tonic::Request::new(some_job(&client, &[]).await);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    submit.metadata_mut().insert("traceparent", parent.parse().unwrap());
    let made = JobServiceClient::new(client).create_job(submit).await.unwrap().into_inner();
    let name = made.metadata.as_ref().unwrap().name.clone();
    assert!(name.starts_with("waits-") && name.len() > 6, "{name}");
    let carried = made.status.as_ref().unwrap().trace_parent.clone();
    assert!(carried.contains(trace) && carried != parent, "a child of the caller's span: {carried:?}");
    drop(running);

    let running = Running::start_with(dir, store);
    let mut jobs = JobServiceClient::new(running.client(dir, 0));
    let found = jobs.get_job(v1::GetJobRequest { name, tenant: String::new() }).await.unwrap().into_inner();
    assert_eq!(found, made);
}
